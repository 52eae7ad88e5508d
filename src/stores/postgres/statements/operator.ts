import type { FailedWhere, Origin, Param, SentWhere, Statement } from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import { encodeText, laneOfKey, numberOf } from '../../../message/index.ts'
import { lookAt, type OperatorDialect } from '../../sql/index.ts'
import { checks } from './checkup.ts'
import { MS, SEQ } from './fragments.ts'
import { one } from './rows.ts'

const NO_PARAMS: readonly [] = []
const plain = (text: string): Statement => ({ text, params: NO_PARAMS })

/** The statements of the tools that people use, on PostgreSQL in one schema. */
export function operator(schema: string): OperatorDialect {
  const sql = statements(schema)
  return {
    failedList: ({ before, limit, ...where }) => ({
      text: sql.failedList,
      params: [...failedParams(where), numberOrNull(before), limit],
    }),
    failedCount: (where) => ({ text: sql.failedCount, params: failedParams(where) }),
    failedGroups: (where, limit) => ({ text: sql.failedGroups, params: [...failedParams(where), limit] }),
    failedSeqs: (where, after, limit) => ({
      text: sql.failedSeqs,
      params: [...failedParams(where), numberOrNull(after), limit],
    }),
    failedGet: (seq) => ({ text: sql.failedGet, params: one(seq) }),
    failedLock: (seq, replaced) => ({ text: sql.failedLock, params: [...one(seq), String(replaced)] }),
    copyBack: (seq, origin) => ({ text: sql.copyBack[origin], params: one(seq) }),
    copyEdited: (seq, origin, message) => ({
      text: sql.copyEdited[origin],
      params: [...columns(message), ...one(seq)],
    }),
    unhold: (origin, seq, failedSeq) => ({ text: sql.unhold[origin], params: [...one(seq), ...one(failedSeq)] }),
    replaceHeld: (origin, seq, message) => ({
      text: sql.replaceHeld[origin],
      params: [...columns(message), ...one(seq)],
    }),
    deleteHeld: (origin, seq) => ({ text: sql.deleteHeld[origin], params: one(seq) }),
    deleteFailed: (seq) => ({ text: sql.deleteFailed, params: one(seq) }),
    failedReplaced: (seq, id) => ({ text: sql.failedReplaced, params: [encodeText(id), ...one(seq)] }),
    insertReceipt: (consumer, token, { messageKey, source, id, type, fingerprint }) => ({
      text: sql.insertReceipt,
      params: [consumer, messageKey, token, encodeText(source), encodeText(id), encodeText(type), fingerprint],
    }),
    auditFailed: (seq, { action, actor, note }) => ({
      text: sql.auditFailed,
      params: [action, encodeText(actor), encoded(note), ...one(seq)],
    }),
    auditOther: ({ action, actor, note }, { origin, consumer, source, id, type }) => ({
      text: sql.auditOther,
      params: [
        action,
        encodeText(actor),
        encoded(note),
        origin ?? null,
        consumer ?? null,
        encoded(source),
        encoded(id),
        encoded(type),
      ],
    }),

    heldKeys: (limit) => ({ text: sql.heldKeys, params: [limit] }),
    lockHeld: (origin, scope, key) => ({
      text: sql.lockHeld[origin],
      params: [scope, laneOfKey(key), encodeText(key), encodeText(key)],
    }),
    heldToFailed: (origin, seq) => ({ text: sql.heldToFailed[origin], params: one(seq) }),
    failedLetGo: (origin, heldSeq) => ({ text: sql.failedLetGo, params: [origin, numberOf(heldSeq)] }),

    moveRelay: (name, destination) => ({ text: sql.moveRelay, params: [name, encodeText(destination)] }),
    subscriptions: plain(sql.subscriptions),
    lockSubscriptions: (consumer) => ({ text: sql.lockSubscriptions, params: [consumer] }),
    unsubscribe: (consumer) => ({ text: sql.unsubscribe, params: [consumer] }),

    sentList: ({ before, limit, ...where }) => ({
      text: sql.sentList,
      params: [...sentParams(where), numberOrNull(before), limit],
    }),
    sentSeqs: (where, after, limit) => ({
      text: sql.sentSeqs,
      params: [...sentParams(where), numberOrNull(after), limit],
    }),
    sentGet: (seq) => ({ text: sql.sentGet, params: one(seq) }),
    republish: (seq, lane) => ({ text: sql.republish, params: [lane, ...one(seq)] }),

    clean: async (query, step, olderThanMs, limit) => {
      const { rows } = await query(
        step.kind === 'receipts'
          ? {
              text: step.dryRun ? sql.countReceipts : sql.cleanReceipts,
              params: [olderThanMs, step.consumer, step.after ?? NO_UUID, limit],
            }
          : step.kind === 'sent'
            ? { text: sql.cleanSent, params: [olderThanMs, step.relay, limit] }
            : { text: sql.cleanAudit, params: [olderThanMs, limit] },
      )
      const [row] = rows
      const more = Number(row?.['seen'] ?? 0) === limit
      return { deleted: Number(row?.['deleted'] ?? 0), after: more ? String(row?.['last']) : undefined }
    },
    checkup: (query) => lookAt(query, checks(schema)),
  }
}

const NO_UUID = '00000000-0000-0000-0000-000000000000'

function numberOrNull(seq: string | undefined): string | null {
  return seq === undefined ? null : numberOf(seq)
}

function encoded(text: string | undefined): string | null {
  return text === undefined ? null : encodeText(text)
}

/** message_key, source, id, type, key, attributes, data, fingerprint: eight parameters. */
function columns(message: StoredMessage): readonly Param[] {
  const { messageKey, source, id, type, key, attributes, data, fingerprint } = message
  const encodedKey = key === null ? null : encodeText(key)
  return [messageKey, encodeText(source), encodeText(id), encodeText(type), encodedKey, attributes, data, fingerprint]
}

/** The parameters of `FAILED_WHERE`. */
function failedParams(where: FailedWhere): readonly Param[] {
  const { origin, consumer, type, reason, errorHash, olderThanMs, newerThanMs, replaced = false } = where
  const texts = [origin ?? null, consumer ?? null, encoded(type), reason ?? null, errorHash ?? null]
  return [...texts, olderThanMs ?? null, newerThanMs ?? null, String(replaced)]
}

/** The parameters of `SENT_WHERE`. */
function sentParams({ relay, type, olderThanMs, newerThanMs }: SentWhere): readonly Param[] {
  return [relay ?? null, encoded(type), olderThanMs ?? null, newerThanMs ?? null]
}

const AGO = (ms: string): string => `clock_timestamp() - ${ms} * interval '1 millisecond'`
/** A commit that does not wait for the disk: what a crash brings back is cleaned again. */
const AT_LEISURE = `set_config('synchronous_commit', 'off', true) as at_leisure`
const MESSAGE = `m.message_key::text as message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, encode(m.fingerprint, 'hex') as fingerprint`
const COLUMNS = 'message_key, source, id, type, key, attributes, data, fingerprint'
/** A message as eight parameters. */
const VALUES = `$1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::bytea, decode($8::text, 'hex')`
const FAILED = `${SEQ('m')} as seq, m.origin, m.consumer, ${MESSAGE}, m.attempts, m.reason, m.error, m.error_hash,
  ${MS('m.failed_at')} as failed_at, m.held_seq::text as held_seq, m.replaced_by`
const FAILED_WHERE = `(values ($1::text, $2::text, $3::text, $4::text, $5::text, $6::float8, $7::float8, $8::boolean))
  as f (origin, consumer, type, reason, error_hash, older, newer, replaced)
where (f.origin is null or m.origin = f.origin) and (f.consumer is null or m.consumer = f.consumer)
  and (f.type is null or m.type = f.type) and (f.reason is null or m.reason = f.reason)
  and (f.error_hash is null or m.error_hash = f.error_hash)
  and (f.older is null or m.failed_at < ${AGO('f.older')}) and (f.newer is null or m.failed_at >= ${AGO('f.newer')})
  and (m.replaced_by is not null) = f.replaced`
const SENT_WHERE = `(values ($1::text, $2::text, $3::float8, $4::float8)) as f (relay, type, older, newer)
where (f.relay is null or m.relay = f.relay) and (f.type is null or m.type = f.type)
  and (f.older is null or m.sent_at < ${AGO('f.older')}) and (f.newer is null or m.sent_at >= ${AGO('f.newer')})`
/**
 * A page of receipts, and those of them that are old and whose message neither the inbox nor the failed store has. By key, because there
 * is no index on taken_at: a receipt has to stay small. The page is ordered as the key is and its limits are parameters, not columns:
 * anything else reads and sorts all receipts of the consumer. Parameters: age, consumer, key, limit.
 */
const RECEIPT_PAGE = (schema: string): string => `
with page as materialized (
  select r.ctid as place, r.consumer, r.message_key, r.taken_at < ${AGO('$1::float8')} as old from ${schema}.receipts r
  where r.consumer = $2::text and r.message_key > $3::uuid
  order by r.consumer, r.message_key limit $4::integer
), finished as materialized (
  select page.place from page
  left join lateral (select true as there from ${schema}.inbox i
    where i.message_key = page.message_key and i.consumer = page.consumer limit 1) as waiting on true
  left join lateral (select true as there from ${schema}.failed f
    where f.consumer = page.consumer and f.message_key = page.message_key and f.origin = 'inbox' limit 1) as kept on true
  where page.old and waiting.there is null and kept.there is null
)`

/** Every statement, whole and by name. Parameters are scalars, each used once and in order, each cast. */
function statements(schema: string) {
  const both = (text: (table: Origin) => string): Readonly<Record<Origin, string>> => ({
    inbox: text('inbox'),
    outbox: text('outbox'),
  })
  const counts = {
    inbox: 'attempts = 0, lost = 0, starts = 0, crashes = 0, lease_token = null',
    outbox: 'attempts = 0',
  }
  return {
    failedList: `
select ${FAILED} from ${schema}.failed m, ${FAILED_WHERE}
  and m.seq < coalesce($9::bigint, 9223372036854775807)
order by m.seq desc limit $10::integer`,
    failedCount: `select count(*) as count from ${schema}.failed m, ${FAILED_WHERE}`,
    failedGroups: `
select g.origin, g.consumer, g.type, g.reason, g.error_hash, g.count, g.first_at, g.last_at, ${SEQ('newest')} as seq, newest.error
from (
  select m.origin, m.consumer, m.type, m.reason, m.error_hash, count(*) as count,
    ${MS('min(m.failed_at)')} as first_at, ${MS('max(m.failed_at)')} as last_at, max(m.seq) as seq
  from ${schema}.failed m, ${FAILED_WHERE}
  group by m.origin, m.consumer, m.type, m.reason, m.error_hash
  order by count(*) desc, max(m.seq) desc limit $9::integer
) as g join ${schema}.failed newest on newest.seq = g.seq
order by g.count desc, g.seq desc`,
    failedSeqs: `
select ${SEQ('m')} as seq from ${schema}.failed m, ${FAILED_WHERE}
  and m.seq > coalesce($9::bigint, 0)
order by m.seq limit $10::integer`,
    failedGet: `select ${FAILED} from ${schema}.failed m where m.seq = $1::bigint and m.mark = $2::bigint`,
    failedLock: `
select ${SEQ('m')} as seq, m.origin, m.consumer,
  case m.origin
    when 'outbox' then (select ${SEQ('o')} from ${schema}.outbox o
      where o.seq = m.held_seq and o.message_key = m.message_key and o.held_at is not null)
    else (select ${SEQ('i')} from ${schema}.inbox i
      where i.seq = m.held_seq and i.message_key = m.message_key and i.held_at is not null)
  end as held_seq
from ${schema}.failed m
where m.seq = $1::bigint and m.mark = $2::bigint and (m.replaced_by is null or $3::boolean) for update`,
    copyBack: {
      inbox: `
insert into ${schema}.inbox (consumer, ${COLUMNS}, lane, ordered, failed_seq, failed_mark, available_at, fence)
select consumer, ${COLUMNS}, lane, ordered, seq, mark, clock_timestamp(), 1 from ${schema}.failed
where seq = $1::bigint and mark = $2::bigint`,
      outbox: `
insert into ${schema}.outbox (relay, ${COLUMNS}, lane, failed_seq, failed_mark, available_at)
select consumer, ${COLUMNS}, lane, seq, mark, clock_timestamp() from ${schema}.failed
where seq = $1::bigint and mark = $2::bigint`,
    },
    copyEdited: {
      inbox: `
insert into ${schema}.inbox (${COLUMNS}, consumer, lane, ordered, available_at)
select ${VALUES}, consumer, lane, ordered, clock_timestamp() from ${schema}.failed
where seq = $9::bigint and mark = $10::bigint`,
      outbox: `
insert into ${schema}.outbox (${COLUMNS}, relay, lane, available_at)
select ${VALUES}, consumer, lane, clock_timestamp() from ${schema}.failed
where seq = $9::bigint and mark = $10::bigint`,
    },
    unhold: both(
      (table) => `
update ${schema}.${table} set failed_seq = $3::bigint, failed_mark = $4::bigint, held_at = null, aside = false, waits = false,
  error = null, available_at = clock_timestamp(), ${counts[table]}
where seq = $1::bigint and mark = $2::bigint`,
    ),
    replaceHeld: both(
      (table) => `
update ${schema}.${table} set (${COLUMNS}) = row (${VALUES}),
  failed_seq = null, failed_mark = null, held_at = null, aside = false, waits = false, error = null,
  available_at = clock_timestamp(), ${counts[table]}
where seq = $9::bigint and mark = $10::bigint`,
    ),
    deleteHeld: both((table) => `delete from ${schema}.${table} where seq = $1::bigint and mark = $2::bigint`),
    deleteFailed: `delete from ${schema}.failed where seq = $1::bigint and mark = $2::bigint`,
    failedReplaced: `
update ${schema}.failed set replaced_by = $1::text, held_seq = null where seq = $2::bigint and mark = $3::bigint`,
    insertReceipt: `
insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
values ($1::text, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, decode($7::text, 'hex'))`,
    auditFailed: `
insert into ${schema}.audit (action, actor, note, origin, consumer, source, id, type)
select $1::text, $2::text, $3::text, origin, consumer, source, id, type from ${schema}.failed
where seq = $4::bigint and mark = $5::bigint`,
    auditOther: `
insert into ${schema}.audit (action, actor, note, origin, consumer, source, id, type)
values ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text)`,

    heldKeys: `
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
    lockHeld: {
      inbox: `
select ${SEQ('m')} as seq, m.source, m.id, m.type,
  (select ${SEQ('f')} from ${schema}.failed f
    where f.origin = 'inbox' and f.held_seq = m.seq and f.message_key = m.message_key limit 1) as failed_seq
from ${schema}.inbox m
where m.consumer = $1::text and m.lane = $2::smallint and m.key between $3::text and $4::text and m.ordered
  and m.held_at is not null
order by m.key, m.seq limit 1 for update`,
      outbox: `
select ${SEQ('m')} as seq, m.source, m.id, m.type,
  (select ${SEQ('f')} from ${schema}.failed f
    where f.origin = 'outbox' and f.held_seq = m.seq and f.message_key = m.message_key limit 1) as failed_seq
from ${schema}.outbox m
where m.relay = $1::text and m.lane = $2::smallint and m.key between $3::text and $4::text and m.key is not null
  and m.held_at is not null
order by m.key, m.seq limit 1 for update`,
    },
    heldToFailed: {
      inbox: `
insert into ${schema}.failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error)
select 'inbox', consumer, ${COLUMNS}, lane, ordered, attempts, 'permanent',
  coalesce(error, '{"name":"Error","message":"held for a reason that is not known any more"}')
from ${schema}.inbox where seq = $1::bigint and mark = $2::bigint
on conflict do nothing`,
      outbox: `
insert into ${schema}.failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error)
select 'outbox', relay, ${COLUMNS}, lane, key is not null, attempts, 'permanent',
  coalesce(error, '{"name":"Error","message":"held for a reason that is not known any more"}')
from ${schema}.outbox where seq = $1::bigint and mark = $2::bigint
on conflict do nothing`,
    },
    failedLetGo: `update ${schema}.failed set held_seq = null where origin = $1::text and held_seq = $2::bigint`,

    moveRelay: `
insert into ${schema}.relays (name, destination) values ($1::text, $2::text)
on conflict (name) do update set destination = excluded.destination, recorded_at = clock_timestamp()`,
    subscriptions: `select consumer, type, ordered from ${schema}.subscriptions order by consumer, type`,
    lockSubscriptions: `select type from ${schema}.subscriptions where consumer = $1::text order by type for update`,
    unsubscribe: `delete from ${schema}.subscriptions where consumer = $1::text`,

    sentList: `
select ${SEQ('m')} as seq, m.relay, ${MS('m.sent_at')} as sent_at, ${MESSAGE} from ${schema}.sent m, ${SENT_WHERE}
  and m.seq < coalesce($5::bigint, 9223372036854775807)
order by m.seq desc limit $6::integer`,
    sentSeqs: `
select ${SEQ('m')} as seq from ${schema}.sent m, ${SENT_WHERE}
  and m.seq > coalesce($5::bigint, 0)
order by m.seq limit $6::integer`,
    sentGet: `
select ${SEQ('m')} as seq, m.relay, ${MESSAGE} from ${schema}.sent m where m.seq = $1::bigint and m.mark = $2::bigint`,
    republish: `
insert into ${schema}.outbox (relay, ${COLUMNS}, lane, available_at)
select relay, ${COLUMNS}, $1::smallint, clock_timestamp() from ${schema}.sent
where seq = $2::bigint and mark = $3::bigint`,

    cleanReceipts: `${RECEIPT_PAGE(schema)}, gone as (
  delete from ${schema}.receipts where ctid = any (array(select place from finished)) returning 1
)
select (select count(*) from gone) as deleted, (select count(*) from page) as seen,
  (select message_key::text from page order by message_key desc limit 1) as last, ${AT_LEISURE}`,
    countReceipts: `${RECEIPT_PAGE(schema)}
select (select count(*) from finished) as deleted, (select count(*) from page) as seen,
  (select message_key::text from page order by message_key desc limit 1) as last`,
    // The oldest rows come first; if one of the page is too young, so is what follows.
    cleanSent: `
with page as materialized (
  select m.seq, m.sent_at < ${AGO('$1::float8')} as old from ${schema}.sent m
  where m.relay = $2::text order by m.relay, m.seq limit $3::integer
), gone as (
  delete from ${schema}.sent where seq = any (array(select seq from page where old)) returning seq
)
select count(*) as deleted, count(*) as seen, max(seq)::text as last, ${AT_LEISURE} from gone`,
    cleanAudit: `
with page as materialized (
  select m.seq, m.at < ${AGO('$1::float8')} as old from ${schema}.audit m order by m.seq limit $2::integer
), gone as (
  delete from ${schema}.audit where seq = any (array(select seq from page where old)) returning seq
)
select count(*) as deleted, count(*) as seen, max(seq)::text as last, ${AT_LEISURE} from gone`,
  } as const
}
