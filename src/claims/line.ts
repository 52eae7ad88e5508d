import type { Semaphore } from '../base/index.ts'
import { asError } from '../base/index.ts'
import { stopped } from '../worker/index.ts'
import type { ClaimConsumerCore } from './consumer.ts'

/** What a worker serves: a consumer, or the requests of a scope. */
export interface ClaimServed
  extends Pick<ClaimConsumerCore, 'name' | 'types' | 'isOf' | 'start' | 'workStored' | 'resendsForMs'> {
  readonly settings: Pick<ClaimConsumerCore['settings'], 'enabled' | 'concurrency' | 'retentionMs' | 'retry'>
}

/** What a stored line needs of its worker. */
export interface StoredLineOptions {
  readonly consumer: Pick<ClaimServed, 'workStored'>
  /** Shared with the subscriptions of the consumer. */
  readonly places: Semaphore
  /** Tells the handlers to stop. */
  readonly signal: AbortSignal
  /** It has a place for a look, or something has ended. */
  changed(): void
  report(error: Error): void
}

/** Failed messages of one consumer that a person wants to be tried again: the only messages that a claim store keeps for a worker. */
export class StoredLine {
  readonly #options: StoredLineOptions
  /** What runs, and the controller that tells it to stop. */
  readonly #running = new Map<Promise<void>, AbortController>()
  /** Stops whatever the look under way finds. */
  #look: AbortController | undefined
  /** Places that are reserved for what the look finds. */
  #held = 0
  /** There was no free place for a look. The next one that becomes free is taken. */
  #waits = false

  constructor(options: StoredLineOptions) {
    const { places, signal } = options
    this.#options = options
    // Only if this line waits for a place: a look after every delivery of a subscription would be a waste.
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
   * Begins with what is due, as far as there is room. Returns in how many milliseconds to look again. The places are taken before
   * the look: otherwise a subscription with a backlog would take them while the store replies, every time.
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

  /** The worker stops: whatever the look under way finds is put back. */
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

  /** The work takes one of the reserved places. */
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
