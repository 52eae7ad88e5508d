import type { Clock } from './clock.ts'
import { asError, errorFields, type HapaxError, isHapaxError } from './errors.ts'
import type { EventHub } from './events.ts'
import type { Logger } from './logger.ts'

/** What noticing outages needs of its hapax. */
interface OutagesOptions {
  readonly clock: Clock
  readonly events: EventHub
  readonly logger: Logger
}

/** Notices that the store is away, and that it is back: each is told once per outage, not once per message that it stops. */
export class Outages {
  readonly #options: OutagesOptions
  #since: number | undefined
  #noticed = 0

  constructor(options: OutagesOptions) {
    this.#options = options
  }

  /** How many outages were noticed so far. Read before work begins, for `over`. */
  get noticed(): number {
    return this.#noticed
  }

  /** Learns from work whether the store is there. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const noticed = this.#noticed
    try {
      const result = await work()
      this.over(noticed)
      return result
    } catch (error) {
      this.failed(error)
      throw error
    }
  }

  /** How a warning about this error is logged: the outage that it is a part of was logged already. */
  levelOf(error: Error): 'debug' | 'warn' {
    return this.failed(error) ? 'debug' : 'warn'
  }

  /** Work ended with this error. Returns whether the store is away. */
  failed(error: unknown): boolean {
    if (!isOutage(error)) return false
    if (this.#since !== undefined) return true
    const { clock, events, logger } = this.#options
    this.#since = clock.monotonic()
    this.#noticed += 1
    logger.error(errorFields(error), 'the store is not available')
    events.emit('store-down', () => ({ error: asError(error) }))
    return true
  }

  /** Work came through. What had begun before the outage was noticed says nothing about its end. */
  over(noticed: number): void {
    if (this.#since === undefined || noticed !== this.#noticed) return
    const { clock, events, logger } = this.#options
    const downMs = clock.monotonic() - this.#since
    this.#since = undefined
    // A warning, because the default logger writes nothing below: the log of an outage must not end with its beginning.
    logger.warn({ downMs: Math.round(downMs) }, 'the store is available again')
    events.emit('store-up', () => ({ downMs }))
  }
}

/** Fields of errors that are no outage: a pool that is exhausted, a refusal, one slow statement. */
const OTHERWISE = ['waitedMs', 'refused', 'limitMs'] as const

/** Whether the store could not be reached, or did not answer in time. */
function isOutage(error: unknown): error is HapaxError {
  if (isHapaxError(error, 'commit-unknown')) return isOutage(error.cause)
  if (!isHapaxError(error, 'store-unavailable')) return false
  return OTHERWISE.every((name) => error.fields[name] === undefined)
}
