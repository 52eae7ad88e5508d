import type { Statement } from '../../../contracts/index.ts'
import { type OverviewDialect, uuidBytes } from '../../sql/index.ts'
import { BY_KEY, MS, NAME } from './fragments.ts'
import { bytes, text } from './rows.ts'

/** The statements behind `status` and `explain`, on MariaDB and MySQL with one prefix. */
export function overview(prefix: string): OverviewDialect {
  const sql = statements(prefix)
  const plain = (each: string): Statement => ({ text: each, params: [] })
  return {
    receiptConsumers: plain(sql.receiptConsumers),
    receiptCount: (consumer, limit) => ({ text: sql.receiptCount(limit), params: [bytes(consumer)] }),
    statusConsumers: plain(sql.statusConsumers),
    statusRelays: plain(sql.statusRelays),
    receiptSources: (consumer, limit) => ({ text: sql.receiptSources(limit), params: [bytes(consumer)] }),
    otherSources: (limit) => plain(sql.otherSources(limit)),
    traceReceipts: (id, consumer, { from, to }) => ({
      text: sql.receipts('m.consumer = ? and m.message_key between ? and ? and m.id = ?'),
      params: [bytes(consumer), uuidBytes(from), uuidBytes(to), text(id)],
    }),
    traceKeys: (id, { from, to }) =>
      [sql.inbox, sql.sent, sql.failed].map((each) => ({
        text: each('m.message_key between ? and ? and m.id = ?'),
        params: [uuidBytes(from), uuidBytes(to), text(id)],
      })),
    traceId: (id) => [sql.outbox, sql.audit].map((each) => ({ text: each, params: [text(id)] })),
    traceAll: (id) =>
      [sql.receipts, sql.inbox, sql.sent, sql.failed].map((each) => ({ text: each('m.id = ?'), params: [text(id)] })),
  }
}

const LIMIT = (limit: number): string => `limit ${Math.trunc(limit)}`

function statements(prefix: string) {
  const table = (name: string): string => `${prefix}${name}`
  const newest = (name: string, limit: number): string =>
    `select source from (select source from ${table(name)} order by seq desc ${LIMIT(limit)}) as ${name}_`
  return {
    receiptConsumers: `select distinct consumer from ${table('receipts')} order by consumer`,
    receiptCount: (limit: number) => `
select count(*) as count from (
  select message_key from ${table('receipts')} ${BY_KEY} where consumer = ? order by message_key ${LIMIT(limit)}) as counted`,
    statusConsumers: `
select consumer, sum(waiting) as waiting, sum(retrying) as retrying, sum(held) as held, sum(failed) as failed
from (
  select consumer, sum(held_at is null and attempts = 0) as waiting, sum(held_at is null and attempts > 0) as retrying,
    count(held_at) as held, 0 as failed
  from ${table('inbox')} group by consumer
  union all
  select consumer, 0, 0, 0, count(*) from ${table('failed')}
  where origin = 'inbox' and replaced_by is null group by consumer
) as counts
group by consumer order by consumer`,
    statusRelays: `
select relay, sum(waiting) as waiting, sum(held) as held, sum(failed) as failed, ${MS('min(oldest)')} as oldest,
  max(destination) as destination
from (
  select relay, count(*) - count(held_at) as waiting, count(held_at) as held, 0 as failed, min(created_at) as oldest,
    null as destination
  from ${table('outbox')} group by relay
  union all
  select consumer, 0, 0, count(*), null, null from ${table('failed')}
  where origin = 'outbox' and replaced_by is null group by consumer
  union all
  select name, 0, 0, 0, null, destination from ${table('relays')}
) as counts
group by relay order by relay`,
    receiptSources: (limit: number) => `
select distinct source from (
  select source from ${table('receipts')} ${BY_KEY} where consumer = ? order by message_key ${LIMIT(limit)}) as sample`,
    otherSources: (limit: number) =>
      ['inbox', 'outbox', 'sent', 'failed'].map((name) => newest(name, limit)).join(' union '),
    receipts: (where: string) => `
select 'receipt' as place, m.consumer as scope, m.source, m.type, ${MS('m.taken_at')} as at
from ${table('receipts')} as m where ${where}`,
    inbox: (where: string) => `
select 'inbox' as place, m.consumer as scope, m.source, m.type, ${MS('m.created_at')} as at, m.attempts, m.\`key\`,
  m.lease_token is not null as leased, ${MS('m.available_at')} as due_at, ${MS('m.held_at')} as held_at, m.error
from ${table('inbox')} as m where ${where}`,
    sent: (where: string) => `
select 'sent' as place, m.relay as scope, m.source, m.type, ${MS('m.sent_at')} as at from ${table('sent')} as m where ${where}`,
    failed: (where: string) => `
select 'failed' as place, ${NAME()} as seq, m.origin, m.consumer as scope, m.source, m.type,
  ${MS('m.failed_at')} as at, m.attempts, m.reason, cast(m.held_seq as char) as held_seq, m.replaced_by, m.error
from ${table('failed')} as m where ${where}`,
    outbox: `
select 'outbox' as place, m.relay as scope, m.source, m.type, ${MS('m.created_at')} as at, m.attempts, m.\`key\`,
  ${MS('m.held_at')} as held_at, m.error
from ${table('outbox')} as m where m.id = ?`,
    audit: `
select 'audit' as place, m.consumer as scope, m.source, m.type, ${MS('m.at')} as at, m.action, m.actor, m.note
from ${table('audit')} as m where m.id = ?`,
  } as const
}
