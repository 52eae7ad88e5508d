// Writes published messages: to the outbox, and to the inboxes of consumers on the same database.

import type { Entered, LocalResult, LocalRow, OutboxRow, Published } from '../contracts/index.ts'
import { noConsumer } from './publish-errors.ts'
import { type Prepared, toRelay, type Waiting } from './waiting.ts'

/** The consumers of a type that this process knows. */
export type ConsumersOf = (type: string) => LocalRow['consumers']

/** Messages by where they go, each in their order. */
export function divided(prepared: readonly Prepared[]): {
  readonly outbox: readonly OutboxRow[]
  readonly local: readonly Prepared[]
} {
  const outbox = prepared.filter(toRelay)
  return { outbox, local: outbox.length === prepared.length ? NONE : prepared.filter((each) => !toRelay(each)) }
}

/** Writes messages at once, and tells of those that are local. The buffer remembers their rows. */
export async function writeAll(
  entered: Entered,
  prepared: readonly Prepared[],
  consumersOf: ConsumersOf,
  buffer?: Waiting,
): Promise<ReadonlyMap<Prepared, Published>> {
  const { outbox, local } = divided(prepared)
  if (local.length === 0) {
    await entered.writeOutbox(outbox)
    return NOTHING
  }
  const { rows, first } = localRows(local, consumersOf)
  // First, because it is refused if nobody listens: then nothing is to be in the outbox either.
  const results = await entered.writeLocal(rows, outbox.length > 0)
  buffer?.local.push({ rows, results })
  const told = toldOf(local, first, results)
  if (outbox.length > 0) await entered.writeOutbox(outbox)
  return told
}

function toldOf(
  prepared: readonly Prepared[],
  first: ReadonlyMap<string, number>,
  results: readonly LocalResult[],
): ReadonlyMap<Prepared, Published> {
  const seen = new Set<string>()
  const told = new Map<Prepared, Published>()
  for (const each of prepared) {
    const { messageKey, id, type } = each.message
    const result = results[first.get(messageKey) ?? -1]
    if (result === undefined || result.consumers === 0) throw noConsumer(type)
    const duplicate = result.fresh === 0 || seen.has(messageKey)
    seen.add(messageKey)
    told.set(each, duplicate ? { id, duplicate: true } : { id })
  }
  return told
}

/** An id twice in one batch is one message: `first` has its place among the rows, by message key. */
export function localRows(
  prepared: readonly Prepared[],
  consumersOf: ConsumersOf,
): { rows: readonly LocalRow[]; first: ReadonlyMap<string, number> } {
  const first = new Map<string, number>()
  const rows: LocalRow[] = []
  for (const { message, delayMs } of prepared) {
    if (first.has(message.messageKey)) continue
    first.set(message.messageKey, rows.length)
    rows.push({ message, delayMs, consumers: consumersOf(message.type) })
  }
  return { rows, first }
}

const NONE: readonly Prepared[] = []
const NOTHING: ReadonlyMap<Prepared, Published> = new Map()
