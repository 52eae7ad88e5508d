import { able } from './options.ts'
import type { Redact } from './redact.ts'
import { safeJson } from './safe-json.ts'

/** What hapax logs to: the order of pino's arguments, the four usual levels. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Warnings and errors to standard error, one JSON line each; used where no logger is given. */
export const consoleLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: (fields, message) => line('warn', fields, message),
  error: (fields, message) => line('error', fields, message),
}

/** A logger that says nothing. */
export const silentLogger: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

// JSON, so that characters in ids and messages cannot forge a line. `msg`, as pino has it: many fields have a message of their own.
function line(level: string, fields: object, message: string): void {
  process.stderr.write(`${safeJson({ level, msg: `hapax: ${message}`, ...fields })}\n`)
}

/** The logger that was given, or the one of the console. */
export function loggerOption(given: Logger | undefined, redact: Redact): Logger {
  if (given === undefined) return safeLogger(consoleLogger, redact)
  return safeLogger(able('logger', 'an object with debug, info, warn and error', given, LEVELS), redact)
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const satisfies readonly (keyof Logger)[]

/**
 * The same logger, which cannot disturb: what it throws is dropped, because there is nowhere left to say it. The text of an error goes
 * through the user's own rules here, once for all.
 */
function safeLogger(logger: Logger, redact: Redact): Logger {
  const safe =
    (level: keyof Logger) =>
    (fields: object, message: string): void => {
      try {
        const result: unknown = logger[level](withoutSecrets(fields, redact), message)
        if (result instanceof Promise) result.catch(() => {})
      } catch {
        // See above.
      }
    }
  return { debug: safe('debug'), info: safe('info'), warn: safe('warn'), error: safe('error') }
}

function withoutSecrets(fields: object, redact: Redact): object {
  const { error } = fields as { error?: unknown }
  return typeof error === 'string' ? { ...fields, error: redact(error) } : fields
}
