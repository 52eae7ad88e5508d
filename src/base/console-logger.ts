import type { Logger } from './logger.ts'
import { safe, safeJson, safeLines } from './safe-json.ts'

/**
 * Warnings and errors to standard error, used where no logger is given. On a terminal, a line of text, with the stack of an error below
 * it; elsewhere, one JSON line each.
 */
export const consoleLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: (fields, message) => write('warn', fields, message),
  error: (fields, message) => write('error', fields, message),
}

function write(level: string, fields: object, message: string): void {
  const head = { time: new Date().toISOString(), level, msg: `hapax: ${message}` }
  process.stderr.write(`${process.stderr.isTTY ? text(head, fields) : json(head, fields)}\n`)
}

interface Head {
  readonly time: string
  readonly level: string
  readonly msg: string
}

// JSON, so that characters in ids and messages cannot forge a line. `msg`, as pino has it: many fields have a message of their own. The
// head is named twice: it comes first, and no field takes its place.
function json(head: Head, fields: object): string {
  return safeJson({ ...head, ...fields, ...head })
}

/** What a person reads: the sentence and the error first, then the rest. */
function text({ time, level, msg }: Head, fields: object): string {
  const { error, code, stack, advice, message, ...others }: Record<string, unknown> = { ...fields }
  const about = typeof message === 'object' ? { ...message, ...others } : others
  const named = Object.entries(about).map(([name, value]) => `${safe(name)}=${shown(value)}`)
  const reason = error === undefined ? '' : `: ${shown(error)}`
  const first = [`${time} ${level.padEnd(5)} ${safe(msg)}${reason}`, code === undefined ? '' : `(${shown(code)})`]
  return [
    [...first, ...named].filter((part) => part !== '').join(' '),
    ...(typeof advice === 'string' ? [`    ${safe(advice)}`] : []),
    ...(typeof stack === 'string' ? safeLines(stack).map((line) => `    ${line.trimStart()}`) : []),
  ].join('\n')
}

function shown(value: unknown): string {
  return typeof value === 'string' ? safe(value) : safeJson(value ?? null)
}
