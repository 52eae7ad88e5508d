import { expected, noOthers, positiveInteger, present, Semaphore } from '../base/index.ts'
import { Feed, WebhookFeed } from '../consumer/index.ts'
import type {
  ClaimConsumer,
  ClaimHttpContext,
  Http,
  Served,
  Source,
  StopOptions,
  WebhookReceiver,
  Worker,
} from '../contracts/index.ts'
import {
  checkRetention,
  checkSource,
  claimStateOf,
  horizonsOf,
  isEnabled,
  LifeCycle,
  Reports,
  type Round,
  Sampler,
  SubscriptionLine,
} from '../worker/index.ts'
import { ClaimConsumerCore } from './consumer.ts'
import { type ClaimServed, StoredLine } from './line.ts'
import { RequestWork } from './request-work.ts'
import { ClaimHttp } from './requests.ts'
import type { ClaimEngine } from './work.ts'

/** Options of a worker on a claim store. */
export interface ClaimWorkerOptions {
  /**
   * `consumer.from(…)` for consumers fed by a broker. A bare consumer only retries failed messages; the others do so as well.
   * `hapax.http(…)` retries failed requests.
   */
  readonly consume: readonly (ClaimConsumer | Source<never> | WebhookReceiver<never> | Http<ClaimHttpContext>)[]
  /** The longest pause between two looks for failed messages to retry. @default 1_000 */
  readonly pollMs?: number
}

/** Reads subscriptions, and retries failed messages when a person asks for it. Runs until it is stopped. */
export class ClaimWorkerCore implements Worker {
  readonly #engine: ClaimEngine
  readonly #consumers: readonly ClaimServed[]
  readonly #disabled: readonly string[]
  readonly #sources: readonly Feed<never, ClaimConsumerCore>[]
  readonly #pollMs: number
  readonly #onStop: (worker: ClaimWorkerCore) => void
  readonly #life: LifeCycle
  readonly #reports: Reports
  #lines: readonly StoredLine[] = []
  #readers: readonly SubscriptionLine[] = []
  #sampler: Sampler | undefined
  /** The store was not available for the last delivery. */
  #failing = false

  /** Made by `hapax.worker`. */
  constructor(engine: ClaimEngine, options: ClaimWorkerOptions, onStop: (worker: ClaimWorkerCore) => void) {
    noOthers('options of worker', options, ['consume', 'pollMs'])
    const { consume } = options
    if (!Array.isArray(consume) || consume.length === 0) expected('consume', 'a list of consumers', consume)
    this.#engine = engine
    const consumers = [...new Set(consume.map((each) => consumerOf(engine, each)))]
    this.#sources = consume.filter((each) => each instanceof Feed).filter(({ consumer }) => isEnabled(consumer))
    this.#consumers = consumers.filter(isEnabled)
    this.#disabled = consumers.filter((each) => !isEnabled(each)).map(({ name }) => name)
    this.#pollMs = positiveInteger('pollMs', options.pollMs, 1_000)
    this.#onStop = onStop
    this.#reports = new Reports({ engine, consumers: this.#consumers.map(({ name }) => name), relays: [] })
    this.#life = this.#lifeCycle()
  }

  /** Checks the settings, and begins. Rejects when the store is not available, or when a broker refuses. */
  start(): Promise<void> {
    return this.#life.start()
  }

  /** What it serves, by name. */
  get serving(): Served {
    return { consumers: this.#consumers.map(({ name }) => name), disabled: this.#disabled, relays: [] }
  }

  /** Whether it runs and the store is available: for a readiness probe. */
  get ready(): boolean {
    return this.#life.isHealthy && !this.#failing
  }

  /** Resolves when no message is in hand and no retry is due. */
  drain(): Promise<void> {
    return this.#life.drain()
  }

  /** Stops taking messages and waits for the handlers that are running, at most until the deadline. */
  stop(options: StopOptions = {}): Promise<void> {
    return this.#life.stop(options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Something may be due. */
  wake(): void {
    this.#life.wake()
  }

  #lifeCycle(): LifeCycle {
    return new LifeCycle({
      ...this.#engine,
      prepare: async () => {
        await this.#prepare()
        return this.#readers
      },
      started: () => {
        this.#sampler?.start()
        this.#reports.started()
      },
      round: (asked) => this.#round(asked),
      halt: async () => {
        for (const line of this.#lines) line.stop()
      },
      running: () => this.#lines.flatMap((line) => line.running),
      ended: async () => this.#sampler?.stop(),
      stopped: () => {
        this.#onStop(this)
        this.#reports.stopped()
      },
      report: (error) => this.#report(error),
      recovered: () => this.#reports.recovered(),
    })
  }

  async #prepare(): Promise<void> {
    for (const consumer of this.#consumers) {
      consumer.start()
      checkRetention(consumer)
    }
    for (const source of this.#sources) checkSource(source)
    const { store } = this.#engine
    await store.ready()
    for (const { name, types } of this.#consumers) await store.subscriptions.add(name, types, false)
    this.#assemble()
  }

  #assemble(): void {
    const engine = this.#engine
    const places = new Map(this.#consumers.map((each) => [each, new Semaphore(each.settings.concurrency)]))
    const report = (error: Error): void => this.#report(error)
    const changed = (): void => this.wake()
    const { signal } = this.#life
    const progress = { made: () => this.#fails(false), failed: () => this.#fails(true) }
    this.#lines = [...places].map(
      ([consumer, room]) => new StoredLine({ consumer, places: room, signal, changed, report }),
    )
    this.#readers = this.#sources.map((source) => {
      const { concurrency } = source.consumer.settings
      const room = { concurrency, places: present(places.get(source.consumer), 'the room of a consumer') }
      return new SubscriptionLine({ engine, source, ...room, floor: engine.floor, progress, signal, report })
    })
    this.#sampler = new Sampler({
      engine,
      look: async () => claimStateOf(await engine.store.admin.status()),
      // The workers of such a store do not know of each other: each one tells what it sees.
      isSampler: () => true,
      horizons: () => horizonsOf(this.#consumers, this.#readers),
      watch: () => undefined,
      report,
    })
  }

  #fails(failing: boolean): void {
    this.#failing = failing
  }

  /** Looks once, and begins with what is due. */
  async #round(asked: boolean): Promise<Round> {
    const looks = await this.#look()
    const drained = [...this.#lines, ...this.#readers].every((each) => each.idle)
    const nextMs = Math.min(...looks, asked && !drained ? ASKED_MS : Number.POSITIVE_INFINITY)
    const restMs = Math.min(nextMs, this.#pollMs * (0.75 + this.#engine.random.number() / 2))
    return { drained, restMs: Math.max(1, restMs) }
  }

  /** Waits for all looks, also when one fails: a line must not look twice at the same time. */
  async #look(): Promise<readonly number[]> {
    const looks = this.#lines.map((line) => line.begin())
    await Promise.allSettled(looks)
    return Promise.all(looks)
  }

  #report(error: Error): void {
    this.#reports.error(error)
  }
}

/** How soon to look again while `drain` waits. */
const ASKED_MS = 50

function consumerOf(engine: ClaimEngine, of: ClaimWorkerOptions['consume'][number]): ClaimServed {
  const given = of instanceof ClaimHttp ? of.work : of
  const consumer = given instanceof Feed || given instanceof WebhookFeed ? given.consumer : given
  const known = consumer instanceof ClaimConsumerCore || consumer instanceof RequestWork
  if (!known || !consumer.isOf(engine)) expected('consume', 'a list of leased consumers of the same hapax', consumer)
  return consumer
}
