import type { Semaphore } from '../base/index.ts'
import { asError } from '../base/index.ts'
import { stopped } from '../worker/index.ts'
import type { ClaimConsumerCore } from './consumer.ts'

/** What a stored line needs of its worker. */
export interface StoredLineOptions {
  readonly consumer: Pick<ClaimConsumerCore, 'workStored'>
  /** Shared with the subscriptions of the consumer. */
  readonly places: Semaphore
  /** Tells the handlers to stop. */
  readonly signal: AbortSignal
  /** It has a place for a look, or something has ended. */
  changed(): void
  report(error: Error): void
}

/** What people want to be tried again, of one consumer. */
export class StoredLine {
  readonly #options: StoredLineOptions
  /** What runs, and what tells it to stop. */
  readonly #running = new Map<Promise<void>, AbortController>()
  /** Tells what a look under way finds to stop. */
  #look: AbortController | undefined
  /** Semaphore that are kept free for what a look finds. */
  #held = 0
  /** There was no place for a look: the next one that is free is taken, if it is our turn. */
  #waits = false

  constructor(options: StoredLineOptions) {
    const { places, signal } = options
    this.#options = options
    // Only if something may wait for it: a look at every delivery of a subscription would be a waste.
    places.onFree(() => this.#onFree())
    signal.addEventListener('abort', () => this.#abort(signal.reason), { once: true })
  }

  get running(): readonly Promise<void>[] {
    return [...this.#running.keys()]
  }

  /** Whether nothing runs, and nothing was left unlooked at. */
  get idle(): boolean {
    return this.#running.size === 0 && this.#held === 0 && !this.#waits
  }

  /**
   * Begins with what is due, as far as there is room; answers in how many milliseconds to look again. The places are taken before
   * the look: a subscription with a backlog would have them by the time of the answer, every time.
   */
  async begin(): Promise<number> {
    while (this.#options.places.free) this.#hold()
    this.#waits = this.#held === 0
    if (this.#waits) return Number.POSITIVE_INFINITY
    const look = new AbortController()
    this.#look = look
    try {
      const { running, nextMs } = await this.#options.consumer.workStored(this.#held, look.signal)
      for (const each of running) this.#track(each, look)
      return nextMs ?? Number.POSITIVE_INFINITY
    } finally {
      this.#look = undefined
      for (; this.#held > 0; this.#held--) this.#options.places.give()
    }
  }

  /** The worker stops, and looks no more: what a look under way finds is put back. */
  stop(): void {
    this.#look?.abort(stopped())
  }

  #onFree(): void {
    if (!this.#waits) return
    this.#waits = false
    this.#hold()
    this.#options.changed()
  }

  #hold(): void {
    this.#options.places.take()
    this.#held += 1
  }

  #abort(reason: unknown): void {
    this.#look?.abort(reason)
    for (const look of this.#running.values()) look.abort(reason)
  }

  /** It has one of the places that were kept. */
  #track(work: Promise<unknown>, look: AbortController): void {
    const { places, changed, report } = this.#options
    this.#held -= 1
    const run: Promise<void> = work
      .then(
        () => {},
        (error: unknown) => report(asError(error)),
      )
      .finally(() => {
        this.#running.delete(run)
        places.give()
        changed()
      })
    this.#running.set(run, look)
  }
}
