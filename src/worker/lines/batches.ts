// What a relay reads and sends together.

import type { Entry, OutboxMessage } from '../../contracts/index.ts'
import { grouping } from './grouping.ts'

/** How many rows are read at once. */
export const BATCH = 500
/** Bounds the memory for payloads of one batch. */
const BATCH_BYTES = 16 * 1024 * 1024

/** The rows that are read and sent together. Rows without a key, the usual ones, need no grouping. */
export function batchesOf(entries: readonly Entry[], ready: (entry: Entry) => boolean): readonly (readonly Entry[])[] {
  const batches: Entry[][] = []
  const keyed: Entry[] = []
  let batch: Entry[] = []
  let filled = 0
  for (const entry of entries) {
    if (entry.key !== null) keyed.push(entry)
    else if (ready(entry)) {
      if (batch.length === 0 || batch.length >= BATCH || filled + entry.bytes > BATCH_BYTES) {
        batch = []
        filled = 0
        batches.push(batch)
      }
      batch.push(entry)
      filled += entry.bytes
    }
  }
  if (keyed.length === 0) return batches
  const { turns } = grouping(keyed, {
    room: Number.POSITIVE_INFINITY,
    size: BATCH,
    roomBytes: Number.POSITIVE_INFINITY,
    bytes: BATCH_BYTES,
    ready,
  })
  // If a key does not fit into one batch, only its first part is taken: two batches at once could overtake each other.
  return [...batches, ...turns.map(([first = []]) => first)]
}

/** Rows that need not wait for others, and those of keys of which there are several. */
export function apart(rows: readonly OutboxMessage[]): {
  readonly loose: readonly OutboxMessage[]
  readonly chains: readonly (readonly OutboxMessage[])[]
} {
  const loose: OutboxMessage[] = []
  const keys = new Map<string, OutboxMessage[]>()
  for (const row of rows) {
    const { key } = row.message
    const chain = key === null ? undefined : keys.get(key)
    if (chain !== undefined) chain.push(row)
    else if (key !== null) keys.set(key, [row])
    else loose.push(row)
  }
  const chains: OutboxMessage[][] = []
  for (const chain of keys.values()) {
    if (chain.length > 1) chains.push(chain)
    else loose.push(...chain)
  }
  return { loose, chains }
}

/** The entries whose rows are gone: another worker has sent them. */
export function without(batch: readonly Entry[], rows: readonly OutboxMessage[]): readonly Entry[] {
  const there = new Set(rows.map(({ seq }) => seq))
  return batch.filter(({ seq }) => !there.has(seq))
}
