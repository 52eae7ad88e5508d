import { HapaxError } from '../../../base/index.ts'
import type { Confirmation, Settle } from '../../../contracts/index.ts'
import type { Written } from '../wire.ts'

const CONFIRMED: Confirmation = { status: 'confirmed' }

/** One message without an answer yet. */
export class Pending {
  readonly written: Written
  /** The broker refused a batch that contained it. It is sent alone, to find out whether it is the cause. */
  alone = false
  settled = false
  readonly #call: Call
  readonly #at: number
  readonly #key: string | undefined

  /** `at` is its place among the messages of the call. */
  constructor(call: Call, at: number, key: string | undefined, written: Written) {
    this.#call = call
    this.#at = at
    this.#key = key
    this.written = written
  }

  /** Whether it may be sent: not after an earlier message of its key failed, and not once it is settled. */
  isReady(): boolean {
    const stop = this.#key === undefined || this.settled ? undefined : this.#call.stopOf(this.#key)
    if (stop !== undefined && stop.at < this.#at) this.#settle({ status: 'unavailable', error: behind(stop.error) })
    return !this.settled
  }

  confirm(): void {
    this.#settle(CONFIRMED)
  }

  /** Fails the message. Later messages of its key in the same call must not overtake it. */
  fail(status: 'refused' | 'failed' | 'unavailable', error: Error): void {
    if (this.#key !== undefined) this.#call.stop(this.#key, this.#at, error)
    this.#settle({ status, error })
  }

  #settle(confirmation: Confirmation): void {
    if (this.settled) return
    this.settled = true
    this.#call.settle(this.#at, confirmation)
  }
}

/** One call of `publish`, within which order per key is kept. */
export class Call {
  /** For each key, the first message that failed and why. */
  readonly #stops = new Map<string, { readonly at: number; readonly error: Error }>()
  readonly #settle: Settle
  readonly #over: () => void
  #left: number

  /** `over` is called when all of its messages are settled. */
  constructor(messages: number, settle: Settle, over: () => void) {
    this.#left = messages
    this.#settle = settle
    this.#over = over
  }

  get isOver(): boolean {
    return this.#left === 0
  }

  settle(at: number, confirmation: Confirmation): void {
    this.#left -= 1
    this.#settle(at, confirmation)
    if (this.#left === 0) this.#over()
  }

  stop(key: string, at: number, error: Error): void {
    const known = this.#stops.get(key)
    if (known === undefined || at < known.at) this.#stops.set(key, { at, error })
  }

  stopOf(key: string): { readonly at: number; readonly error: Error } | undefined {
    return this.#stops.get(key)
  }
}

function behind(cause: Error): HapaxError {
  return new HapaxError('broker-unavailable', 'an earlier message of the same key was not taken', { cause })
}

/** Messages of one partition that are sent as one batch. The broker takes all of them or none. */
export interface Chunk {
  readonly pending: Pending[]
  bytes: number
}

/**
 * Takes from the queue what can be sent in one request, by partition. A partition gets at most one batch. The rest stays in the
 * queue, in order. Messages without a key fill the batch of one partition before they go to the next.
 */
export function takeChunks(
  queue: Pending[],
  chunks: Map<number, Chunk>,
  { partitionOf, spread, limits }: TakeOptions,
): void {
  const full = new Set<number>()
  const left: Pending[] = []
  let bytes = 0
  let count = 0
  for (const each of queue) {
    if (!each.isReady()) continue
    const { key } = each.written
    const partition = key === undefined ? spread.current(full) : partitionOf(key)
    const chunk = chunks.get(partition) ?? { pending: [], bytes: 0 }
    const done = count >= limits.messages || (bytes > 0 && bytes + each.written.bytes > limits.bytes)
    if (done || full.has(partition) || !fits(chunk, each, limits.batchBytes)) {
      full.add(partition)
      left.push(each)
      continue
    }
    chunk.pending.push(each)
    chunk.bytes += each.written.bytes
    chunks.set(partition, chunk)
    bytes += each.written.bytes
    count += 1
  }
  queue.splice(0, queue.length, ...left)
  spread.next()
}

interface TakeOptions {
  readonly partitionOf: (key: Uint8Array) => number
  readonly spread: Spread
  readonly limits: Limits
}

/** How much is sent at once. */
interface Limits {
  /** In one request. */
  readonly messages: number
  readonly bytes: number
  /** In one batch: what a topic takes is counted by batch. */
  readonly batchBytes: number
}

function fits(chunk: Chunk, { alone, written }: Pending, batchBytes: number): boolean {
  if (chunk.pending.length === 0) return true
  return !alone && !chunk.pending[0]?.alone && chunk.bytes + written.bytes <= batchBytes
}

/** Chooses the partition of messages without a key: another one for each send. */
export class Spread {
  #partitions = 1
  #next: number

  constructor(start: number) {
    this.#next = start
  }

  over(partitions: number): this {
    this.#partitions = partitions
    return this
  }

  /** The current partition, or the next one that is not full. If all are full, any of them. */
  current(full: ReadonlySet<number>): number {
    for (let step = 0; step < this.#partitions; step++) {
      const partition = (this.#next + step) % this.#partitions
      if (!full.has(partition)) return partition
    }
    return this.#next % this.#partitions
  }

  next(): void {
    this.#next = (this.#next + 1) % this.#partitions
  }
}
