import type { Clock, Detached, Logger } from '../base/index.ts'
import type { StoreNews } from '../contracts/index.ts'
import type { Committed } from '../transaction/index.ts'
import { News } from './news.ts'

/** A worker as its crew sees it. */
interface Member {
  wake(rows?: readonly Committed[]): void
  soon(): void
  serves(row: Committed): boolean
  begun(): void
  stop(): Promise<void>
}

/** What a crew needs of its hapax. */
interface CrewOptions {
  readonly news: StoreNews | undefined
  readonly clock: Clock
  readonly logger: Logger
  readonly detached: Detached
}

/** The workers of one hapax: wakes them, and those of other processes, when something was committed for them. */
export class Crew<Worker extends Member> {
  readonly #workers = new Set<Worker>()
  readonly #news: News
  readonly #detached: Detached

  constructor(options: CrewOptions) {
    this.#news = new News({ ...options, from: crypto.randomUUID() })
    this.#detached = options.detached
  }

  add(worker: Worker): void {
    this.#workers.add(worker)
  }

  remove(worker: Worker): void {
    this.#workers.delete(worker)
  }

  /** Something was committed: these rows, or, undefined, many or unknown ones. What begins now is not part of the work that did it. */
  wake(rows?: readonly Committed[]): void {
    this.#detached(this.#wake, rows)
  }

  readonly #wake = (rows: readonly Committed[] | undefined): void => {
    const workers = [...this.#workers]
    for (const worker of workers) worker.wake(rows)
    this.#news.tell(rows?.filter((row) => !workers.some((worker) => worker.serves(row))))
  }

  /** Something will be committed soon, or rolled back. */
  soon(): void {
    for (const worker of this.#workers) worker.soon()
  }

  /** An operation was left to the workers: one of this process works on it at once, if there is one. */
  begun(): void {
    const [first] = this.#workers
    if (first !== undefined) this.#detached(() => first.begun())
  }

  /** Calls `wake` with rows that other processes have committed, until the function that it returns is called. */
  listen(wake: (rows: readonly Committed[] | undefined) => void): () => Promise<void> {
    return this.#news.listen(wake)
  }

  /** Stops all workers. */
  async stop(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop()))
    await this.#news.close()
  }
}
