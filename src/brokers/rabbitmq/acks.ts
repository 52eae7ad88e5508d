import { LowWater, type Place } from '../../core/low-water.ts'

/** A delivery of a channel, by its tag. */
export type Tagged = Place<number>

/**
 * The acks of one channel. Those of the same moment are told together: one for everything up to the last delivery before which
 * nothing is unfinished, and one each for those beyond it. A delivery that is not finished is never acked along with others.
 */
export class Acks {
  readonly #tell: (tag: number, allUpTo: boolean) => void
  readonly #line = new LowWater<number>()
  #mark = 0
  #acked: number[] = []
  #soon: NodeJS.Immediate | undefined

  constructor(tell: (tag: number, allUpTo: boolean) => void) {
    this.#tell = tell
  }

  /** A delivery has come; tags only grow. */
  add(tag: number): Tagged {
    return this.#line.add(tag)
  }

  /** It is to be acked. */
  ack(delivery: Tagged): void {
    delivery.finished = true
    this.#acked.push(delivery.position)
    this.#soon ??= setImmediate(() => this.flush())
  }

  /** The server has been told otherwise: it has this delivery back. */
  returned(delivery: Tagged): void {
    delivery.finished = true
  }

  /** Tells now. */
  flush(): void {
    this.drop()
    this.#mark = this.#line.advance()?.position ?? this.#mark
    const acked = this.#acked
    this.#acked = []
    const together = acked.filter((tag) => tag <= this.#mark)
    if (together.length > 0) this.#tell(Math.max(...together), together.length > 1)
    for (const tag of acked) if (tag > this.#mark) this.#tell(tag, false)
  }

  /** Does not tell by itself any more. */
  drop(): void {
    clearImmediate(this.#soon)
    this.#soon = undefined
  }
}
