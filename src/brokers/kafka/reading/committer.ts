import { systemClock } from '../../../base/index.ts'
import type { KafkaConsumer } from '../client.ts'
import type { Assignment } from './assignment.ts'

/** What a committer needs of its reader. */
export interface CommitterOptions {
  readonly consumer: KafkaConsumer
  readonly intervalMs: number
  /** It works, or it does not. */
  went(error: unknown): void
  /** Something was committed: more may be handed out. */
  committed(): void
}

/** Commits what is finished, in the background, one request at a time, so that no offset ever goes back. */
export class Committer {
  readonly #options: CommitterOptions
  #assignment: Assignment | undefined
  #cancel: (() => void) | undefined
  #running: Promise<void> | undefined
  #failing = false

  constructor(options: CommitterOptions) {
    this.#options = options
  }

  /** From now on for these partitions. */
  serve(assignment: Assignment): void {
    this.#assignment = assignment
    assignment.onFinished = (partition) => {
      if (partition.isPressing && !this.#failing) void this.flush()
      else this.#later()
    }
    this.#later()
  }

  /** Commits now what there is, unless a commit is under way: then what comes meanwhile waits. Never rejects. */
  flush(): Promise<void> {
    this.#running ??= this.#commit().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  /** Nothing more is committed for these partitions; what is under way is of their time. */
  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#assignment = undefined
  }

  #later(): void {
    this.#cancel ??= systemClock.after(this.#options.intervalMs, () => {
      this.#cancel = undefined
      void this.flush()
    })
  }

  async #commit(): Promise<void> {
    const assignment = this.#assignment
    const marks = (assignment?.partitions ?? []).flatMap((each) => each.takeMark() ?? [])
    if (marks.length === 0) return
    try {
      await this.#options.consumer.commit({ offsets: marks.map(({ offset }) => offset) })
      for (const { done } of marks) done()
      this.#failing = false
      this.#options.went(undefined)
      this.#options.committed()
    } catch (error) {
      this.#failing = true
      this.#options.went(error)
    }
    if (assignment !== undefined && assignment === this.#assignment) this.#later()
  }
}
