// Small primitives: waiting for running work, bounded parallelism, a semaphore, a wake-up, a promise that knows its observers.

import type { Clock } from './clock.ts'
import { HapaxError } from './errors.ts'

/** Counts running work, so that closing can wait for it, and refuses new work once closed. */
export class Activity {
  #running = 0
  #closed = false
  #waiting: (() => void)[] = []

  get closed(): boolean {
    return this.#closed
  }

  close(): void {
    this.#closed = true
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    this.begin()
    try {
      return await work()
    } finally {
      this.end()
    }
  }

  /** Work begins, and `end` will be called. */
  begin(): void {
    if (this.#closed) throw new HapaxError('closed', 'this hapax is closed')
    this.#running += 1
  }

  end(): void {
    this.#running -= 1
    if (this.#running === 0 && this.#waiting.length > 0) for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Resolves when nothing is under way. */
  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
    })
  }
}

/** Runs `work` for every item, at most `limit` at a time. After a rejection no further item is begun. */
export async function inParallel<T>(
  items: Iterable<T>,
  limit: number,
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  // One iterator for all lanes: each takes the next item that no other has begun.
  const left = numbered(items)
  let failing = false
  const lane = async (): Promise<void> => {
    for (const [index, item] of left) {
      if (failing) return
      try {
        await work(item, index)
      } catch (error) {
        failing = true
        throw error
      }
    }
  }
  const lanes = await Promise.allSettled(Array.from({ length: limit }, lane))
  const failed = lanes.find((each) => each.status === 'rejected')
  if (failed) throw failed.reason
}

function* numbered<T>(items: Iterable<T>): Generator<readonly [number, T]> {
  let index = 0
  for (const item of items) yield [index++, item]
}

/** A number of places, shared by everything that asks for one. */
export class Semaphore {
  readonly #users: (() => void)[] = []
  #waiting: (() => void)[] = []
  /** How many of the waiting have entered. A counter, because removing the first element of an array is slow. */
  #entered = 0
  #count: number
  /** Below zero: more are taken than there are now. */
  #free: number

  constructor(count: number) {
    this.#count = count
    this.#free = count
  }

  /** Lowers the number of places. Those that are taken stay taken until they are given back. */
  atMost(count: number): void {
    if (count >= this.#count) return
    this.#free -= this.#count - count
    this.#count = count
  }

  get free(): boolean {
    return this.#free > 0
  }

  /** How many places are free. */
  get room(): number {
    return this.#free
  }

  /** Takes a place that is free. */
  take(): void {
    this.#free -= 1
  }

  /** Takes a place as soon as there is one; undefined if that is now. */
  enter(): Promise<void> | undefined {
    if (!this.free) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#free -= 1
    return undefined
  }

  /** Registers a function that is called when a place is free and nothing waits for it. Users take turns in being called first. */
  onFree(user: () => void): void {
    this.#users.push(user)
  }

  /** Gives a place back. */
  give(): void {
    const next = this.#waiting[this.#entered]
    if (this.#free < 0) this.#free += 1
    else if (next !== undefined) this.#handOver(next)
    else this.#offer()
  }

  #offer(): void {
    this.#free += 1
    const first = this.#users.shift()
    if (first !== undefined) this.#users.push(first)
    for (const user of this.#users) if (this.#free > 0) user()
  }

  #handOver(next: () => void): void {
    this.#entered += 1
    if (2 * this.#entered >= this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#entered)
      this.#entered = 0
    }
    next()
  }
}

/** Wakes a waiting loop. A wake-up that comes while nothing waits is kept for the next wait, so that none is missed. */
export class Signal {
  #pending = false
  #wake: (() => void) | undefined

  notify(): void {
    this.#pending = true
    this.#wake?.()
  }

  /** Resolves at the next wake-up, or after `ms`. */
  wait(clock: Clock, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel()
        this.#pending = false
        this.#wake = undefined
        resolve()
      }
      const cancel = clock.after(ms, done)
      this.#wake = done
      if (this.#pending) done()
    })
  }
}

/** A promise that knows whether it was ever awaited. If it never is, its rejection does not end the process. */
export class Watched<T> extends Promise<T> {
  /** What `then` and its like make is a promise like any other. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  seen = false

  constructor(work: Promise<T>) {
    super((resolve, reject) => work.then(resolve, reject))
    super.then(undefined, () => {})
  }

  // biome-ignore lint/suspicious/noThenProperty: await calls it, because this is not a plain promise
  override then<A = T, B = never>(
    resolved?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.seen = true
    return super.then(resolved, rejected)
  }
}
