import { systemClock } from '../../../base/index.ts'

/**
 * The acks of one channel. Those of the same moment are told together: one for everything before the first delivery that is not
 * finished, and one each for those beyond it. A delivery that is not finished is never acked along with others.
 */
export class Acks {
  readonly #tell: (tag: number, allUpTo: boolean) => void
  /** When each came, in the order of their tags, which only grow. */
  readonly #unfinished = new Map<number, number>()
  #last = 0
  #acked: number[] = []
  #soon: NodeJS.Immediate | undefined

  constructor(tell: (tag: number, allUpTo: boolean) => void) {
    this.#tell = tell
  }

  /** A delivery has come. */
  add(tag: number): void {
    this.#unfinished.set(tag, systemClock.monotonic())
    this.#last = tag
  }

  /** For how long the oldest delivery has waited for its answer; undefined: there is none. */
  get heldMs(): number | undefined {
    const [since] = this.#unfinished.values()
    return since === undefined ? undefined : systemClock.monotonic() - since
  }

  /** It is to be acked. */
  ack(tag: number): void {
    this.#unfinished.delete(tag)
    this.#acked.push(tag)
    this.#soon ??= setImmediate(() => this.flush())
  }

  /** The server has been told otherwise: it has this delivery back. */
  returned(tag: number): void {
    this.#unfinished.delete(tag)
  }

  /** Tells now. */
  flush(): void {
    this.drop()
    const acked = this.#acked
    this.#acked = []
    const [first = this.#last + 1] = this.#unfinished.keys()
    const together = acked.filter((tag) => tag < first)
    // The server knows only tags that it waits for: not those it got back, or was told of before.
    if (together.length > 0) this.#tell(Math.max(...together), together.length > 1)
    for (const tag of acked) if (tag > first) this.#tell(tag, false)
  }

  /** Does not tell by itself any more. */
  drop(): void {
    clearImmediate(this.#soon)
    this.#soon = undefined
  }
}
