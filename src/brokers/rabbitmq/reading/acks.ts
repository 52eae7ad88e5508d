import { systemClock } from '../../../base/index.ts'

/**
 * The acks of one channel. Acks of one turn of the event loop are combined: one covers everything before the first unfinished
 * delivery, and those after it are sent one by one. An unfinished delivery is never acked along with others.
 */
export class Acks {
  readonly #tell: (tag: number, allUpTo: boolean) => void
  /** The arrival time of each unfinished delivery, in the order of tags, which only grow. */
  readonly #unfinished = new Map<number, number>()
  #last = 0
  #acked: number[] = []
  #soon: NodeJS.Immediate | undefined

  constructor(tell: (tag: number, allUpTo: boolean) => void) {
    this.#tell = tell
  }

  /** Registers a delivery. */
  add(tag: number): void {
    this.#unfinished.set(tag, systemClock.monotonic())
    this.#last = tag
  }

  /** How long the oldest delivery has been unanswered; undefined if there is none. */
  get heldMs(): number | undefined {
    const [since] = this.#unfinished.values()
    return since === undefined ? undefined : systemClock.monotonic() - since
  }

  /** Acks a delivery soon. */
  ack(tag: number): void {
    this.#unfinished.delete(tag)
    this.#acked.push(tag)
    this.#soon ??= setImmediate(() => this.flush())
  }

  /** Forgets a delivery that was rejected or given back. */
  returned(tag: number): void {
    this.#unfinished.delete(tag)
  }

  /** Sends the acks now. */
  flush(): void {
    this.drop()
    const acked = this.#acked
    this.#acked = []
    const [first = this.#last + 1] = this.#unfinished.keys()
    const together = acked.filter((tag) => tag < first)
    // The server closes the channel at an unknown tag, so only tags that were really acked may be named.
    if (together.length > 0) this.#tell(Math.max(...together), together.length > 1)
    for (const tag of acked) if (tag > first) this.#tell(tag, false)
  }

  /** Cancels the scheduled flush. */
  drop(): void {
    clearImmediate(this.#soon)
    this.#soon = undefined
  }
}
