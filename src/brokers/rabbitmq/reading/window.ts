import type { Prefetch } from '../../../contracts/index.ts'

/** The protocol counts deliveries in 16 bits. */
const MOST = 65_535
/** How many messages are asked for as long as nobody knows how large they are. */
const FIRST = 16
/** How many messages are looked at to learn their usual size. */
const RECENT = 64

/**
 * How many messages to have the server send ahead. It counts messages only, so their number follows from their usual size: as
 * many as fit into the bytes that may be in hand, and one more, which waits for its turn. */
export class Window {
  readonly #prefetch: Prefetch
  #count: number
  #seen = 0
  #average = 0

  constructor(prefetch: Prefetch) {
    this.#prefetch = prefetch
    this.#count = Math.min(prefetch.messages, FIRST)
  }

  /** How many to ask for. */
  get count(): number {
    return this.#count
  }

  /** A message of this size has come. */
  saw(bytes: number): void {
    this.#seen += 1
    this.#average += (bytes - this.#average) / Math.min(this.#seen, RECENT)
  }

  /** More bytes have come than may wait, and this message was one too many: from now on only as many of its size as fit. */
  shrink(bytes: number): void {
    this.#average = Math.max(this.#average, bytes)
    this.#count = Math.max(1, Math.min(this.#count, this.#fitting))
  }

  get #fitting(): number {
    return Math.floor(this.#prefetch.bytes / Math.max(1, this.#average))
  }

  /** Adapts the count to what has come; true: it is so different that the server should know. */
  adapt(): boolean {
    // A few messages say little; if they are all there are, it does not matter.
    if (this.#seen < Math.min(this.#count, RECENT)) return false
    const most = Math.min(this.#prefetch.messages, MOST)
    const wanted = Math.min(most, 1 + this.#fitting)
    const near = wanted < most && wanted < 2 * this.#count && wanted > this.#count / 2
    if (near || wanted === this.#count) return false
    this.#count = wanted
    return true
  }
}
