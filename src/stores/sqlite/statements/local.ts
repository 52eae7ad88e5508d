// Delivery to consumers of the same database, without a broker: receipts and inbox rows are written in the publisher's transaction, so
// the messages are there if and only if that transaction commits.

import type { Executor, LocalDelivery, LocalResult, LocalRow } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import { asBoolean, asSeq, type Dialect, type InboxStatements, type ReceiptStatements } from '../../sql/index.ts'
import { SEQ } from './fragments.ts'
import { inbox, receipts } from './inbox.ts'

/** What delivers messages to the consumers of this database. */
interface LocalStatements {
  readonly listening: string
  readonly receipts: ReceiptStatements
  readonly inbox: InboxStatements
}

/** Delivers messages to the consumers of this database. */
export function local(prefix: string): Dialect['writeLocal'] {
  const listening = `
with known (consumer, ordered) as (
  select distinct value ->> 'name', value ->> 'ordered' from json_each(?)
)
select consumer, max(ordered) as ordered from (
  select consumer, ordered from known
  union all
  select consumer, ordered from ${prefix}subscriptions where type = ?
)
group by consumer order by 1`
  const sql = { listening, receipts: receipts(prefix), inbox: inbox(prefix) }
  return async (executor, rows, token) => {
    const results: LocalResult[] = []
    for (const row of rows) results.push(await deliver(sql, executor, row, token))
    return results
  }
}

/** Receipt and inbox row for each consumer that has no receipt yet. */
async function deliver(
  sql: LocalStatements,
  executor: Executor,
  { message, consumers, delayMs }: LocalRow,
  token: string,
): Promise<LocalResult> {
  // By name: what JSON makes of an object leaves getters out.
  const known = consumers.map(({ name, ordered }) => ({ name, ordered }))
  const listening = await executor.query(sql.listening, [JSON.stringify(known), encodeText(message.type)])
  const rows: LocalDelivery[] = []
  for (const row of listening.rows) {
    const consumer = String(row['consumer'])
    if (!(await isNew(sql, executor, consumer, token, message))) continue
    const ordered = asBoolean(row['ordered']) && message.key !== null
    const waiting = { consumer, message, ordered, attempts: 0, starts: 0, delayMs, error: null, local: true }
    for (const { text, params } of sql.inbox.insert([waiting])) {
      const { rows: written } = await executor.query(`${text} returning ${SEQ}`, params)
      for (const each of written) rows.push({ consumer, ordered, seq: asSeq(each['seq']) })
    }
  }
  return { consumers: listening.rows.length, fresh: rows.length, rows }
}

/** Writes a receipt, if there is none. */
async function isNew(
  sql: LocalStatements,
  executor: Executor,
  consumer: string,
  token: string,
  message: LocalRow['message'],
): Promise<boolean> {
  let written = 0
  for (const { text, params } of sql.receipts.take(consumer, token, [message], 0))
    written += (await executor.query(text, params)).affected
  return written > 0
}
