import { pause } from './clock.ts'
import { Consumer } from './consumer.ts'
import type { Engine } from './engine.ts'
import { asError, HapaxError, messageOf } from './errors.ts'
import { expected, MAX_MS, noOthers, numberFrom, positiveInteger } from './options.ts'
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
  /** How long to wait for handlers that are running, before they are aborted; 0 aborts at once. @default 30_000 */
  readonly deadlineMs?: number
}

/** Works the inbox of its consumers until it is stopped. */
export class Worker<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumers: ReadonlyMap<string, Consumer<Tx>>
  readonly #pollMs: number
  readonly #signal = new Signal()
  readonly #running: { consumer: Consumer<Tx>; rows: readonly InboxRow[]; done: Promise<void> }[] = []
  readonly #busy = new Set<string>()
  /** Starts of rows that this process survived although no end could be recorded: they are no crashes. */
  readonly #survived = new Map<string, number>()
  readonly #abort = new AbortController()
  readonly #onStop: (worker: Worker<Tx>) => void
  #state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  #loop: Promise<void> | undefined
  #idle: (() => void)[] = []
  #errors = 0
  /** A message runs that nothing else may run beside. */
  #alone = false
  #emptyAt = 0

  /** Made by `hapax.worker`. */
  constructor(engine: Engine<Tx>, options: WorkerOptions<Tx>, onStop: (worker: Worker<Tx>) => void) {
    noOthers('options of worker', options, ['consume', 'pollMs'])
    this.#pollMs = positiveInteger('pollMs', options.pollMs, 1_000)
    if (!Array.isArray(options.consume) || options.consume.length === 0) {
      expected('consume', 'a list of consumers', options.consume)
    }
    for (const consumer of options.consume) {
      if (!(consumer instanceof Consumer) || !consumer.isOf(engine)) {
        expected('consume', 'a list of consumers of the same hapax', consumer)
      }
    }
    this.#engine = engine
    this.#consumers = new Map(options.consume.map((consumer) => [consumer.name, consumer]))
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

  /** Resolves when nothing is due and nothing is in hand, here or elsewhere; what waits for a later attempt is not due. */
  drain(): Promise<void> {
    if (this.#state !== 'running') return Promise.resolve()
    return new Promise((resolve) => {
      this.#idle.push(resolve)
      this.#signal.notify()
    })
  }

  /** Stops taking messages and waits for the handlers that are running, at most until the deadline. */
  async stop(options: StopOptions = {}): Promise<void> {
    noOthers('options of stop', options, ['deadlineMs'])
    const { deadlineMs } = options
    const limitMs = deadlineMs === Number.POSITIVE_INFINITY ? MAX_MS : numberFrom('deadlineMs', 0, deadlineMs, 30_000)
    if (this.#state === 'new') this.#state = 'stopped'
    if (this.#state === 'running') this.#state = 'stopping'
    this.#signal.notify()
    let cancel = (): void => {}
    const late = new Promise<void>((resolve) => {
      cancel = this.#engine.clock.after(limitMs, resolve)
    })
    const finished = Promise.allSettled([this.#loop, ...this.#running.map((run) => run.done)])
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
    // Who asks during this look is answered by the next one: what was published meanwhile may have been missed.
    const asking = this.#idle.splice(0)
    try {
      if (this.#busy.size === 0) this.#emptyAt = this.#engine.clock.monotonic()
      if (this.#alone || this.#wantsToBeEmpty()) return this.#pollMs
      if (this.#busy.size === 0 && (await this.#takeSuspect())) return this.#pollMs
      // What runs may end, and be due again, while we look.
      const idle = this.#busy.size === 0
      const taken = await this.#takeFresh()
      this.#errors = 0
      if (taken > 0) return this.#busy.size < this.#places() ? 0 : this.#pollMs
      return await this.#rest(idle ? asking : [])
    } finally {
      this.#idle.push(...asking)
    }
  }

  /** A message whose start had no end may be what ended its process: it runs alone, so that it cannot take others along. */
  async #takeSuspect(): Promise<boolean> {
    for (const consumer of this.#consumers.values()) {
      const [row] = await this.#due(consumer, 1, true)
      if (row === undefined) continue
      this.#alone = true
      this.#begin(consumer, [row])
      return true
    }
    return false
  }

  /** Suspects wait for an empty worker, and a busy one may never be empty by itself. */
  #wantsToBeEmpty(): boolean {
    return this.#busy.size > 0 && this.#engine.clock.monotonic() - this.#emptyAt > EMPTY_EVERY_MS
  }

  async #takeFresh(): Promise<number> {
    let taken = 0
    for (const consumer of this.#consumers.values()) {
      const free = places(consumer) - this.#running.filter((run) => run.consumer === consumer).reduce(rowsOf, 0)
      if (free <= 0) continue
      const rows = await this.#due(consumer, free, false)
      for (let start = 0; start < rows.length; start += consumer.groupSize) {
        this.#begin(consumer, rows.slice(start, start + consumer.groupSize))
      }
      taken += rows.length
    }
    return taken
  }

  async #due(consumer: Consumer<Tx>, limit: number, started: boolean): Promise<readonly InboxRow[]> {
    const types = new Map([[consumer.name, consumer.types]])
    const options = { limit, started, except: [...this.#busy], hideMs: HIDE_MS }
    const rows = await this.#engine.store.due(types, options)
    return rows.map((row) => this.#withoutSurvived(row))
  }

  async #rest(asking: (() => void)[]): Promise<number> {
    const types = new Map([...this.#consumers].map(([name, consumer]) => [name, consumer.types]))
    const nextMs = await this.#engine.store.nextDueMs(types)
    if (nextMs !== 0 && asking.length > 0) {
      // What another process has in hand, or had when it died, is not done either.
      if (await this.#engine.store.inFlight(types)) return Math.min(nextMs ?? LOCKED_MS, LOCKED_MS)
      for (const resolve of asking.splice(0)) resolve()
    }
    // Due, but locked by somebody else: look again soon, not at once.
    return Math.max(nextMs === 0 ? LOCKED_MS : 1, Math.min(nextMs ?? this.#pollMs, this.#pollMs))
  }

  #places(): number {
    let sum = 0
    for (const consumer of this.#consumers.values()) sum += places(consumer)
    return sum
  }

  #begin(consumer: Consumer<Tx>, rows: readonly InboxRow[]): void {
    for (const { seq } of rows) this.#busy.add(seq)
    const done = consumer
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
        this.#running.splice(this.#running.indexOf(run), 1)
        if (this.#busy.size === 0) this.#alone = false
        this.#signal.notify()
      })
    const run = { consumer, rows, done }
    this.#running.push(run)
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
      { consumers: [...this.#consumers.keys()], error: messageOf(error) },
      'the worker goes on after an error',
    )
    this.#engine.events.emit('worker-error', () => ({ consumers: [...this.#consumers.keys()], error }))
  }
}

const LOCKED_MS = 50
/** How long others do not see a row that was read: enough to get a connection and lock it. */
const HIDE_MS = 3_000
const EMPTY_EVERY_MS = 30_000
const ABORT_MS = 5_000
const MAX_SURVIVED = 10_000

function places<Tx>(consumer: Consumer<Tx>): number {
  return consumer.concurrency * consumer.groupSize
}

function rowsOf(sum: number, { rows }: { rows: readonly InboxRow[] }): number {
  return sum + rows.length
}

function stopped(): HapaxError {
  return new HapaxError('transaction-lost', 'the worker was stopped before the handler had finished')
}
