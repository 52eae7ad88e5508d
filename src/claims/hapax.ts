import { type DoctorOptions, FailedMessages, leaseDoctor, sourceOption } from '../admin/index.ts'
import {
  Activity,
  type Clock,
  clockOption,
  detachedOf,
  EventHub,
  type Events,
  HapaxError,
  type Instrument,
  instrumentOption,
  type Logger,
  loggerOption,
  noOthers,
  Outages,
  positiveInteger,
  type Random,
  type Redact,
  randomOption,
  redactOption,
  text,
  within,
  workerName,
} from '../base/index.ts'
import { logProcessed } from '../consumer/index.ts'
import type {
  ClaimConsumer,
  ClaimHandler,
  ClaimHttpContext,
  ClaimHttpOptions,
  ClaimStatus,
  ClaimStore,
  Finding,
  Http,
  Trace,
  Worker,
} from '../contracts/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'
import { DatabaseClock, Floor } from '../transaction/index.ts'
import type { ClaimConsumerOptions } from './consumer.ts'
import { ClaimConsumerCore } from './consumer.ts'
import { ClaimHttp } from './requests.ts'
import type { ClaimEngine } from './work.ts'
import type { ClaimWorkerOptions } from './worker.ts'
import { ClaimWorkerCore } from './worker.ts'

/** Options of `createHapax` on a claim store. */
export interface ClaimHapaxOptions {
  readonly store: ClaimStore
  /** Accepted as on other stores, but without effect: nothing is published here. */
  readonly source?: string
  /** Where hapax logs. @default warnings and errors to standard error, as text on a terminal and as JSON lines elsewhere */
  readonly logger?: Logger
  /** Watches what hapax does, for traces: `opentelemetry()` of `hapax/opentelemetry`. @default nothing does */
  readonly instrument?: Instrument
  /**
   * Removes secrets of your application from error texts before they are stored or logged. hapax has already removed what it
   * recognises itself: passwords in URLs, tokens, private keys. @default nothing more is removed
   */
  readonly redact?: Redact
  /** The largest message that is taken. @default 1 MiB */
  readonly maxMessageBytes?: number
  /** For tests. @default the system clock */
  readonly clock?: Clock
  /** For tests. @default the random source of the system */
  readonly random?: Random
}

/** The failed messages of a claim store. They can be retried or discarded, but not edited. */
export type ClaimFailed = FailedMessages

/** A hapax on a claim store: leased consumers, and the tools to operate them. */
export interface ClaimHapax {
  /** What happened, for logs and metrics. */
  readonly events: Events
  /** The failed store. */
  readonly failed: ClaimFailed
  /** A consumer whose handlers call the outside world. Its name scopes deduplication: do not change it later. */
  leased(name: string, options?: ClaimConsumerOptions<ClaimHandler<unknown>>): ClaimConsumer
  /**
   * HTTP requests that take effect once, by the semantics of the expired draft-07 of Idempotency-Key: a request that comes again gets the
   * same response. Handlers run under a lease. The name of the scope is a part of what a key is known by.
   */
  http(scope: string, options: ClaimHttpOptions): Http<ClaimHttpContext>
  /** A worker that reads subscriptions and retries failed messages. */
  worker(options: ClaimWorkerOptions): Worker
  /** For each consumer: its types, its failed messages, and retries that are not finished. */
  status(): Promise<ClaimStatus>
  /** Every place where a message with this id is known. */
  explain(id: string, source?: string): Promise<readonly Trace[]>
  /** What is wrong with the store, and what to do about it. Of the limits, only `maxRows.failed` counts: Redis has no tables. */
  doctor(options?: DoctorOptions): Promise<readonly Finding[]>
  /** Stops the workers and closes what hapax opened, not the client it was given. */
  close(): Promise<void>
}

/** Puts together a hapax on a claim store. */
export class LeaseCore implements ClaimHapax {
  readonly events: EventHub
  readonly failed: ClaimFailed
  readonly #engine: ClaimEngine
  readonly #consumers = new Set<string>()
  readonly #workers = new Set<Worker>()

  constructor(options: ClaimHapaxOptions) {
    const known = ['store', 'source', 'logger', 'instrument', 'redact', 'maxMessageBytes', 'clock', 'random']
    noOthers(`options of createHapax on ${options.store.features.name}`, options, known)
    if (options.source !== undefined) text('source', options.source, MAX_TEXT_BYTES)
    const { store } = options
    const [clock, random] = [clockOption(options.clock), randomOption(options.random)]
    const redact = redactOption(options.redact)
    const logger = loggerOption(options.logger, redact, clock)
    const maxBytes = positiveInteger('maxMessageBytes', options.maxMessageBytes, 1024 * 1024)
    this.events = new EventHub(logger)
    const { events } = this
    logProcessed(events, logger)
    const instrument = instrumentOption(options.instrument, events, logger, redact)
    const outages = new Outages({ clock, events, logger })
    const shared = { activity: new Activity(), floor: new Floor(clock), events, outages }
    const watch = { instrument, detached: detachedOf(instrument) }
    const worker = workerName()
    const databaseClock = new DatabaseClock(clock)
    this.#engine = { store, logger, redact, clock, databaseClock, random, maxBytes, worker, ...shared, ...watch }
    const wake = (): void => {
      for (const worker of this.#workers) worker.wake()
    }
    this.failed = new Unedited({ store, clock, wake })
  }

  leased(name: string, options: ClaimConsumerOptions<ClaimHandler<unknown>> = {}): ClaimConsumer {
    this.#refuseSecond(name)
    const consumer = new ClaimConsumerCore(this.#engine, name, options)
    this.#consumers.add(name)
    return consumer
  }

  http(scope: string, options: ClaimHttpOptions): Http<ClaimHttpContext> {
    const http = new ClaimHttp(this.#engine, scope, options)
    this.#refuseSecond(http.work.name)
    this.#consumers.add(http.work.name)
    return http
  }

  #refuseSecond(name: string): void {
    if (!this.#consumers.has(name)) return
    throw new HapaxError('duplicate-handler', `expected one consumer of the name ${name}, got a second one`)
  }

  worker(options: ClaimWorkerOptions): Worker {
    const worker = new ClaimWorkerCore(this.#engine, options, (stopped) => this.#workers.delete(stopped))
    this.#workers.add(worker)
    return worker
  }

  status(): Promise<ClaimStatus> {
    return this.#engine.store.admin.status()
  }

  async explain(id: string, source?: string): Promise<readonly Trace[]> {
    return this.#engine.store.admin.trace(text('id', id, MAX_TEXT_BYTES), sourceOption(source))
  }

  doctor(options?: DoctorOptions): Promise<readonly Finding[]> {
    return leaseDoctor(this.#engine.store, options)
  }

  async close(): Promise<void> {
    const { activity, clock, store } = this.#engine
    if (activity.closed) return
    activity.close()
    await Promise.all([...this.#workers].map((worker) => worker.stop()))
    await within(clock, CLOSE_MS, activity.idle(), () => {})
    await store.close()
    this.#engine.logger.end()
  }
}

/** An edit needs a new id and so a new claim, in one step with the end of the old one. A claim store has no such step. */
class Unedited extends FailedMessages {
  edit(): Promise<never> {
    const what =
      'a failed message of this store cannot be edited: have it sent again under another id, and discard this one'
    return Promise.reject(new HapaxError('invalid-option', what))
  }
}

/** How long closing waits for what is under way. */
const CLOSE_MS = 60_000
