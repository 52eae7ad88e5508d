import {
  asError,
  errorFields,
  expected,
  faultFields,
  HapaxError,
  isHapaxError,
  noOthers,
  Places,
  pause,
  positiveInteger,
  Signal,
  within,
} from '../base/index.ts'
import { Source } from '../consumer/index.ts'
import {
  ABORT_MS,
  aborted,
  checkRetention,
  checkSource,
  deadlineOf,
  Reader,
  type Served,
  type StopOptions,
  stopped,
  unlessStopped,
} from '../worker/index.ts'
import { ClaimConsumer } from './consumer.ts'
import { StoredLine } from './line.ts'
import type { ClaimEngine } from './work.ts'

/** Options of a worker on a store that only knows leases. */
export interface ClaimWorkerOptions {
  /** `consumer.from(…)` for those fed by a broker. A bare consumer works what people want to be tried again; so do the others. */
  readonly consume: readonly (ClaimConsumer | Source<never, ClaimConsumer>)[]
  /** The longest pause between two looks for what people want to be tried again. @default 1_000 */
  readonly pollMs?: number
}

/** Reads subscriptions, and works what people want to be tried again. Runs until it is stopped. */
export class ClaimWorker {
  readonly #engine: ClaimEngine
  readonly #consumers: readonly ClaimConsumer[]
  readonly #sources: readonly Source<never, ClaimConsumer>[]
  readonly #pollMs: number
  readonly #onStop: (worker: ClaimWorker) => void
  readonly #signal = new Signal()
  readonly #abort = new AbortController()
  #lines: readonly StoredLine[] = []
  #readers: readonly Reader[] = []
  #state: 'new' | 'starting' | 'running' | 'stopping' | 'stopped' = 'new'
  #started: Promise<void> | undefined
  #stopped: Promise<void> | undefined
  #loop: Promise<void> | undefined
  #asking: (() => void)[] = []
  #errors = 0
  /** The store did not take what a subscription had delivered last. */
  #failing = false

  /** Made by `hapax.worker`. */
  constructor(engine: ClaimEngine, options: ClaimWorkerOptions, onStop: (worker: ClaimWorker) => void) {
    noOthers('options of worker', options, ['consume', 'pollMs'])
    const { consume } = options
    if (!Array.isArray(consume) || consume.length === 0) expected('consume', 'a list of consumers', consume)
    this.#engine = engine
    this.#sources = consume.filter((each) => each instanceof Source)
    this.#consumers = [...new Set(consume.map((each) => consumerOf(engine, each)))]
    this.#pollMs = positiveInteger('pollMs', options.pollMs, 1_000)
    this.#onStop = onStop
  }

  /** Checks what can be checked, and begins. Rejects when the store is not there, or when a broker refuses. */
  async start(): Promise<void> {
    if (this.#state !== 'new')
      throw new HapaxError('already-started', `expected a new worker, got one that is ${this.#state}`)
    this.#state = 'starting'
    this.#started = this.#start()
    await this.#started
  }

  async #start(): Promise<void> {
    try {
      await this.#prepare()
      for (const reader of this.#readers) await unlessStopped(this.#abort.signal, () => reader.start())
    } catch (error) {
      const closing: Promise<unknown> = Promise.allSettled(this.#readers.map((reader) => reader.close()))
      await within(this.#engine.clock, ABORT_MS, closing, () => {})
      this.#state = 'new'
      throw error
    }
    this.#state = 'running'
    this.#loop = this.#work()
  }

  /** What it serves, by name. */
  get serving(): Served {
    return { consumers: this.#consumers.map(({ name }) => name), relays: [] }
  }

  /** Whether it runs and the store answers: for a readiness probe. */
  get ready(): boolean {
    return this.#state === 'running' && this.#errors === 0 && !this.#failing
  }

  /** Resolves when nothing is in hand and nothing is due that people want to be tried again. */
  drain(): Promise<void> {
    if (this.#state !== 'running') return Promise.resolve()
    return new Promise((resolve) => {
      this.#asking.push(resolve)
      this.wake()
    })
  }

  /** Stops taking messages and waits for the handlers that are running, at most until the deadline. */
  async stop(options: StopOptions = {}): Promise<void> {
    const limitMs = deadlineOf(options)
    // Whoever asks again, with less patience, is heard.
    const cancel = this.#engine.clock.after(limitMs, () => this.#abort.abort(stopped()))
    this.#stopped ??= this.#stop()
    await this.#stopped.finally(cancel)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Something may be due. */
  wake(): void {
    this.#signal.notify()
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
    const places = new Map(this.#consumers.map((each) => [each, new Places(each.settings.concurrency)]))
    const report = (error: Error): void => this.#report(error)
    const changed = (): void => this.wake()
    const { signal } = this.#abort
    const progress = { made: () => this.#fails(false), failed: () => this.#fails(true) }
    this.#lines = [...places].map(
      ([consumer, room]) => new StoredLine({ consumer, places: room, signal, changed, report }),
    )
    this.#readers = this.#sources.map((source) => {
      const { concurrency } = source.consumer.settings
      const room = { concurrency, places: places.get(source.consumer) as Places }
      return new Reader({ engine, source, ...room, floor: engine.floor, progress, signal, report })
    })
  }

  #fails(failing: boolean): void {
    this.#failing = failing
  }

  async #work(): Promise<void> {
    while (this.#state === 'running') {
      const pauseMs = await this.#round().catch((error: unknown) => this.#backOff(error))
      if (this.#state === 'running') await this.#signal.wait(this.#engine.clock, pauseMs)
    }
  }

  /** Begins with what is due; answers how long to wait before the next look. */
  async #round(): Promise<number> {
    // Who asks during this look is answered by the next one.
    const asking = this.#asking.splice(0)
    try {
      const looks = await this.#look()
      this.#errors = 0
      const idle = [...this.#lines, ...this.#readers].every((each) => each.idle)
      if (idle) for (const resolve of asking.splice(0)) resolve()
      const nextMs = Math.min(...looks, asking.length > 0 ? ASKED_MS : Number.POSITIVE_INFINITY)
      return Math.max(1, Math.min(nextMs, this.#pollMs * (0.75 + this.#engine.random.number() / 2)))
    } finally {
      this.#asking.push(...asking)
    }
  }

  /** When one of them fails the others are waited for: a line looks once at a time. */
  async #look(): Promise<readonly number[]> {
    const looks = this.#lines.map((line) => line.begin())
    await Promise.allSettled(looks)
    return Promise.all(looks)
  }

  async #stop(): Promise<void> {
    // A start that is under way comes to its end first, whatever that is.
    await this.#started?.catch(() => {})
    if (this.#state === 'running') await this.#windUp()
    this.#state = 'stopped'
    this.#onStop(this)
    for (const resolve of this.#asking.splice(0)) resolve()
  }

  async #windUp(): Promise<void> {
    const { signal } = this.#abort
    this.#state = 'stopping'
    for (const line of this.#lines) line.stop()
    this.wake()
    await Promise.race([Promise.allSettled(this.#readers.map((reader) => reader.pause())), aborted(signal)])
    const finished = this.#finished()
    await Promise.race([finished, aborted(signal)])
    // What was aborted still writes down that it was.
    if (signal.aborted) await Promise.race([finished, pause(this.#engine.clock, ABORT_MS)])
    const closing = Promise.allSettled(this.#readers.map((reader) => reader.close()))
    await Promise.race([closing, pause(this.#engine.clock, ABORT_MS)])
  }

  /** Also what the last look has begun. */
  async #finished(): Promise<void> {
    await this.#loop
    for (let running = this.#running(); running.length > 0; running = this.#running()) await Promise.allSettled(running)
  }

  #running(): readonly Promise<void>[] {
    return [...this.#lines, ...this.#readers].flatMap((each) => each.running)
  }

  #backOff(thrown: unknown): number {
    this.#report(asError(thrown))
    this.#errors = Math.min(this.#errors + 1, 10)
    return Math.min(MAX_BACK_OFF_MS, 100 * 2 ** this.#errors) * (0.5 + this.#engine.random.number() / 2)
  }

  #report(error: Error): void {
    const consumers = this.#consumers.map(({ name }) => name)
    const fields = isHapaxError(error) ? errorFields(error) : faultFields(error)
    this.#engine.logger.error({ consumers, ...fields }, 'the worker goes on after an error')
    this.#engine.events.emit('worker-error', () => ({ consumers, error }))
  }
}

const ASKED_MS = 50
const MAX_BACK_OFF_MS = 10_000

function consumerOf(engine: ClaimEngine, given: ClaimConsumer | Source<never, ClaimConsumer>): ClaimConsumer {
  const consumer = given instanceof Source ? given.consumer : given
  if (!(consumer instanceof ClaimConsumer) || !consumer.isOf(engine)) {
    expected('consume', 'a list of leased consumers of the same hapax', consumer)
  }
  return consumer
}
