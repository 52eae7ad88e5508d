import type { Clock } from './clock.ts'
import { errorHash } from './errors.ts'
import type { Logger } from './logger.ts'

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
export class LogLimit {
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
  const { consumer, relay, error, code, message } = fields
  const type = typeof message === 'object' && message !== null && 'type' in message ? message.type : undefined
  const all = { consumer, relay, type, code, error }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}

function more(leftOut: number): string {
  return `${leftOut} more like this ${leftOut === 1 ? 'was' : 'were'} not logged`
}
