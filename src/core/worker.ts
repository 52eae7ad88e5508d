import { pause } from './clock.ts'
import type { Consumer } from './consumer.ts'
import type { Engine } from './engine.ts'
import { asError, HapaxError, redact } from './errors.ts'
import { expected, noOthers, positiveInteger } from './options.ts'
import type { Outcome } from './outcome.ts'
import { Signal } from './signal.ts'
import type { InboxRow } from './store.ts'

/** Options of a worker. */
export interface WorkerOptions<Tx> {
  /** The consumers whose inbox this worker works: retries, and what local delivery brings. */
  readonly consume: readonly Consumer<Tx>[]
  /** The longest pause between two looks into the inbox; a publish in this process wakes the worker at once. @default 1_000 */
  readonly pollMs?: number
}

/** Options of `stop`. */
export interface StopOptions {
  /** How long to wait for handlers that are running. @default 30_000 */
  readonly deadlineMs?: number
}

/** Works the inbox of its consumers until it is stopped. */
export class Worker<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumers: ReadonlyMap<string, Consumer<Tx>>
  readonly #pollMs: number
  readonly #signal = new Signal()
  readonly #running = new Set<Promise<void>>()
  readonly #busy = new Set<string>()
  /** Starts of rows that this process survived although no end could be recorded: they are no crashes. */
  readonly #survived = new Map<string, number>()
  readonly #abort = new AbortController()
  readonly #onStop: (worker: Worker<Tx>) => void
  #state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  #loop: Promise<void> | undefined
  #idle: (() => void)[] = []
  #errors = 0

  /** Made by `hapax.worker`. */
  constructor(engine: Engine<Tx>, options: WorkerOptions<Tx>, onStop: (worker: Worker<Tx>) => void) {
    noOthers('options of worker', options, ['consume', 'pollMs'])
    if (!Array.isArray(options.consume) || options.consume.length === 0) {
      expected('consume', 'a list of consumers', options.consume)
    }
    this.#engine = engine
    this.#consumers = new Map(options.consume.map((consumer) => [consumer.name, consumer]))
    this.#pollMs = positiveInteger('pollMs', options.pollMs, 1_000)
    this.#onStop = onStop
  }

  /** Registers the subscriptions and begins to work. Rejects when the database is not there or not migrated. */
  async start(): Promise<void> {
    if (this.#state !== 'new')
      throw new HapaxError('already-started', `expected a new worker, got one that is ${this.#state}`)
    this.#state = 'running'
    try {
      for (const consumer of this.#consumers.values()) consumer.start()
      await this.#engine.store.ready()
      for (const { name, types } of this.#consumers.values()) await this.#engine.store.subscribe(name, types)
    } catch (error) {
      this.#state = 'new'
      throw error
    }
    this.#loop = this.#work()
  }

  /** Resolves when nothing is due and nothing is running; messages that wait for a later attempt are not due. */
  drain(): Promise<void> {
    if (this.#state !== 'running') return Promise.resolve()
    return new Promise((resolve) => {
      this.#idle.push(resolve)
      this.#signal.notify()
    })
  }

  /** Stops taking messages and waits for the handlers that are running, at most until the deadline. */
  async stop({ deadlineMs = 30_000 }: StopOptions = {}): Promise<void> {
    if (this.#state === 'new') this.#state = 'stopped'
    if (this.#state === 'running') this.#state = 'stopping'
    this.#signal.notify()
    let cancel = (): void => {}
    const late = new Promise<void>((resolve) => {
      cancel = this.#engine.clock.after(deadlineMs, resolve)
    })
    const finished = Promise.allSettled([this.#loop, ...this.#running])
    await Promise.race([finished, late.then(() => this.#abort.abort(stopped()))])
    cancel()
    // What was aborted still writes down that it was.
    if (this.#abort.signal.aborted) await Promise.race([finished, pause(this.#engine.clock, ABORT_MS)])
    this.#state = 'stopped'
    this.#onStop(this)
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Something may be due. */
  wake(): void {
    this.#signal.notify()
  }

  async #work(): Promise<void> {
    while (this.#state === 'running') {
      const pauseMs = await this.#round().catch((error: unknown) => this.#backOff(error))
      if (pauseMs > 0 && this.#state === 'running') await this.#signal.wait(this.#engine.clock, pauseMs)
    }
  }

  /** Reads what is due into the free places; answers how long to wait before the next look. */
  async #round(): Promise<number> {
    const types = new Map([...this.#consumers].map(([name, consumer]) => [name, consumer.types]))
    const free = this.#capacity() - this.#busy.size
    if (free <= 0) return this.#pollMs
    const due = await this.#engine.store.due(types, free, [...this.#busy])
    const rows = due.map((row) => this.#withoutSurvived(row))
    this.#errors = 0
    for (const [consumer, group] of this.#groups(rows)) this.#begin(consumer, group)
    if (rows.length > 0) return this.#busy.size < this.#capacity() ? 0 : this.#pollMs
    return this.#rest(types)
  }

  async #rest(types: ReadonlyMap<string, readonly string[]>): Promise<number> {
    const nextMs = await this.#engine.store.nextDueMs(types)
    if (nextMs !== 0 && this.#busy.size === 0) for (const resolve of this.#idle.splice(0)) resolve()
    // Due, but locked by somebody else: look again soon, not at once.
    return Math.max(nextMs === 0 ? LOCKED_MS : 1, Math.min(nextMs ?? this.#pollMs, this.#pollMs))
  }

  #capacity(): number {
    let places = 0
    for (const consumer of this.#consumers.values()) places += consumer.concurrency * consumer.groupSize
    return places
  }

  #groups(rows: readonly InboxRow[]): readonly (readonly [Consumer<Tx>, readonly InboxRow[]])[] {
    const groups: (readonly [Consumer<Tx>, InboxRow[]])[] = []
    for (const row of rows) {
      const consumer = this.#consumers.get(row.consumer) as Consumer<Tx>
      const open = groups.findLast(([each]) => each === consumer)
      if (open !== undefined && open[1].length < consumer.groupSize) open[1].push(row)
      else groups.push([consumer, [row]])
    }
    return groups
  }

  #begin(consumer: Consumer<Tx>, rows: readonly InboxRow[]): void {
    for (const { seq } of rows) this.#busy.add(seq)
    const work = consumer
      .work(rows, this.#abort.signal)
      .then(
        (outcomes) => this.#remember(rows, outcomes),
        (error: unknown) => {
          this.#remember(rows, [])
          this.#report(asError(error))
        },
      )
      .finally(() => {
        for (const { seq } of rows) this.#busy.delete(seq)
        this.#running.delete(work)
        this.#signal.notify()
      })
    this.#running.add(work)
  }

  #withoutSurvived(row: InboxRow): InboxRow {
    const survived = this.#survived.get(row.seq)
    return survived === undefined ? row : { ...row, starts: row.starts - survived }
  }

  #remember(rows: readonly InboxRow[], outcomes: readonly Outcome[]): void {
    if (this.#survived.size > MAX_SURVIVED) this.#survived.clear()
    for (const [index, { seq }] of rows.entries()) {
      if (outcomes[index]?.ack) this.#survived.delete(seq)
      else this.#survived.set(seq, (this.#survived.get(seq) ?? 0) + 1)
    }
  }

  #backOff(thrown: unknown): number {
    this.#report(asError(thrown))
    this.#errors = Math.min(this.#errors + 1, 10)
    return Math.min(30_000, 100 * 2 ** this.#errors) * (0.5 + this.#engine.random.number() / 2)
  }

  #report(error: Error): void {
    this.#engine.logger.error(
      { consumers: [...this.#consumers.keys()], error: redact(error.message) },
      'the worker goes on after an error',
    )
    this.#engine.events.emit('worker-error', () => ({ consumers: [...this.#consumers.keys()], error }))
  }
}

const LOCKED_MS = 50
const ABORT_MS = 5_000
const MAX_SURVIVED = 10_000

function stopped(): HapaxError {
  return new HapaxError('transaction-lost', 'the worker was stopped before the handler had finished')
}
