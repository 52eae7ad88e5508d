import { systemClock } from '../../../base/index.ts'
import type { KafkaMember } from '../client.ts'
import type { Assignment } from './assignment.ts'

/** What a committer needs of its reader. */
export interface CommitterOptions {
  readonly consumer: Pick<KafkaMember, 'commit'>
  readonly intervalMs: number
  /** Called after each commit: with the error, or with undefined after a success. */
  went(error: unknown): void
  /** Called after a success: the windows have room again. */
  committed(): void
}

/** Commits finished offsets in the background. One request at a time, so that an offset never moves back. */
export class Committer {
  readonly #options: CommitterOptions
  #assignment: Assignment | undefined
  #cancel: (() => void) | undefined
  #running: Promise<void> | undefined
  #failing = false

  constructor(options: CommitterOptions) {
    this.#options = options
  }

  /** Begins to commit for these partitions. */
  serve(assignment: Assignment): void {
    this.#assignment = assignment
    assignment.onFinished = (partition) => {
      if (partition.isPressing && !this.#failing) void this.flush()
      else this.#later()
    }
    this.#later()
  }

  /** Commits now, or joins the commit that is under way, which does not include later offsets. Never rejects. */
  flush(): Promise<void> {
    this.#running ??= this.#commit().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  /** Stops committing for these partitions. A commit that is under way belongs to their generation and may complete. */
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
