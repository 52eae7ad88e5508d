import type { Acquisitions, Clock, Interrupt } from '../base/index.ts'
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
export class Deadline implements Interrupt {
  readonly #watch: Watch
  readonly #phases: Phases
  readonly #outer: AbortSignal | undefined
  #phase: 'acquiring' | 'opening' | 'handler' | 'commit' | 'none' | 'over' = 'none'
  /** When the current phase began. */
  #began = 0
  /** When a connection was acquired, and how long that took. */
  #openedAt: number | undefined
  #waitMs = 0
  #acquisitions: Acquisitions | undefined
  #aborted = false
  #reason: unknown
  #listeners: (() => void)[] | undefined
  #controller: AbortController | undefined

  /** `outer` ends the transaction as well, for example because its worker is stopped. */
  constructor(clock: Clock, phases: Phases, outer?: AbortSignal) {
    this.#watch = watchOf(clock)
    this.#phases = phases
    this.#outer = outer
    if (outer === undefined) return
    outer.addEventListener('abort', this, { once: true })
    if (outer.aborted) this.handleEvent()
  }

  /** The same for handlers; made when one asks for it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#aborted) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  get aborted(): boolean {
    return this.#aborted
  }

  get reason(): unknown {
    return this.#reason
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners ??= []
    this.#listeners.push(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const index = this.#listeners?.indexOf(listener) ?? -1
    if (index !== -1) this.#listeners?.splice(index, 1)
  }

  /** Waits for a connection, for as long as the pool hands out any. */
  acquiring(acquisitions: Acquisitions): void {
    this.#acquisitions = acquisitions
    this.#enter('acquiring')
  }

  /** The database has to answer the opening statements. `since`: when the wait for a connection began, if it had no phase. */
  opening(since: number = this.#began): void {
    this.#enter('opening')
    if (this.#phase !== 'opening') return
    this.#openedAt = this.#began
    this.#waitMs = this.#began - since
  }

  /** How long it waited for a connection. */
  get waitMs(): number {
    return this.#waitMs
  }

  /** How long before this time a connection was acquired. */
  openedBefore(time: number): number {
    return this.#openedAt === undefined ? 0 : time - this.#openedAt
  }

  /** When the current phase began. */
  get began(): number {
    return this.#began
  }

  /** The handler runs. */
  handler(): void {
    this.#enter('handler')
  }

  /** COMMIT is sent: from here on, a timeout leaves the outcome unknown. */
  commit(): void {
    this.#enter('commit')
  }

  /** No limit until the next phase begins. */
  pause(): void {
    if (this.#phase === 'over') return
    this.#phase = 'none'
    this.#watch.forget(this)
  }

  /** Ends it for good: a handler that returns after its time must not start the next phase. */
  done(): void {
    this.#phase = 'over'
    this.#watch.forget(this)
    this.#outer?.removeEventListener('abort', this)
  }

  /** When the current phase ends. A wait for the pool is extended while the pool moves. */
  get endsAt(): number {
    const { openingMs, handlerMs, commitMs } = this.#phases
    if (this.#phase === 'opening') return this.#began + openingMs
    if (this.#phase === 'handler') return this.#began + handlerMs
    if (this.#phase === 'commit') return this.#began + commitMs
    return this.#acquisitions?.endOf(this.#began) ?? Number.POSITIVE_INFINITY
  }

  /** The current phase took too long. */
  expire(): void {
    this.#abort(this.#late())
  }

  /** `outer` was aborted. */
  handleEvent(): void {
    this.#abort(this.#outer?.reason)
  }

  #enter(phase: 'acquiring' | 'opening' | 'handler' | 'commit'): void {
    if (this.#phase === 'over' || this.#aborted) return
    this.#phase = phase
    this.#began = this.#watch.now()
    this.#watch.keep(this)
  }

  #late(): HapaxError | undefined {
    const { openingMs, handlerMs, commitMs } = this.#phases
    if (this.#phase === 'opening') return late('store-unavailable', 'the database did not answer', openingMs)
    if (this.#phase === 'handler') return late('handler-timeout', 'the handler did not finish', handlerMs)
    if (this.#phase === 'commit') return late('commit-unknown', 'the database did not answer COMMIT', commitMs)
    return this.#acquisitions?.exhausted()
  }

  #abort(reason: unknown): void {
    if (this.#aborted) return
    this.#aborted = true
    this.#reason = reason
    this.#watch.forget(this)
    this.#controller?.abort(reason)
    // A copy: one of them may remove itself or others.
    for (const listener of [...(this.#listeners ?? [])]) listener()
  }
}

function late(code: 'store-unavailable' | 'handler-timeout' | 'commit-unknown', what: string, ms: number): HapaxError {
  return new HapaxError(code, `${what} within ${ms} ms`)
}

/**
 * Watches over all deadlines of one clock with one timer, because timers are costly per message. It fires when the first of them may
 * be over, and is set again for what is left.
 */
class Watch {
  readonly #clock: Clock
  readonly #running = new Set<Deadline>()
  #cancel: (() => void) | undefined
  #firesAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#clock.monotonic()
  }

  /** The phase of this one ends at another time from now on. */
  keep(deadline: Deadline): void {
    this.#running.add(deadline)
    const { endsAt } = deadline
    if (this.#cancel !== undefined && this.#firesAt <= endsAt) return
    this.#set(endsAt)
  }

  /** Without any left the timer goes: it would keep the process alive. */
  forget(deadline: Deadline): void {
    this.#running.delete(deadline)
    if (this.#running.size > 0) return
    this.#cancel?.()
    this.#cancel = undefined
  }

  #set(at: number): void {
    this.#cancel?.()
    this.#firesAt = at
    this.#cancel = this.#clock.after(Math.max(0, at - this.now()), () => this.#fire())
  }

  #fire(): void {
    this.#cancel = undefined
    const now = this.now()
    try {
      for (const deadline of this.#running) if (deadline.endsAt <= now) deadline.expire()
    } finally {
      let next = Number.POSITIVE_INFINITY
      for (const { endsAt } of this.#running) next = Math.min(next, endsAt)
      if (next < Number.POSITIVE_INFINITY) this.#set(next)
    }
  }
}

const watches = new WeakMap<Clock, Watch>()

function watchOf(clock: Clock): Watch {
  const known = watches.get(clock)
  if (known !== undefined) return known
  const watch = new Watch(clock)
  watches.set(clock, watch)
  return watch
}
