// How a line of the log is written where no library does it.

import { faultFields } from './errors.ts'
import { safe, safeJson, safeLines } from './safe-json.ts'

type Fields = Readonly<Record<string, unknown>>

/** A line of text on a terminal, with the stack of an error below it; a line of JSON elsewhere. */
export function logLine(level: string, fields: object, sentence: string, terminal: boolean): string {
  const head = { time: new Date().toISOString(), level, msg: `hapax: ${sentence}` }
  const writable = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, asJson(value)]))
  return terminal ? text(head, writable) : json(head, writable)
}

/** A field that is no JSON, such as a big integer or a circle, must not hide the others. Of an error, JSON would have nothing. */
function asJson(value: unknown): unknown {
  if (value instanceof Error) return faultFields(value)
  if (typeof value !== 'object') return typeof value === 'bigint' ? String(value) : value
  try {
    JSON.stringify(value)
    return value
  } catch {
    return '(cannot be written as JSON)'
  }
}

interface Head {
  readonly time: string
  readonly level: string
  readonly msg: string
}

// JSON, so that characters in ids and messages cannot forge a line. `msg`, as pino has it. The head is named twice: it comes first, and
// no field takes its place.
function json(head: Head, fields: object): string {
  return safeJson({ ...head, ...fields, ...head })
}

/** What a person reads: the sentence and the error first, then the rest. */
function text({ time, level, msg }: Head, fields: Fields): string {
  const { error, code, stack, advice, about, ...others } = fields
  const rest = typeof about === 'object' ? { ...about, ...others } : others
  const named = Object.entries(rest).map(([name, value]) => `${safe(name)}=${shown(value)}`)
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
