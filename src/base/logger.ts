import type { Clock } from './clock.ts'
import { errorHash, faultFields } from './errors.ts'
import { adapted } from './log-adapters.ts'
import { logLine } from './log-lines.ts'
import { able } from './options.ts'
import type { Redact } from './redact.ts'

/**
 * What hapax logs to: the order of pino's arguments, the four usual levels. A logger of winston and the console are recognised, and called
 * in their own way.
 */
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
  /** Whether lines of the level `debug` are written at the moment. Undefined: never. */
  readonly writesDebug: (() => boolean) | undefined
  /** Says how many lines were left out and not told of yet. */
  end(): void
}

/** The logger that was given, or the one of the console. */
export function loggerOption(given: Logger | undefined, redact: Redact, clock: Clock): LimitedLogger {
  if (given === undefined) return { ...safeLogger(consoleLogger, redact, clock), writesDebug: undefined }
  const logger = able('logger', 'an object with debug, info, warn and error', given, LEVELS)
  return { ...safeLogger(adapted(logger), redact, clock), writesDebug: debugOf(logger) }
}

/** Loggers of libraries can be asked, and their level changes while they are used. Of others it is not known. */
function debugOf(logger: Logger): (() => boolean) | undefined {
  if (logger === silentLogger || logger === consoleLogger) return undefined
  return () =>
    !('isLevelEnabled' in logger && typeof logger.isLevelEnabled === 'function') ||
    logger.isLevelEnabled('debug') !== false
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const satisfies readonly (keyof Logger)[]

/**
 * The same logger, which cannot disturb: what it throws is dropped, because there is nowhere left to say it. The texts of errors go
 * through the user's own rules here, once for all. Warnings and errors of one kind are bounded; the others are logged as `debug`.
 */
function safeLogger(logger: Logger, redact: Redact, clock: Clock): Omit<LimitedLogger, 'writesDebug'> {
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

/** A logger that adds these fields to every line, unless the line has them. */
export function boundLogger(logger: Logger, bound: object): Logger {
  const at = (level: keyof Logger) => (fields: object, message: string) =>
    logger[level]({ ...bound, ...fieldsOf(fields) }, message)
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

type Fields = Readonly<Record<string, unknown>>

/** What a handler logs: fields, or an error in their place, as pino takes it. Getters that throw must not fail the handler. */
function fieldsOf(given: object): Record<string, unknown> {
  try {
    return { ...(given instanceof Error ? faultFields(given) : given) }
  } catch {
    return { lost: 'the fields of this line cannot be read' }
  }
}

function withoutSecrets(given: object, redact: Redact): Fields {
  const fields = fieldsOf(given)
  for (const name of ['error', 'code', 'stack']) {
    const value = fields[name]
    if (typeof value === 'string') fields[name] = redact(value)
  }
  return fields
}

/** So many lines of one kind are logged in a window. */
const LINES = 5
const WINDOW_MS = 60_000
/** Errors whose texts never repeat must not fill the memory: from here on, kinds count together. */
const MAX_KINDS = 1_000

type Write = (level: keyof Logger, fields: object, message: string) => void

/** The lines of one kind in the current window. */
interface Kind {
  readonly level: 'warn' | 'error'
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly until: number
  lines: number
}

/**
 * Bounds how often the same is logged, so that a poison message or an outage does not flood the log. Lines are of one kind if their
 * sentence, consumer or relay, type and error differ only in numbers and ids.
 */
class LogLimit {
  readonly #clock: Clock
  readonly #write: Write
  readonly #kinds = new Map<string, Kind>()

  constructor(clock: Clock, write: Write) {
    this.#clock = clock
    this.#write = write
  }

  /** Whether a line may be logged. Says first what was left out in windows that have ended. */
  admits(level: Kind['level'], fields: Readonly<Record<string, unknown>>, message: string): boolean {
    const now = this.#clock.monotonic()
    this.#endWindows(now)
    const name = this.#nameOf(level, fields, message)
    const kind = this.#kinds.get(name)
    if (kind !== undefined) {
      kind.lines += 1
      return kind.lines <= LINES
    }
    this.#kinds.set(name, { level, message, fields: scope(fields), until: now + WINDOW_MS, lines: 1 })
    return true
  }

  /** Says what was left out so far. */
  end(): void {
    this.#endWindows(Number.POSITIVE_INFINITY)
  }

  #endWindows(now: number): void {
    // In the order in which they began: the first one that is open is followed by open ones only.
    for (const [name, kind] of this.#kinds) {
      if (kind.until > now) return
      this.#kinds.delete(name)
      const leftOut = kind.lines - LINES
      if (leftOut > 0) this.#write(kind.level, { ...kind.fields, leftOut }, `${kind.message} (${more(leftOut)})`)
    }
  }

  #nameOf(level: Kind['level'], fields: Readonly<Record<string, unknown>>, message: string): string {
    const { consumer, relay, type, error, code } = scope(fields)
    if (this.#kinds.size >= MAX_KINDS) return JSON.stringify([level, consumer, relay])
    const where = JSON.stringify([level, consumer, relay, type, code])
    return errorHash({ name: where, message: `${message}\n${String(error)}` })
  }
}

/** What says of which kind a line is. */
function scope(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { consumer, relay, error, code, about } = fields
  const type = typeof about === 'object' && about !== null && 'type' in about ? about.type : undefined
  const all = { consumer, relay, type, code, error }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}

function more(leftOut: number): string {
  return `${leftOut} more like this ${leftOut === 1 ? 'was' : 'were'} not logged`
}

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
  process.stderr.write(`${logLine(level, fields, message, process.stderr.isTTY)}\n`)
}
