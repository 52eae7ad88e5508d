import type { Acquisitions, Clock } from '../base/index.ts'
import { HapaxError } from '../base/index.ts'

/** How long each phase of a transaction may take. */
export interface Phases {
  readonly openingMs: number
  readonly handlerMs: number
  readonly commitMs: number
}

/**
 * The time limits of one transaction: an abort ends it by force, whatever it waits for. The phases have limits of their own because
 * their failures mean different things: a database that is away, a slow handler, or a commit whose outcome is unknown.
 */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #clock: Clock
  readonly #phases: Phases
  readonly #outer: AbortSignal | undefined
  #cancel: (() => void) | undefined
  #reason: (() => HapaxError) | undefined
  /** When the current phase ends. A function, because a wait for the pool is extended while the pool moves. */
  #end: () => number = () => 0
  #over = false
  #timerAt = 0

  /** `outer` ends the transaction as well, for example because its worker is stopped. */
  constructor(clock: Clock, phases: Phases, outer?: AbortSignal) {
    this.#clock = clock
    this.#phases = phases
    this.#outer = outer
    outer?.addEventListener('abort', this.#stop, { once: true })
    if (outer?.aborted) this.#stop()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Waits for a connection, for as long as the pool hands out any. */
  acquiring(acquisitions: Acquisitions): void {
    const began = this.#clock.monotonic()
    const end = (): number => acquisitions.endOf(began)
    this.#arm(end() - began, () => acquisitions.exhausted(), end)
  }

  /** The database has to answer the opening statements. */
  opening(): void {
    const { openingMs } = this.#phases
    this.#arm(openingMs, () => late('store-unavailable', 'the database did not answer', openingMs))
  }

  /** The handler runs. */
  handler(): void {
    const { handlerMs } = this.#phases
    this.#arm(handlerMs, () => late('handler-timeout', 'the handler did not finish', handlerMs))
  }

  /** COMMIT is sent: from here on, a timeout leaves the outcome unknown. */
  commit(): void {
    const { commitMs } = this.#phases
    this.#arm(commitMs, () => late('commit-unknown', 'the database did not answer COMMIT', commitMs))
  }

  /** No limit until the next phase begins. */
  pause(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** Ends it for good: a handler that returns after its time must not start the next phase. */
  done(): void {
    this.#over = true
    this.pause()
    this.#outer?.removeEventListener('abort', this.#stop)
  }

  readonly #stop = (): void => this.#controller.abort(this.#outer?.reason)

  /** One timer serves all phases, because timers are costly per message. It is set again if it fires before the phase ends. */
  #arm(ms: number, reason: () => HapaxError, end?: () => number): void {
    if (this.#over) return
    this.#reason = reason
    const endsAt = this.#clock.monotonic() + ms
    this.#end = end ?? (() => endsAt)
    if (this.#cancel !== undefined && this.#timerAt <= endsAt) return
    this.#cancel?.()
    this.#timer(ms)
  }

  #timer(ms: number): void {
    this.#timerAt = this.#clock.monotonic() + ms
    this.#cancel = this.#clock.after(ms, () => {
      const leftMs = this.#end() - this.#clock.monotonic()
      if (leftMs > 0) this.#timer(leftMs)
      else this.#controller.abort(this.#reason?.())
    })
  }
}

function late(code: 'store-unavailable' | 'handler-timeout' | 'commit-unknown', what: string, ms: number): HapaxError {
  return new HapaxError(code, `${what} within ${ms} ms`)
}
