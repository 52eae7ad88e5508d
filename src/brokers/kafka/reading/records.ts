import { HapaxError } from '../../../base/index.ts'
import type { KafkaBatch, KafkaFetched } from '../client.ts'
import type { Fetched } from '../wire.ts'
import { isPlaceholder } from './decompression.ts'

const TRANSACTIONAL = 1 << 4
const CONTROL = 1 << 5

/** What a fetch brought for one partition. */
export interface Read {
  readonly records: readonly Fetched[]
  /** Where the next fetch begins. */
  readonly next: bigint
  /** The last offset, if it is not a message: a transaction marker, or a record of an aborted transaction. */
  readonly skipped: { readonly offset: bigint; readonly leaderEpoch: number } | undefined
}

/**
 * The messages from the offset `from` on, without transaction markers and without records of aborted transactions. A batch may
 * begin before the requested offset.
 */
export function readRecords(
  topic: string,
  from: bigint,
  { partitionIndex, records, abortedTransactions }: KafkaFetched,
): Read {
  const aborted = new Aborted(abortedTransactions ?? [])
  const found: Fetched[] = []
  let next = from
  let skipped: Read['skipped']
  for (const batch of records ?? []) {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta)
    const all = aborted.takes(batch) ? fetchedOf(topic, partitionIndex, batch) : []
    if (last < from) continue
    const wanted = withoutPlaceholders(all.filter(({ offset }) => offset >= from))
    for (const each of wanted) found.push(each)
    next = last + 1n
    skipped = wanted.at(-1)?.offset === last ? undefined : { offset: last, leaderEpoch: batch.partitionLeaderEpoch }
  }
  return { records: found, next, skipped }
}

/** One record stands for all of a batch that was not decompressed. */
function withoutPlaceholders(records: readonly Fetched[]): readonly Fetched[] {
  const [first] = records
  if (first === undefined || !isPlaceholder(first.record)) return records
  const what = `${records.length} messages, from offset ${first.offset} on, are in a batch that is larger than maxBatchBytes`
  const refused = new HapaxError('too-large', `${what}: it was not decompressed`)
  return [{ ...first, record: { ...first.record, headers: [] }, refused }]
}

function fetchedOf(topic: string, partition: number, batch: KafkaBatch): Fetched[] {
  return batch.records.map((record) => ({
    topic,
    partition,
    offset: batch.firstOffset + BigInt(record.offsetDelta),
    leaderEpoch: batch.partitionLeaderEpoch,
    timestamp: batch.firstTimestamp + record.timestampDelta,
    record,
    bytes: sizeOf(record),
    refused: undefined,
  }))
}

function sizeOf({ key, value, headers }: KafkaBatch['records'][number]): number {
  const inHeaders = headers.reduce((sum, [name, each]) => sum + (name?.byteLength ?? 0) + (each?.byteLength ?? 0), 0)
  return (key?.byteLength ?? 0) + (value?.byteLength ?? 0) + inHeaders
}

/**
 * Aborted transactions. The broker names the offset at which each began. It ends at its marker, which may come in a later fetch, and
 * the same producer may have committed other transactions before and after it.
 */
class Aborted {
  readonly #coming: { readonly producerId: bigint; readonly firstOffset: bigint }[]
  readonly #open = new Set<bigint>()

  constructor(aborted: readonly { readonly producerId: bigint; readonly firstOffset: bigint }[]) {
    this.#coming = [...aborted].sort((a, b) => Number(a.firstOffset - b.firstOffset))
  }

  /** Whether the records of the next batch are messages. */
  takes({ firstOffset, lastOffsetDelta, attributes, producerId, records }: KafkaBatch): boolean {
    const last = firstOffset + BigInt(lastOffsetDelta)
    for (let next = this.#coming[0]; next !== undefined && next.firstOffset <= last; next = this.#coming[0]) {
      this.#open.add(next.producerId)
      this.#coming.shift()
    }
    if (attributes & CONTROL) {
      if (isAbort(records[0]?.key)) this.#open.delete(producerId)
      return false
    }
    return !(attributes & TRANSACTIONAL) || !this.#open.has(producerId)
  }
}

/** The key of a marker is its version and its type, of two bytes each. Type 0 is an abort. */
function isAbort(key: Buffer | null | undefined): boolean {
  return key != null && key.byteLength >= 4 && key.readInt16BE(2) === 0
}
