import type { Statement } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import type { OverviewDialect } from '../../sql/index.ts'
import { NAME, UUID } from './fragments.ts'

/** The statements behind `status` and `explain`, on SQLite with one prefix. */
export function overview(prefix: string): OverviewDialect {
  const sql = statements(prefix)
  const plain = (text: string): Statement => ({ text, params: [] })
  return {
    receiptConsumers: plain(sql.receiptConsumers),
    receiptCount: (consumer, limit) => ({ text: sql.receiptCount, params: [consumer, limit] }),
    statusConsumers: plain(sql.statusConsumers),
    statusRelays: plain(sql.statusRelays),
    receiptSources: (consumer, limit) => ({ text: sql.receiptSources, params: [consumer, limit] }),
    otherSources: (limit) => ({ text: sql.otherSources, params: [limit, limit, limit, limit] }),
    traceReceipts: (id, consumer, { from, to }) => ({
      text: sql.receipts(`consumer = ? and message_key between ${UUID} and ${UUID} and id = ?`),
      params: [consumer, from, to, encodeText(id)],
    }),
    traceKeys: (id, { from, to }) =>
      [sql.inbox, sql.sent, sql.failed].map((text) => ({
        text: text(`message_key between ${UUID} and ${UUID} and id = ?`),
        params: [from, to, encodeText(id)],
      })),
    traceId: (id) => [sql.outbox, sql.audit].map((text) => ({ text, params: [encodeText(id)] })),
    traceAll: (id) =>
      [sql.receipts, sql.inbox, sql.sent, sql.failed].map((text) => ({
        text: text('id = ?'),
        params: [encodeText(id)],
      })),
  }
}

function statements(prefix: string) {
  return {
    receiptConsumers: `
with recursive known (consumer) as (
  select min(consumer) from ${prefix}receipts
  union all
  select (select min(r.consumer) from ${prefix}receipts as r where r.consumer > known.consumer)
  from known where known.consumer is not null
)
select consumer from known where consumer is not null`,
    receiptCount: `
select count(*) as count from (select 1 from ${prefix}receipts where consumer = ? limit ?)`,
    statusConsumers: `
select consumer, sum(waiting) as waiting, sum(retrying) as retrying, sum(held) as held, sum(failed) as failed
from (
  select consumer, count(*) filter (where held_at is null and attempts = 0) as waiting,
    count(*) filter (where held_at is null and attempts > 0) as retrying, count(held_at) as held, 0 as failed
  from ${prefix}inbox group by consumer
  union all
  select consumer, 0, 0, 0, count(*) from ${prefix}failed
  where origin = 'inbox' and replaced_by is null group by consumer
)
group by consumer order by consumer`,
    statusRelays: `
select relay, sum(waiting) as waiting, sum(held) as held, sum(failed) as failed, min(oldest) as oldest,
  max(destination) as destination
from (
  select relay, count(*) - count(held_at) as waiting, count(held_at) as held, 0 as failed, min(created_at) as oldest,
    null as destination
  from ${prefix}outbox group by relay
  union all
  select consumer, 0, 0, count(*), null, null from ${prefix}failed
  where origin = 'outbox' and replaced_by is null group by consumer
  union all
  select name, 0, 0, 0, null, destination from ${prefix}relays
)
group by relay order by relay`,
    receiptSources: `
select distinct source from (select source from ${prefix}receipts where consumer = ? order by message_key limit ?)`,
    otherSources: `
select source from (select source from ${prefix}inbox order by seq desc limit ?) union
select source from (select source from ${prefix}outbox order by seq desc limit ?) union
select source from (select source from ${prefix}sent order by seq desc limit ?) union
select source from (select source from ${prefix}failed order by seq desc limit ?)`,
    receipts: (where: string) => `
select 'receipt' as place, consumer as scope, source, type, taken_at as at from ${prefix}receipts where ${where}`,
    inbox: (where: string) => `
select 'inbox' as place, consumer as scope, source, type, created_at as at, attempts, key,
  lease_token is not null as leased, available_at as due_at, held_at, error
from ${prefix}inbox where ${where}`,
    sent: (where: string) => `
select 'sent' as place, relay as scope, source, type, sent_at as at from ${prefix}sent where ${where}`,
    failed: (where: string) => `
select 'failed' as place, ${NAME('m')} as seq, origin, consumer as scope, source, type, failed_at as at, attempts,
  reason, cast(held_seq as text) as held_seq, replaced_by, error
from ${prefix}failed as m where ${where}`,
    outbox: `
select 'outbox' as place, relay as scope, source, type, created_at as at, attempts, key, held_at, error
from ${prefix}outbox where id = ?`,
    audit: `
select 'audit' as place, consumer as scope, source, type, at, action, actor, note from ${prefix}audit where id = ?`,
  } as const
}
