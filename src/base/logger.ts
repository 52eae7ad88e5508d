import type { Clock } from './clock.ts'
import { consoleLogger } from './console-logger.ts'
import { LogLimit } from './log-limit.ts'
import { able } from './options.ts'
import type { Redact } from './redact.ts'

/** What hapax logs to: the order of pino's arguments, the four usual levels. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** A logger that says nothing. */
export const silentLogger: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** The logger of a hapax, which also counts what it leaves out. */
export interface LimitedLogger extends Logger {
  /** The same without bounds: what handlers log is the application's affair. */
  readonly forHandlers: Logger
  /** Says how many lines were left out and not told of yet. */
  end(): void
}

/** The logger that was given, or the one of the console. */
export function loggerOption(given: Logger | undefined, redact: Redact, clock: Clock): LimitedLogger {
  if (given === undefined) return safeLogger(consoleLogger, redact, clock)
  return safeLogger(able('logger', 'an object with debug, info, warn and error', given, LEVELS), redact, clock)
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const satisfies readonly (keyof Logger)[]

/**
 * The same logger, which cannot disturb: what it throws is dropped, because there is nowhere left to say it. The texts of errors go
 * through the user's own rules here, once for all. Warnings and errors of one kind are bounded; the others are logged as `debug`.
 */
function safeLogger(logger: Logger, redact: Redact, clock: Clock): LimitedLogger {
  const write = (level: keyof Logger, fields: object, message: string): void => {
    try {
      const result: unknown = logger[level](fields, message)
      if (result instanceof Promise) result.catch(() => {})
    } catch {
      // See above.
    }
  }
  const limit = new LogLimit(clock, write)
  const each = (log: (level: keyof Logger, fields: Fields, message: string) => void): Logger => {
    const at = (level: keyof Logger) => (fields: object, message: string) =>
      log(level, withoutSecrets(fields, redact), message)
    return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  }
  const limited = each((level, fields, message) => {
    const leftOut = (level === 'warn' || level === 'error') && !limit.admits(level, fields, message)
    write(leftOut ? 'debug' : level, fields, message)
  })
  return { ...limited, forHandlers: each(write), end: () => limit.end() }
}

type Fields = Readonly<Record<string, unknown>>

function withoutSecrets(given: object, redact: Redact): Fields {
  const fields: Record<string, unknown> = { ...given }
  for (const name of ['error', 'code', 'stack']) {
    const value = fields[name]
    if (typeof value === 'string') fields[name] = redact(value)
  }
  return fields
}
