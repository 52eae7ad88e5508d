import { AsyncLocalStorage } from 'node:async_hooks'
import { type Clock, systemClock } from './clock.ts'
import { HapaxError } from './errors.ts'
import type { Interrupt } from './interrupt.ts'

/** The turns that the code running now is inside of. */
const inside = new AsyncLocalStorage<Turn>()

/** The right to use what a queue guards, until it is ended. */
export class Turn {
  readonly queue: WriterQueue
  /** The turn in which this one was asked for; of another queue. */
  readonly outer: Turn | undefined
  ended = false
  readonly #next: () => void

  constructor(queue: WriterQueue, outer: Turn | undefined, next: () => void) {
    this.queue = queue
    this.outer = outer
    this.#next = next
  }

  /** Runs code that is known to be inside this turn. */
  run<T>(code: () => T): T {
    return inside.run(this, code)
  }

  end(): void {
    if (this.ended) return
    this.ended = true
    this.#next()
  }
}

interface Waiter {
  readonly outer: Turn | undefined
  readonly start: (turn: Turn) => void
}

/** Lets one user at a time in, in the order of arrival; for stores with a single writer. */
export class WriterQueue {
  readonly #clock: Clock
  readonly #waiting = new Set<Waiter>()
  /** Those that are let in before the others. */
  readonly #ahead = new Set<Waiter>()
  #turn: Turn | undefined
  #restedAt = 0

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  /**
   * The next turn: at once if the queue is empty, undefined if it did not come within `waitMs`. Rejects when the signal aborts, and
   * throws if the caller is inside a turn of this queue, because it would wait for itself. `ahead`: for a short turn, before those that
   * may be long.
   */
  take(waitMs: number, signal?: Interrupt, ahead = false): Turn | Promise<Turn | undefined> {
    signal?.throwIfAborted()
    const outer = living(inside.getStore())
    for (let each = outer; each !== undefined; each = each.outer) if (each.queue === this) throw nested()
    if (this.#turn !== undefined) return this.#wait(ahead ? this.#ahead : this.#waiting, outer, waitMs, signal)
    const turn = this.#begin(outer)
    if (!this.#owesARest()) return turn
    return new Promise((resolve) => {
      setImmediate(() => resolve(turn))
    })
  }

  /** Whether the code that asks is inside a turn of this queue. */
  get inside(): boolean {
    for (let each = living(inside.getStore()); each !== undefined; each = living(each.outer)) {
      if (each.queue === this) return true
    }
    return false
  }

  /** Turns that never wait for I/O would starve timers and sockets, so the queue yields from time to time. */
  #owesARest(): boolean {
    const now = this.#clock.monotonic()
    if (now - this.#restedAt < REST_EVERY_MS) return false
    this.#restedAt = now
    return true
  }

  #begin(outer: Turn | undefined): Turn {
    this.#turn = new Turn(this, outer, this.#passing)
    return this.#turn
  }

  readonly #passing = (): void => this.#pass()

  /** Passes the turn straight to the longest waiting one, so that no newcomer can slip in between. */
  #pass(): void {
    this.#turn = undefined
    const line = this.#ahead.size > 0 ? this.#ahead : this.#waiting
    const [next] = line
    if (next === undefined) return
    const turn = this.#begin(next.outer)
    if (this.#owesARest()) {
      // It may have given up meanwhile.
      setImmediate(() => (line.has(next) ? next.start(turn) : turn.end()))
    } else {
      next.start(turn)
    }
  }

  #wait(
    line: Set<Waiter>,
    outer: Turn | undefined,
    waitMs: number,
    signal: Interrupt | undefined,
  ): Promise<Turn | undefined> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        line.delete(waiter)
        cancel()
        signal?.removeEventListener('abort', abort)
      }
      const finish = (turn: Turn | undefined): void => {
        leave()
        resolve(turn)
      }
      const abort = (): void => {
        leave()
        reject(signal?.reason)
      }
      const waiter: Waiter = { outer, start: finish }
      const cancel = this.#clock.after(waitMs, () => finish(undefined))
      signal?.addEventListener('abort', abort, { once: true })
      line.add(waiter)
    })
  }
}

/** How long turns may follow each other before the event loop gets a chance. */
const REST_EVERY_MS = 10

/** The innermost turn that has not ended. Code that outlives its turn no longer counts as inside it. */
function living(turn: Turn | undefined): Turn | undefined {
  let each = turn
  while (each?.ended) each = each.outer
  return each
}

function nested(): HapaxError {
  return new HapaxError(
    'nested-transaction',
    'this store has a single writer, and the code that calls it is inside its transaction: ' +
      'use the tx it was given, or make the call after that transaction has ended',
  )
}
