// Audit, cleaning and traces on PostgreSQL. Cleaning goes through a table page by page in the order of its key: a statement
// is short however much there is, and the next one goes on where it ended.

import { encodeText } from '../../../message/index.ts'
import { type AdminStatements, lookAt, statement, type TraceStatements } from '../../sql/index.ts'
import { checks } from './checkup.ts'
import { AGO, MS, SEQ } from './fragments.ts'
import { encoded, one } from './rows.ts'

const NO_UUID = '00000000-0000-0000-0000-000000000000'
/** A commit that does not wait for the disk: what a crash brings back is cleaned again. */
const AT_LEISURE = `set_config('synchronous_commit', 'off', true) as at_leisure`
/**
 * A page of receipts, and those of them that are old, whose message neither the inbox nor the failed store has, and that have no
 * response. By key, because there is no index on taken_at: a receipt has to stay small. The page is ordered as the key is, begins at a whole key, and its limits are
 * parameters, not columns: anything else may read and sort all receipts of the consumer. Parameters: age, consumer, key, limit.
 */
const RECEIPT_PAGE = (schema: string): string => `
with page as materialized (
  select r.ctid as place, r.consumer, r.message_key, r.taken_at, r.taken_at < ${AGO('$1::float8')} as old from ${schema}.receipts r
  where (r.consumer, r.message_key) > ($2::text, $3::uuid) and r.consumer <= $2::text
  order by r.consumer, r.message_key limit $4::integer
), finished as materialized (
  select page.place, page.message_key from page
  left join lateral (select true as there from ${schema}.inbox i
    where i.message_key = page.message_key and i.consumer = page.consumer limit 1) as waiting on true
  left join lateral (select true as there from ${schema}.failed f
    where f.consumer = page.consumer and f.message_key = page.message_key and f.origin = 'inbox' limit 1) as kept on true
  left join lateral (select true as there from ${schema}.responses p
    where p.consumer = page.consumer and p.message_key = page.message_key limit 1) as answered on true
  where page.old and waiting.there is null and kept.there is null and answered.there is null
)`

/** What people look after. */
export function admin(schema: string): AdminStatements {
  const auditPage = `
with page as materialized (
  select m.seq, m.at < ${AGO('$1::float8')} as old from ${schema}.audit m
  where m.seq > $2::bigint order by m.seq limit $3::integer
)`
  const countAuditText = `${auditPage}
select count(*) as deleted, count(*) as seen, max(seq)::text as last from page where old`
  const cleanAuditText = `${auditPage}, gone as (
  delete from ${schema}.audit where seq = any (array(select seq from page where old)) returning seq
)
select count(*) as deleted, count(*) as seen, max(seq)::text as last, ${AT_LEISURE} from gone`
  const cleanOperationsText = `
delete from ${schema}.operations where id in (
  select o.id from ${schema}.operations o where o.ended_at < ${AGO('$1::float8')} order by o.ended_at limit $2::integer)`
  // The oldest rows come first; if one of the page is too young, so is what follows. From a whole key on: with a constant relay
  // PostgreSQL may walk the primary key instead, past every row of the other relays, or sort all rows of this one.
  const cleanSentText = `
with page as materialized (
  select m.seq, m.sent_at < ${AGO('$1::float8')} as old from ${schema}.sent m
  where (m.relay, m.seq) > ($2::text, 0::bigint) and m.relay <= $2::text order by m.relay, m.seq limit $3::integer
), gone as (
  delete from ${schema}.sent where seq = any (array(select seq from page where old)) returning seq
)
select count(*) as deleted, count(*) as seen, max(seq)::text as last, ${AT_LEISURE} from gone`
  const cleanReceiptsText = `${RECEIPT_PAGE(schema)}, gone as (
  delete from ${schema}.receipts where ctid = any (array(select place from finished)) returning 1
)
select (select count(*) from gone) as deleted, (select count(*) from page) as seen,
  (select message_key::text from page order by message_key desc limit 1) as last, ${AT_LEISURE},
  (select ${MS('clock_timestamp() - min(taken_at)')} from page
    where message_key not in (select message_key from finished)) as oldest`
  const countReceiptsText = `${RECEIPT_PAGE(schema)}
select (select count(*) from finished) as deleted, (select count(*) from page) as seen,
  (select message_key::text from page order by message_key desc limit 1) as last`
  return {
    keys: statement(
      `
select h.origin, h.scope, h.key, h.id, ${MS('h.held_at')} as held_at, ${SEQ('failed')} as failed_seq,
  case h.origin
    when 'outbox' then (select count(*) from ${schema}.outbox o
      where o.relay = h.scope and o.lane = h.lane and o.key = h.key and o.key is not null and o.seq > h.seq)
    else (select count(*) from ${schema}.inbox i
      where i.consumer = h.scope and i.lane = h.lane and i.key = h.key and i.ordered and i.seq > h.seq)
  end as waiting
from (
  select 'inbox' as origin, seq, message_key, consumer as scope, lane, key, id, held_at from ${schema}.inbox
  where held_at is not null and key is not null
  union all
  select 'outbox', seq, message_key, relay, lane, key, id, held_at from ${schema}.outbox
  where held_at is not null and key is not null
  order by held_at, seq limit $1::integer
) as h left join ${schema}.failed
  on failed.origin = h.origin and failed.held_seq = h.seq and failed.message_key = h.message_key
order by h.held_at, h.seq`,
      (limit) => [limit],
    ),
    auditFailed: statement(
      `
insert into ${schema}.audit (action, actor, note, origin, consumer, source, id, type)
select $1::text, $2::text, $3::text, origin, consumer, source, id, type from ${schema}.failed
where seq = $4::bigint and mark = $5::bigint`,
      (seq, { action, actor, note }) => [action, encodeText(actor), encoded(note), ...one(seq)],
    ),
    audit: statement(
      `
insert into ${schema}.audit (action, actor, note, origin, consumer, source, id, type)
values ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text)`,
      ({ action, actor, note }, { origin, consumer, source, id, type }) => [
        action,
        encodeText(actor),
        encoded(note),
        origin ?? null,
        encoded(consumer),
        encoded(source),
        encoded(id),
        encoded(type),
      ],
    ),
    clean: async (query, step, olderThanMs, limit) => {
      if (step.kind === 'audit' && !step.dryRun)
        await query({ text: cleanOperationsText, params: [olderThanMs, limit] })
      const { rows } = await query(
        step.kind === 'receipts'
          ? {
              text: step.dryRun ? countReceiptsText : cleanReceiptsText,
              params: [olderThanMs, step.consumer, step.after ?? NO_UUID, limit],
            }
          : step.kind === 'sent'
            ? { text: cleanSentText, params: [olderThanMs, step.relay, limit] }
            : { text: step.dryRun ? countAuditText : cleanAuditText, params: [olderThanMs, step.after ?? '0', limit] },
      )
      const [row] = rows
      const more = Number(row?.['seen'] ?? 0) === limit
      const oldest = row?.['oldest'] ?? undefined
      return {
        deleted: Number(row?.['deleted'] ?? 0),
        after: more ? String(row?.['last']) : undefined,
        ...(oldest !== undefined && { oldestMs: Math.max(0, Number(oldest)) }),
      }
    },
    checkup: (query) => lookAt(query, checks(schema)),
  }
}

/** Where a message is. */
export function traces(schema: string): TraceStatements {
  const receiptsText = (where: string) => `
select 'receipt' as place, consumer as scope, source, type, ${MS('taken_at')} as at from ${schema}.receipts where ${where}`
  const failedText = (where: string) => `
select 'failed' as place, ${SEQ('failed')} as seq, origin, consumer as scope, source, type, attributes, ${MS('failed_at')} as at, attempts,
  reason, held_seq::text as held_seq, replaced_by, error, failures, history
from ${schema}.failed where ${where}`
  const sentText = (where: string) => `
select 'sent' as place, relay as scope, source, type, attributes, ${MS('sent_at')} as at from ${schema}.sent where ${where} order by seq`
  const inboxText = (where: string) => `
select 'inbox' as place, ${SEQ('inbox')} as seq, consumer as scope, source, type, attributes, ${MS('created_at')} as at, attempts, key,
  lease_token is not null as leased, ${MS('available_at')} as due_at, ${MS('held_at')} as held_at, error, failures, history
from ${schema}.inbox where ${where}`
  // An id may be longer than what an index takes.
  const auditText = `
select 'audit' as place, consumer as scope, source, type, ${MS('at')} as at, action, actor, note
from ${schema}.audit where left(id, 100) = left($1::text, 100) and id = $2::text order by seq`
  const responsesText = `
select 'response' as place, p.consumer as scope, r.source, r.type, ${MS('p.created_at')} as at, p.status, ${MS('p.expires_at')} as expires_at
from ${schema}.responses p left join ${schema}.receipts r on r.consumer = p.consumer and r.message_key = p.message_key
where left(p.id, 100) = left($1::text, 100) and p.id = $2::text`
  const outboxText = (where: string) => `
select 'outbox' as place, ${SEQ('outbox')} as seq, relay as scope, source, type, attributes, ${MS('created_at')} as at, attempts, key,
  ${MS('held_at')} as held_at, error, failures, history
from ${schema}.outbox where ${where}`
  return {
    // As a page of receipts is read: given only the consumer, the planner may read and sort all of its receipts.
    receiptSources: statement(
      `
select distinct source from (
  select r.source from ${schema}.receipts r
  where (r.consumer, r.message_key) > ($1::text, $2::uuid) and r.consumer <= $3::text
  order by r.consumer, r.message_key limit $4::integer) as sample`,
      (consumer, limit) => [consumer, NO_UUID, consumer, limit],
    ),
    otherSources: statement(
      `
select source from (select source from ${schema}.inbox order by seq desc limit $1::integer) as i union
select source from (select source from ${schema}.outbox order by seq desc limit $2::integer) as o union
select source from (select source from ${schema}.sent order by seq desc limit $3::integer) as s union
select source from (select source from ${schema}.failed order by seq desc limit $4::integer) as f`,
      (limit) => [limit, limit, limit, limit],
    ),
    receipts: (id, consumer, { from, to }) => ({
      text: receiptsText('consumer = $1::text and message_key between $2::uuid and $3::uuid and id = $4::text'),
      params: [consumer, from, to, encodeText(id)],
    }),
    byKey: (id, { from, to }) =>
      [inboxText, outboxText, sentText, failedText].map((text) => ({
        text: text('message_key between $1::uuid and $2::uuid and id = $3::text'),
        params: [from, to, encodeText(id)],
      })),
    audit: (id) => ({ text: auditText, params: [encodeText(id), encodeText(id)] }),
    responses: (id) => ({ text: responsesText, params: [encodeText(id), encodeText(id)] }),
    all: (id) =>
      [receiptsText, inboxText, outboxText, sentText, failedText].map((text) => ({
        text: text('id = $1::text'),
        params: [encodeText(id)],
      })),
  }
}
