import { able } from './options.ts'
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
export function loggerOption(given: Logger | undefined): Logger {
  if (given === undefined) return safeLogger(consoleLogger)
  return safeLogger(able('logger', 'an object with debug, info, warn and error', given, LEVELS))
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const satisfies readonly (keyof Logger)[]

/** The same logger, which cannot disturb: what it throws is dropped, because there is nowhere left to say it. */
function safeLogger(logger: Logger): Logger {
  const safe =
    (level: keyof Logger) =>
    (fields: object, message: string): void => {
      try {
        const result: unknown = logger[level](fields, message)
        if (result instanceof Promise) result.catch(() => {})
      } catch {
        // See above.
      }
    }
  return { debug: safe('debug'), info: safe('info'), warn: safe('warn'), error: safe('error') }
}
