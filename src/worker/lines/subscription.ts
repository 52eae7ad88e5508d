import type { Detached, Facts, Logger, Random, SafeInstrument, Semaphore } from '../../base/index.ts'
import { asError, type Clock, HapaxError, pause, Signal, within } from '../../base/index.ts'
import { type Fed, type Feed, OTHERS } from '../../consumer/index.ts'
import type { Delivery, OpenOptions, Outcome, Prefetch, Reader } from '../../contracts/index.ts'
import type { IncomingMessage } from '../../message/index.ts'
import { decodeArrival } from '../../message/index.ts'
import type { Floor } from '../../transaction/index.ts'
import { checkHorizon, horizonWarning } from '../options.ts'
import type { Throughput } from '../progress.ts'
import { WatchedReceipt } from './watched-receipt.ts'

/** What a reader needs of its worker. */
export interface SubscriptionLineOptions {
  readonly engine: {
    readonly clock: Clock
    readonly random: Random
    readonly logger: Pick<Logger, 'warn'>
    readonly maxBytes: number
    readonly instrument: SafeInstrument | undefined
    readonly detached: Detached
  }
  readonly source: Pick<Feed<never, Fed>, 'consumer' | 'subscription' | 'options'>
  readonly concurrency: number
  readonly places: Semaphore
  readonly floor: Floor
  readonly progress: Throughput
  readonly signal: AbortSignal
  report(error: Error): void
}

/**
 * Takes what a subscription delivers and passes it to its consumer, in groups of what has arrived. A delivery is acknowledged only after
 * its outcome is committed; everything else goes back to the broker.
 */
export class SubscriptionLine {
  readonly #options: SubscriptionLineOptions
  readonly #arrived: Delivery[] = []
  readonly #running = new Set<Promise<void>>()
  readonly #signal = new Signal()
  readonly #stop = new AbortController()
  #open: Reader | undefined
  #stopping = false
  /** No handler can run here, or a person has paused the consumer: deliveries are given back. */
  #resting = false
  #switching: Promise<void> = Promise.resolve()
  #errors = 0
  #warned = false
  /** Deliveries of messages that another process is working on; they wait here for a moment. */
  readonly #patient = new Set<Promise<void>>()

  constructor(options: SubscriptionLineOptions) {
    this.#options = options
    options.places.onFree(() => this.#dispatch())
  }

  /** Begins to read, unless it rests. Rejects when the broker refuses or cannot be reached. */
  async start(): Promise<void> {
    const { source, report } = this.#options
    if (this.#resting) return
    const opening = source.subscription.open({
      types: wantedTypes(source.consumer),
      prefetch: this.#prefetch(),
      receive: (deliveries) => {
        if (this.#resting) return this.#giveBack(deliveries)
        this.#arrived.push(...deliveries)
        this.#dispatch()
      },
      report,
    })
    const open = await within(this.#options.engine.clock, OPEN_MS, opening, () => {
      // If it opens after all, it is no longer wanted.
      void opening.then((reader) => reader.close()).catch(() => {})
      throw new HapaxError('broker-timeout', `${source.subscription.name} did not open within ${OPEN_MS} ms`)
    })
    if (this.#stopping || this.#resting) return open.close()
    this.#open = open
    checkHorizon(source, open.horizonMs)
    const warning = horizonWarning(source, open.horizonMs)
    if (warning !== undefined && !this.#warned)
      this.#options.engine.logger.warn({ consumer: source.consumer.name }, warning)
    this.#warned = true
  }

  /** While it rests, deliveries go back to the broker, so that other workers get them, or nobody while the consumer is paused. */
  rest(resting: boolean): void {
    if (this.#resting === resting) return
    this.#resting = resting
    const turn = this.#switching.then(() => (this.#resting ? this.#shut() : this.#reopen()))
    this.#switching = turn.catch((error: unknown) => this.#options.report(asError(error)))
  }

  /** Pauses before it gives back, so that the broker does not deliver the same messages here again. */
  async #shut(): Promise<void> {
    const open = this.#open
    if (open === undefined || this.#stopping) return
    this.#open = undefined
    await open.pause()
    this.#giveBack(this.#arrived.splice(0))
    await open.close()
  }

  /** Handlers can run again: opens the subscription, and keeps trying while the broker refuses. */
  async #reopen(): Promise<void> {
    const { engine, report } = this.#options
    for (let times = 1; this.#open === undefined && !this.#resting && !this.#stopping; times++) {
      try {
        await this.start()
      } catch (error) {
        report(asError(error))
        await pause(engine.clock, Math.min(30_000, 200 * 2 ** times), this.#stop.signal)
      }
    }
  }

  #giveBack(deliveries: readonly Delivery[]): void {
    for (const delivery of deliveries) this.#tell(() => delivery.retry(0))
  }

  /** The consumer that it feeds, and for how long the broker may deliver a message again, as far as it says so. */
  get horizon(): { readonly consumer: string; readonly redeliveryMs: number | undefined } {
    const { consumer, subscription } = this.#options.source
    return { consumer: consumer.name, redeliveryMs: this.#open?.horizonMs ?? subscription.features.horizonMs }
  }

  get running(): readonly Promise<void>[] {
    return [...this.#running, ...this.#patient]
  }

  get idle(): boolean {
    return this.#running.size === 0 && this.#patient.size === 0 && this.#arrived.length === 0
  }

  /** Takes no new deliveries, and gives back those that have not begun. */
  async pause(): Promise<void> {
    this.#stopping = true
    this.#signal.notify()
    this.#stop.abort()
    await this.#open?.pause()
    this.#giveBack(this.#arrived.splice(0))
  }

  async close(): Promise<void> {
    await this.#open?.close()
  }

  /** Whether nothing more may begin. */
  get #idling(): boolean {
    return this.#stopping || this.#resting
  }

  /** Four times what runs at once, so that handlers need not wait for the broker, but bounded, so that other workers get a share. */
  get #most(): number {
    const { source, concurrency } = this.#options
    return source.options.prefetch ?? Math.min(2_000, 4 * concurrency * source.consumer.groups.size)
  }

  /** A getter, because groups become larger and smaller. */
  #prefetch(): Prefetch {
    const most = (): number => this.#most
    return {
      get messages() {
        return most()
      },
      bytes: this.#options.source.options.prefetchBytes ?? 32 * 1024 * 1024,
    }
  }

  /** Starts as many groups as may run at once. With order, one batch at a time, so that it is stored in the order of arrival. */
  #dispatch(): void {
    const { engine, source, places } = this.#options
    const most = source.consumer.ordered ? 1 : Number.POSITIVE_INFINITY
    const storing = source.consumer.settings.receive === 'store'
    const size = (): number => (storing ? STORE_SIZE : source.consumer.groups.next(this.#arrived.length, places.room))
    while (this.#arrived.length > 0 && places.free && this.#running.size < most && !this.#idling) {
      // Detached: deliveries come in the context of a socket, and places become free in that of a handler.
      this.#track(engine.detached(this.#run, this.#arrived.splice(0, size())))
    }
  }

  #track(work: Promise<void>): void {
    const { places, report } = this.#options
    places.take()
    const run = work
      .catch((error: unknown) => report(asError(error)))
      .finally(() => {
        this.#running.delete(run)
        places.give()
      })
    this.#running.add(run)
  }

  readonly #run = async (deliveries: readonly Delivery[]): Promise<void> => {
    let left = deliveries
    for (;;) {
      const undone = await this.#handle(left)
      if (undone.length === 0) return
      if (!this.#options.source.consumer.ordered || this.#idling) return this.#putBack(undone)
      // With order, later deliveries have to wait for these, so they are tried again here.
      left = undone.map(({ delivery }) => delivery)
      await this.#signal.wait(this.#options.engine.clock, this.#backOffMs())
    }
  }

  /** Acknowledges what is done, and returns what is not. */
  async #handle(deliveries: readonly Delivery[]): Promise<readonly Undone[]> {
    const { floor } = this.#options
    const bytes = deliveries.reduce((sum, delivery) => sum + delivery.bytes, 0)
    await floor.enterWhenOpen(bytes)
    if (this.#idling) {
      floor.leave(bytes)
      return deliveries.map(undone)
    }
    const { instrument } = this.#options.engine
    if (instrument === undefined) return this.#taken(deliveries, bytes)
    const facts = this.#facts()
    return instrument.around('receive', facts, (running) =>
      this.#taken(deliveries, bytes, new WatchedReceipt(instrument, facts, running)),
    )
  }

  #facts(): Facts {
    const { subscription, consumer } = this.#options.source
    const { system, name } = subscription.address ?? { system: 'other', name: subscription.name }
    return { system, destination: name, consumer: consumer.name }
  }

  async #taken(deliveries: readonly Delivery[], bytes: number, watch?: WatchedReceipt): Promise<readonly Undone[]> {
    const { source, floor, progress, signal, report } = this.#options
    let outcomes: readonly Outcome[]
    try {
      const messages = deliveries.map((delivery) => this.#message(delivery))
      watch?.received(messages, deliveries)
      outcomes = await source.consumer.handleMany(messages, signal)
      this.#errors = 0
      progress.made()
    } catch (error) {
      // The database is not available, or the outcome of a commit is unknown.
      this.#errors = Math.min(this.#errors + 1, 10)
      watch?.failed(error)
      progress.failed(asError(error))
      report(asError(error))
      return deliveries.map(undone)
    } finally {
      floor.leave(bytes)
    }
    return watch?.settle(outcomes, () => this.#answer(deliveries, outcomes)) ?? this.#answer(deliveries, outcomes)
  }

  /** Tells the broker what became of the deliveries. Returns those that are to be tried again. */
  #answer(deliveries: readonly Delivery[], outcomes: readonly Outcome[]): readonly Undone[] {
    return deliveries.flatMap((delivery, index) => {
      const outcome = outcomes[index]
      const afterMs = Math.min(MAX_AFTER_MS, outcome?.retryAfterMs ?? 0)
      if (outcome?.ack === true) this.#tell(() => delivery.ack())
      // The broker retries after a while, and counts the deliveries.
      else if (outcome?.status === 'rolled-back') this.#tell(() => delivery.reject(afterMs + this.#backOffMs()))
      else return [{ delivery, afterMs }]
      return []
    })
  }

  #message({ arrival }: Delivery): IncomingMessage {
    const { source, engine } = this.#options
    return decodeArrival(arrival, source.options, engine.maxBytes)
  }

  /**
   * Another process may be working on these, or the database was away: they are tried again. A few wait here, without taking a place,
   * because a message that is settled elsewhere in a moment need not make the round through the broker.
   */
  #putBack(all: readonly Undone[]): void {
    const delayMs = this.#backOffMs()
    const { timeoutMs } = this.#options.source.consumer.settings
    for (const { delivery, afterMs } of all) {
      const full = this.#patient.size >= this.#most / 4
      const long = afterMs > timeoutMs
      if (this.#idling || this.#errors > 0 || full || long) this.#tell(() => delivery.retry(afterMs + delayMs))
      else this.#wait(delivery, afterMs)
    }
    if (this.#errors > 0) this.#track(pause(this.#options.engine.clock, delayMs, this.#options.signal))
  }

  /** An error of a driver about one delivery must not affect the others. */
  #tell(say: () => void): void {
    try {
      say()
    } catch (error) {
      this.#options.report(asError(error))
    }
  }

  #wait(delivery: Delivery, afterMs: number): void {
    const waiting = this.#waitAndRetry({ delivery, afterMs })
      .catch((error: unknown) => this.#options.report(asError(error)))
      .finally(() => this.#patient.delete(waiting))
    this.#patient.add(waiting)
  }

  /** Tries a delivery again for as long as a handler elsewhere may take; after that it goes back to the broker. */
  async #waitAndRetry(first: Undone): Promise<void> {
    const { clock } = this.#options.engine
    const until = clock.monotonic() + this.#options.source.consumer.settings.timeoutMs
    let left: Undone | undefined = first
    while (left !== undefined && clock.monotonic() < until && !this.#idling && this.#errors === 0) {
      await pause(clock, left.afterMs + this.#backOffMs(), this.#stop.signal)
      if (!this.#idling) left = (await this.#handle([left.delivery])).at(0)
    }
    const { delivery, afterMs } = left ?? {}
    if (delivery !== undefined) this.#tell(() => delivery.retry((afterMs ?? 0) + this.#backOffMs()))
  }

  /** A random pause that grows while the database is away, so that deliveries do not come back all at once. */
  #backOffMs(): number {
    const { random } = this.#options.engine
    return Math.min(30_000, 200 * 2 ** this.#errors) * (0.5 + random.number())
  }
}

/** The types that the broker should deliver. */
function wantedTypes({ served }: Fed): OpenOptions['types'] {
  return served.includes(OTHERS) ? 'all' : served
}

/** A delivery that is not done, and when to try it again. */
interface Undone {
  readonly delivery: Delivery
  readonly afterMs: number
}

const undone = (delivery: Delivery): Undone => ({ delivery, afterMs: 0 })

/** How many deliveries are stored with one call. */
const STORE_SIZE = 500
/** The longest wait before another try: brokers end a subscription that leaves a delivery unanswered for too long. */
const MAX_AFTER_MS = 60_000
/** How long a broker may take to open a subscription. */
const OPEN_MS = 30_000
