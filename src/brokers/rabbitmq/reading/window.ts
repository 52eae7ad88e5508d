import type { Prefetch } from '../../../contracts/index.ts'

/** The protocol has 16 bits for the prefetch count. */
const MOST = 65_535
/** The prefetch count before the size of messages is known. */
const FIRST = 16
/** How many recent messages the average size covers. */
const RECENT = 64

/**
 * The prefetch count. RabbitMQ limits messages but not bytes, so the count follows from the average size: as many as fit into the
 * bytes that may be in hand, and one more that waits for its turn.
 */
export class Window {
  readonly #prefetch: Prefetch
  #count: number
  #seen = 0
  #average = 0

  constructor(prefetch: Prefetch) {
    this.#prefetch = prefetch
    this.#count = Math.min(prefetch.messages, FIRST)
  }

  /** The prefetch count to use. */
  get count(): number {
    return this.#count
  }

  /** Learns from the size of a message. */
  saw(bytes: number): void {
    this.#seen += 1
    this.#average += (bytes - this.#average) / Math.min(this.#seen, RECENT)
  }

  /** Called when more bytes came than may wait. From now on, only as many messages of this size as fit. */
  shrink(bytes: number): void {
    this.#average = Math.max(this.#average, bytes)
    this.#count = Math.max(1, Math.min(this.#count, this.#fitting))
  }

  get #fitting(): number {
    return Math.floor(this.#prefetch.bytes / Math.max(1, this.#average))
  }

  /** Adapts the count to the sizes seen. True: it changed so much that the server should be told. */
  adapt(): boolean {
    // Too few messages to judge by; and if they are all there are, the count does not matter.
    if (this.#seen < Math.min(this.#count, RECENT)) return false
    const most = Math.min(this.#prefetch.messages, MOST)
    const wanted = Math.min(most, 1 + this.#fitting)
    const near = wanted < most && wanted < 2 * this.#count && wanted > this.#count / 2
    if (near || wanted === this.#count) return false
    this.#count = wanted
    return true
  }
}
