// Delivery to consumers of the same database, without a broker: receipts and inbox rows are written in the publisher's transaction, so
// the messages are there if and only if that transaction commits.

import type { Executor, LocalResult, LocalRow } from '../../../contracts/index.ts'
import { asBoolean, asText, asUuid, type Dialect, type InboxStatements, NO_LIMIT, uuidBytes } from '../../sql/index.ts'
import { BY_KEY, KEYED, MANY, tables } from './fragments.ts'
import { inbox, receiptRows } from './inbox.ts'
import { bytes, chunks, inserts, list, type MultiRow, receipt, text } from './rows.ts'

/** One message for one consumer. */
interface Target {
  readonly consumer: string
  readonly ordered: boolean
  readonly row: LocalRow
}

/** Consumers by name, and whether each wants order. */
type Listening = ReadonlyMap<string, boolean>

/** What delivers messages to the consumers of this database. */
interface LocalStatements {
  readonly listening: string
  readonly receipts: MultiRow
  readonly fresh: (count: number) => string
  readonly inbox: InboxStatements
}

/** Delivers messages to the consumers of this database. */
export function local(prefix: string): Dialect['writeLocal'] {
  const { subscriptions, receipts } = tables(prefix)
  const sql: LocalStatements = {
    // sql_select_limit may have any value in a caller-owned session; an explicit limit overrides it.
    // A locking read sees what is committed now; the snapshot of the user's transaction may be too old.
    listening: `
select m.type, m.consumer, m.ordered from ${KEYED(subscriptions, 'type')} limit ${NO_LIMIT} lock in share mode`,
    receipts: receiptRows(prefix),
    fresh: (count) => `
select message_key from ${receipts} ${BY_KEY} where consumer = ? and token = ? and message_key in (${MANY(count)}) limit ${NO_LIMIT}`,
    inbox: inbox(prefix),
  }
  return (executor, rows, token) => writeLocal(sql, executor, rows, token)
}

/** Who listens, receipts where there are none, and an inbox row for each receipt that is new. */
async function writeLocal(
  sql: LocalStatements,
  executor: Executor,
  rows: readonly LocalRow[],
  token: string,
): Promise<readonly LocalResult[]> {
  const listening = await consumersOf(sql, executor, rows)
  const targets = rows.map((row) => targetsOf(listening.get(row.message.type), row))
  const distinct = new Map(targets.flat().map((target) => [nameOf(target), target]))
  await insertReceipts(sql, executor, [...distinct.values()], token)
  const fresh = await freshNames(sql, executor, [...distinct.values()], token)
  // The same message may be given twice: its first place is the new one.
  const delivered = targets.map((each) => each.filter((target) => fresh.delete(nameOf(target))))
  await insertInbox(sql, executor, delivered.flat())
  return targets.map((each, index) => ({ consumers: each.length, fresh: delivered[index]?.length ?? 0 }))
}

/** The consumers that `subscriptions` has now, by type. */
async function consumersOf(
  sql: LocalStatements,
  executor: Executor,
  rows: readonly LocalRow[],
): Promise<ReadonlyMap<string, Listening>> {
  const types = [...new Set(rows.map((row) => row.message.type))]
  const found = new Map<string, Map<string, boolean>>()
  for (const part of chunks(types)) {
    const answer = await executor.query(sql.listening, [list(part.map(text))])
    for (const row of answer.rows) {
      const type = asText(row['type'])
      const listening = found.get(type) ?? new Map<string, boolean>()
      found.set(type, listening.set(asText(row['consumer']), asBoolean(row['ordered'])))
    }
  }
  return found
}

/** Order counts if this process, or what is listed, wants it. */
function targetsOf(listed: Listening | undefined, row: LocalRow): readonly Target[] {
  const known = row.consumers.map(({ name, ordered }) => [name, ordered || listed?.get(name) === true] as const)
  const listening = new Map([...(listed ?? []), ...known])
  return [...listening.keys()].sort().map((consumer) => ({ consumer, ordered: listening.get(consumer) === true, row }))
}

/** A target by consumer and message, in the order of the primary key. */
function nameOf({ consumer, row }: Target): string {
  return `${consumer}\0${row.message.messageKey}`
}

async function insertReceipts(
  sql: LocalStatements,
  executor: Executor,
  targets: readonly Target[],
  token: string,
): Promise<void> {
  // Sorted, because two publishers inserting in different order deadlock.
  const sorted = targets.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
  const receipts = sorted.map(({ consumer, row }) => receipt(consumer, token, row.message))
  for (const { text, params } of inserts(sql.receipts, receipts)) await executor.query(text, params)
}

async function freshNames(
  sql: LocalStatements,
  executor: Executor,
  targets: readonly Target[],
  token: string,
): Promise<Set<string>> {
  const fresh = new Set<string>()
  for (const [consumer, own] of Map.groupBy(targets, (target) => target.consumer)) {
    for (const part of chunks(own)) {
      const keys = part.map(({ row }) => uuidBytes(row.message.messageKey))
      const { rows } = await executor.query(sql.fresh(part.length), [bytes(consumer), uuidBytes(token), ...keys])
      for (const row of rows) fresh.add(`${consumer}\0${asUuid(row['message_key'])}`)
    }
  }
  return fresh
}

async function insertInbox(sql: LocalStatements, executor: Executor, targets: readonly Target[]): Promise<void> {
  const rows = targets.map(({ consumer, ordered, row: { message, delayMs } }) => ({
    ...{ consumer, message, ordered, attempts: 0, starts: 0 },
    ...{ delayMs, error: null, local: true },
  }))
  for (const { text, params } of sql.inbox.insert(rows)) await executor.query(text, params)
}
