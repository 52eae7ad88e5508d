import type { Statement } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import type { OverviewDialect } from '../../sql/index.ts'
import { MS, SEQ } from './fragments.ts'

/** The statements behind `status` and `explain`, on PostgreSQL in one schema. */
export function overview(schema: string): OverviewDialect {
  const sql = statements(schema)
  const plain = (text: string): Statement => ({ text, params: [] })
  return {
    receiptConsumers: plain(sql.receiptConsumers),
    receiptCount: (consumer, limit) => ({ text: sql.receiptCount, params: [consumer, limit] }),
    statusConsumers: plain(sql.statusConsumers),
    statusRelays: plain(sql.statusRelays),
    receiptSources: (consumer, limit) => ({ text: sql.receiptSources, params: [consumer, limit] }),
    otherSources: (limit) => ({ text: sql.otherSources, params: [limit, limit, limit, limit] }),
    traceReceipts: (id, consumer, { from, to }) => ({
      text: sql.receipts('consumer = $1::text and message_key between $2::uuid and $3::uuid and id = $4::text'),
      params: [consumer, from, to, encodeText(id)],
    }),
    traceKeys: (id, { from, to }) =>
      [sql.inbox, sql.sent, sql.failed].map((text) => ({
        text: text('message_key between $1::uuid and $2::uuid and id = $3::text'),
        params: [from, to, encodeText(id)],
      })),
    traceId: (id) => [
      { text: sql.outbox, params: [encodeText(id)] },
      { text: sql.audit, params: [encodeText(id), encodeText(id)] },
    ],
    traceAll: (id) =>
      [sql.receipts, sql.inbox, sql.sent, sql.failed].map((text) => ({
        text: text('id = $1::text'),
        params: [encodeText(id)],
      })),
  }
}

function statements(schema: string) {
  return {
    receiptConsumers: `
with recursive known (consumer) as (
  select min(consumer) from ${schema}.receipts
  union all
  select (select min(r.consumer) from ${schema}.receipts r where r.consumer > known.consumer)
  from known where known.consumer is not null
)
select consumer from known where consumer is not null`,
    receiptCount: `
select count(*) as count from (
  select from ${schema}.receipts where consumer = $1::text order by consumer, message_key limit $2::integer) as counted`,
    statusConsumers: `
select consumer, sum(waiting) as waiting, sum(retrying) as retrying, sum(held) as held, sum(failed) as failed
from (
  select consumer, count(*) filter (where held_at is null and attempts = 0) as waiting,
    count(*) filter (where held_at is null and attempts > 0) as retrying, count(held_at) as held, 0 as failed
  from ${schema}.inbox group by consumer
  union all
  select consumer, 0, 0, 0, count(*) from ${schema}.failed
  where origin = 'inbox' and replaced_by is null group by consumer
) as counts
group by consumer order by consumer`,
    statusRelays: `
select relay, sum(waiting) as waiting, sum(held) as held, sum(failed) as failed, ${MS('min(oldest)')} as oldest,
  max(destination) as destination
from (
  select relay, count(*) - count(held_at) as waiting, count(held_at) as held, 0 as failed, min(created_at) as oldest,
    null as destination
  from ${schema}.outbox group by relay
  union all
  select consumer, 0, 0, count(*), null, null from ${schema}.failed
  where origin = 'outbox' and replaced_by is null group by consumer
  union all
  select name, 0, 0, 0, null, destination from ${schema}.relays
) as counts
group by relay order by relay`,
    receiptSources: `
select distinct source from (
  select source from ${schema}.receipts where consumer = $1::text order by consumer, message_key limit $2::integer) as sample`,
    otherSources: `
select source from (select source from ${schema}.inbox order by seq desc limit $1::integer) as i union
select source from (select source from ${schema}.outbox order by seq desc limit $2::integer) as o union
select source from (select source from ${schema}.sent order by seq desc limit $3::integer) as s union
select source from (select source from ${schema}.failed order by seq desc limit $4::integer) as f`,
    receipts: (where: string) => `
select 'receipt' as place, consumer as scope, source, type, ${MS('taken_at')} as at from ${schema}.receipts where ${where}`,
    inbox: (where: string) => `
select 'inbox' as place, consumer as scope, source, type, ${MS('created_at')} as at, attempts, key,
  lease_token is not null as leased, ${MS('available_at')} as due_at, ${MS('held_at')} as held_at, error
from ${schema}.inbox where ${where}`,
    sent: (where: string) => `
select 'sent' as place, relay as scope, source, type, ${MS('sent_at')} as at from ${schema}.sent where ${where}`,
    failed: (where: string) => `
select 'failed' as place, ${SEQ('failed')} as seq, origin, consumer as scope, source, type, ${MS('failed_at')} as at, attempts,
  reason, held_seq::text as held_seq, replaced_by, error
from ${schema}.failed where ${where}`,
    outbox: `
select 'outbox' as place, relay as scope, source, type, ${MS('created_at')} as at, attempts, key,
  ${MS('held_at')} as held_at, error
from ${schema}.outbox where id = $1::text`,
    // An id may be longer than what an index takes.
    audit: `
select 'audit' as place, consumer as scope, source, type, ${MS('at')} as at, action, actor, note
from ${schema}.audit where left(id, 100) = left($1::text, 100) and id = $2::text`,
  } as const
}
