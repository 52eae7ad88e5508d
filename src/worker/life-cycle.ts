import {
  asError,
  type Clock,
  type Detached,
  HapaxError,
  MAX_MS,
  noOthers,
  numberFrom,
  type Random,
  Signal,
  within,
} from '../base/index.ts'
import type { StopOptions } from '../contracts/index.ts'

/** A reader of a subscription, as the life cycle sees it. */
interface Reading {
  start(): Promise<void>
  /** Stops taking messages. */
  pause(): Promise<unknown>
  close(): Promise<unknown>
  readonly idle: boolean
  readonly running: readonly Promise<void>[]
}

/** The result of one round of a worker. */
export interface Round {
  /** Nothing is due and nothing is in hand. */
  readonly drained: boolean
  /** How long to wait before the next round, unless the worker is woken. */
  readonly restMs: number
}

/** The steps of a worker; the life cycle decides when each is taken. */
export interface WorkerSteps {
  readonly clock: Clock
  readonly random: Random
  /** Runs the loop and all that it begins outside the context of whoever starts the worker. */
  readonly detached: Detached
  /** Checks the settings, and joins the other workers. Returns the readers of its subscriptions. */
  prepare(): Promise<readonly Reading[]>
  /** It runs now. */
  started(): void
  /** Looks once and begins with what is due. `asked`: `drain` waits for the result. */
  round(asked: boolean): Promise<Round>
  /** Takes no more messages, and releases those that have not begun. */
  halt(): Promise<unknown>
  /** What has begun, apart from subscriptions. */
  running(): readonly Promise<unknown>[]
  /** Ends other work, such as cleaning. */
  ended?(): Promise<unknown>
  /** `start` failed, or the worker has stopped. */
  left?(): Promise<unknown>
  /** It has stopped for good. */
  stopped(): void
  report(error: Error): void
  /** A round succeeded after one or more that failed: the store answers again. */
  recovered(): void
}

/**
 * The life of a worker from `start` to `stop`: its state, its loop, and its orderly end. Shared by workers on stores with transactions
 * and on claim stores.
 */
export class LifeCycle {
  readonly #steps: WorkerSteps
  readonly #wakeUp = new Signal()
  readonly #abort = new AbortController()
  #readers: readonly Reading[] = []
  #state: 'new' | 'starting' | 'running' | 'stopping' | 'stopped' = 'new'
  #started: Promise<void> | undefined
  #stopped: Promise<void> | undefined
  #loop: Promise<void> | undefined
  #asking: (() => void)[] = []
  #errors = 0

  constructor(steps: WorkerSteps) {
    this.#steps = steps
  }

  get isRunning(): boolean {
    return this.#state === 'running'
  }

  /** Whether the last round succeeded. */
  get isHealthy(): boolean {
    return this.#state === 'running' && this.#errors === 0
  }

  /** Aborted when running handlers are out of time. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  async start(): Promise<void> {
    // A start beside a stop would outlive it.
    const state = this.#state === 'new' && this.#stopped !== undefined ? 'stopping' : this.#state
    if (state !== 'new') throw new HapaxError('already-started', `expected a new worker, got one that is ${state}`)
    this.#state = 'starting'
    this.#started = this.#steps.detached(() => this.#start())
    await this.#started
  }

  /** Resolves after the first round that finds nothing left, or when the worker has stopped. */
  async drain(): Promise<void> {
    if (this.#state === 'starting') await this.#started
    if (this.#state === 'new' && this.#stopped === undefined) {
      throw new HapaxError('not-started', 'expected a worker that was started, got a new one: nothing would be drained')
    }
    if (this.#state !== 'running') return
    await new Promise<void>((resolve) => {
      this.#asking.push(resolve)
      this.wake()
    })
  }

  async stop(options: StopOptions): Promise<void> {
    const limitMs = deadlineOf(options)
    // Each call sets its own timer, so that a second call may shorten the deadline of the first.
    const cancel = this.#steps.clock.after(limitMs, () => this.#abort.abort(stopped()))
    this.#stopped ??= this.#steps.detached(() => this.#stop())
    await this.#stopped.finally(cancel)
  }

  /** Something may be due. */
  wake(): void {
    this.#wakeUp.notify()
  }

  async #start(): Promise<void> {
    try {
      this.#readers = await this.#prepared()
      for (const reader of this.#readers) await unlessStopped(this.signal, () => reader.start())
    } catch (error) {
      await this.#giveUp()
      this.#state = 'new'
      throw error
    }
    this.#state = 'running'
    this.#steps.started()
    this.#loop = this.#work()
  }

  /** A database that does not answer must not hold up the end. Should it answer after all, what was joined is left. */
  async #prepared(): Promise<readonly Reading[]> {
    const preparing = this.#steps.prepare()
    try {
      await unlessStopped(this.signal, async () => void (await preparing))
    } catch (error) {
      preparing.then(() => this.#steps.left?.()).catch(() => {})
      throw error
    }
    return preparing
  }

  /** Those that have opened deliver already, and one that opens late must not. */
  async #giveUp(): Promise<void> {
    const ended = async (): Promise<void> => {
      await Promise.allSettled(this.#readers.map((reader) => reader.pause()))
      await Promise.allSettled(this.#running())
    }
    await within(this.#steps.clock, ABORT_MS, ended(), () => {})
    await this.#close()
    this.#readers = []
    await within(this.#steps.clock, ABORT_MS, Promise.resolve(this.#steps.left?.()), () => {})
  }

  async #work(): Promise<void> {
    while (this.#state === 'running') {
      const restMs = await this.#round().catch((error: unknown) => this.#backOff(error))
      if (restMs > 0 && this.#state === 'running') await this.#wakeUp.wait(this.#steps.clock, restMs)
    }
  }

  async #round(): Promise<number> {
    // A `drain` that is called during a round waits for the next one: this round may have missed what was published meanwhile.
    const asking = this.#asking.splice(0)
    try {
      const { drained, restMs } = await this.#steps.round(asking.length > 0)
      if (this.#errors > 0) this.#steps.recovered()
      this.#errors = 0
      if (drained) for (const resolve of asking.splice(0)) resolve()
      return restMs
    } finally {
      this.#asking.push(...asking)
      // A round that outlived the stop is not followed by another.
      if (this.#state === 'stopped') this.#answerAll()
    }
  }

  #backOff(thrown: unknown): number {
    this.#steps.report(asError(thrown))
    this.#errors = Math.min(this.#errors + 1, 10)
    return Math.min(MAX_BACK_OFF_MS, 100 * 2 ** this.#errors) * (0.5 + this.#steps.random.number() / 2)
  }

  async #stop(): Promise<void> {
    // Wait for a start that is under way: only then is it known what has to be stopped.
    await this.#started?.catch(() => {})
    if (this.#state === 'running') await this.#windUp()
    this.#state = 'stopped'
    this.#steps.stopped()
    this.#answerAll()
  }

  #answerAll(): void {
    for (const resolve of this.#asking.splice(0)) resolve()
  }

  async #windUp(): Promise<void> {
    this.#state = 'stopping'
    this.wake()
    const handedOver = Promise.allSettled([this.#steps.halt(), ...this.#readers.map((reader) => reader.pause())])
    await Promise.race([handedOver, aborted(this.signal)])
    const finished: Promise<unknown> = Promise.allSettled([this.#loop, this.#steps.ended?.(), this.#finished()])
    await Promise.race([finished, aborted(this.signal)])
    // Aborted handlers still get time to record that they were aborted.
    if (this.signal.aborted) await within(this.#steps.clock, ABORT_MS, finished, () => {})
    await this.#close()
  }

  /** Repeats, because work that ends may begin other work: a confirmed message is deleted, and the last look may have found more. */
  async #finished(): Promise<void> {
    await this.#loop
    for (let running = this.#running(); running.length > 0; running = this.#running()) await Promise.allSettled(running)
  }

  #running(): readonly Promise<unknown>[] {
    return [...this.#steps.running(), ...this.#readers.flatMap((reader) => reader.running)]
  }

  async #close(): Promise<void> {
    const closing: Promise<unknown> = Promise.allSettled(this.#readers.map((reader) => reader.close()))
    await within(this.#steps.clock, ABORT_MS, closing, () => {})
  }
}

/** The longest pause after a failed round; short enough to notice soon that the database is back. */
const MAX_BACK_OFF_MS = 10_000
/** How long aborted work may take to record that it was aborted. */
const ABORT_MS = 5_000

function deadlineOf(options: StopOptions): number {
  noOthers('options of stop', options, ['deadlineMs'])
  const { deadlineMs } = options
  return deadlineMs === Number.POSITIVE_INFINITY ? MAX_MS : numberFrom('deadlineMs', 0, deadlineMs, 30_000)
}

/** Resolves when the signal is aborted. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Waits for a broker at the start, but not longer than the worker lives: a broker that never replies must not block `stop`. */
export async function unlessStopped(signal: AbortSignal, work: () => Promise<void> | undefined): Promise<void> {
  const closed = new HapaxError('closed', 'the worker was stopped before it had started')
  if (signal.aborted) throw closed
  const stop = Promise.withResolvers<never>()
  const abort = (): void => stop.reject(closed)
  signal.addEventListener('abort', abort, { once: true })
  try {
    await Promise.race([stop.promise, work()])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** Why a handler is told to stop. */
export function stopped(): HapaxError {
  const fields = { stopped: true }
  return new HapaxError('transaction-lost', 'the worker was stopped before the handler had finished', { fields })
}
