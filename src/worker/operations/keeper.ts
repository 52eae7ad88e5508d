import { asError, type Random, Signal } from '../../base/index.ts'
import { LEASE_MS, type OperationEngine, OperationRun } from './run.ts'

/** What keeping operations going needs. */
export interface KeeperOptions {
  readonly engine: OperationEngine & { readonly random: Random }
  /** Whether this process is the one that looks for operations that nobody works on. */
  isMine(): boolean
  report(error: Error): void
}

/**
 * Keeps operations going: takes those that no process works on, because they were left to the workers or because their process has died.
 * Several at once, so that a slow one does not hold up the others.
 */
export class OperationKeeper {
  readonly #options: KeeperOptions
  readonly #signal = new Signal()
  readonly #stop = new AbortController()
  readonly #runs = new Set<Promise<void>>()
  #asked = false
  #failing = false
  #loop: Promise<void> = Promise.resolve()

  constructor(options: KeeperOptions) {
    this.#options = options
  }

  start(): void {
    this.#loop = this.#work()
  }

  /** An operation has begun in this process. */
  wake(): void {
    this.#asked = true
    this.#signal.notify()
  }

  /** Leaves what is under way to other processes. */
  async stop(): Promise<void> {
    this.#stop.abort()
    this.#signal.notify()
    await this.#loop
    await Promise.all(this.#runs)
  }

  async #work(): Promise<void> {
    const { clock, random } = this.#options.engine
    while (!this.#stop.signal.aborted) {
      if (this.#asked || this.#options.isMine()) await this.#take()
      await this.#signal.wait(clock, EVERY_MS * (0.75 + random.number() / 2))
    }
  }

  async #take(): Promise<void> {
    this.#asked = false
    const { engine } = this.#options
    try {
      while (this.#runs.size < MOST && !this.#stop.signal.aborted) {
        const token = engine.random.token()
        const operation = await engine.store.operations.lease(token, LEASE_MS)
        if (operation === undefined) break
        this.#track(new OperationRun(engine, operation, token, { signal: this.#stop.signal }).run())
      }
      this.#failing = false
    } catch (error) {
      this.#failed(error)
    }
  }

  #track(work: Promise<void>): void {
    // One that has failed is tried again after a rest.
    const run = work
      .then(
        () => this.#signal.notify(),
        (error: unknown) => this.#failed(error),
      )
      .finally(() => {
        this.#runs.delete(run)
      })
    this.#runs.add(run)
  }

  /** Told once while it lasts: a store that is away is reported by other parts too. */
  #failed(error: unknown): void {
    if (!this.#failing) this.#options.report(asError(error))
    this.#failing = true
  }
}

/** How often the one process looks that is to. */
const EVERY_MS = 2_000
/** How many operations one process works on at once. */
const MOST = 8
