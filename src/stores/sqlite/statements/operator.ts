import type {
  Cleaned,
  CleanupStep,
  FailedWhere,
  Origin,
  Param,
  Result,
  SentWhere,
  Statement,
} from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import { encodeText, laneOfKey, numberOf } from '../../../message/index.ts'
import { asUuid, type OperatorDialect } from '../../sql/index.ts'
import { checkup } from './checkup.ts'
import { NAME, ROW, UUID } from './fragments.ts'
import { NOW } from './migrations.ts'
import { one } from './rows.ts'

const NO_PARAMS: readonly [] = []
const plain = (text: string): Statement => ({ text, params: NO_PARAMS })

/** The statements of the tools that people use, on SQLite with one prefix. A transaction holds the only write lock. */
export function operator(prefix: string): OperatorDialect {
  const sql = statements(prefix)
  return {
    failedList: ({ before, limit, ...where }) => ({
      text: sql.failedList,
      params: [...failedParams(where), before === undefined ? MAX_SEQ : numberOf(before), limit],
    }),
    failedCount: (where) => ({ text: sql.failedCount, params: failedParams(where) }),
    failedGroups: (where, limit) => ({ text: sql.failedGroups, params: [...failedParams(where), limit] }),
    failedSeqs: (where, after, limit) => ({
      text: sql.failedSeqs,
      params: [...failedParams(where), numberOf(after ?? '0'), limit],
    }),
    failedGet: (seq) => ({ text: sql.failedGet, params: one(seq) }),
    failedLock: (seq, replaced) => ({ text: sql.failedLock, params: [...one(seq), replaced ? 1 : 0] }),
    copyBack: (seq, origin) => ({ text: sql.copyBack[origin], params: one(seq) }),
    copyEdited: (seq, origin, message) => ({
      text: sql.copyEdited[origin],
      params: [...columns(message), ...one(seq)],
    }),
    unhold: (origin, seq, failedSeq) => ({ text: sql.unhold[origin], params: [...one(failedSeq), ...one(seq)] }),
    replaceHeld: (origin, seq, message) => ({
      text: sql.replaceHeld[origin],
      params: [...columns(message), ...one(seq)],
    }),
    deleteHeld: (origin, seq) => ({ text: sql.deleteHeld[origin], params: one(seq) }),
    deleteFailed: (seq) => ({ text: sql.deleteFailed, params: one(seq) }),
    failedReplaced: (seq, id) => ({ text: sql.failedReplaced, params: [encodeText(id), ...one(seq)] }),
    insertReceipt: (consumer, token, { messageKey, source, id, type, fingerprint }) => ({
      text: sql.insertReceipt,
      params: [consumer, messageKey, token, fingerprint, encodeText(source), encodeText(id), encodeText(type)],
    }),
    auditFailed: (seq, { action, actor, note }) => ({
      text: sql.auditFailed,
      params: [action, encodeText(actor), encoded(note), ...one(seq)],
    }),
    auditOther: ({ action, actor, note }, { origin, consumer, source, id, type }) => ({
      text: sql.auditOther,
      params: [action, encodeText(actor), ...[note, origin, consumer, source, id, type].map(encoded)],
    }),

    heldKeys: (limit) => ({ text: sql.heldKeys, params: [limit] }),
    lockHeld: (origin, scope, key) => ({
      text: sql.lockHeld[origin],
      params: [scope, laneOfKey(key), encodeText(key)],
    }),
    heldToFailed: (origin, seq) => ({ text: sql.heldToFailed[origin], params: one(seq) }),
    failedLetGo: (origin, heldSeq) => ({ text: sql.failedLetGo, params: [origin, numberOf(heldSeq)] }),

    moveRelay: (name, destination) => ({ text: sql.moveRelay, params: [name, encodeText(destination)] }),
    subscriptions: plain(sql.subscriptions),
    lockSubscriptions: (consumer) => ({ text: sql.lockSubscriptions, params: [consumer] }),
    unsubscribe: (consumer) => ({ text: sql.unsubscribe, params: [consumer] }),

    sentList: ({ before, limit, ...where }) => ({
      text: sql.sentList,
      params: [...sentParams(where), before === undefined ? MAX_SEQ : numberOf(before), limit],
    }),
    sentSeqs: (where, after, limit) => ({
      text: sql.sentSeqs,
      params: [...sentParams(where), numberOf(after ?? '0'), limit],
    }),
    sentGet: (seq) => ({ text: sql.sentGet, params: one(seq) }),
    republish: (seq, lane) => ({ text: sql.republish, params: [lane, ...one(seq)] }),

    clean: (query, step, olderThanMs, limit) => cleaned(sql, query, step, olderThanMs, limit),
    checkup: (query) => checkup(query, prefix),
  }
}

const MAX_SEQ = '9223372036854775807'

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
  const { origin, consumer, type, reason, errorHash, olderThanMs, newerThanMs, replaced } = where
  const texts = [origin ?? null, consumer ?? null, encoded(type), reason ?? null, errorHash ?? null]
  return [...texts, olderThanMs ?? null, newerThanMs ?? null, replaced ? 1 : 0]
}

/** The parameters of `SENT_WHERE`. */
function sentParams({ relay, type, olderThanMs, newerThanMs }: SentWhere): readonly Param[] {
  return [relay ?? null, encoded(type), olderThanMs ?? null, newerThanMs ?? null]
}

const NO_UUID = '00000000-0000-0000-0000-000000000000'

/** Finds the end of a page, then deletes, or counts, what is old and finished up to there. */
async function cleaned(
  sql: ReturnType<typeof statements>,
  query: (statement: Statement) => Promise<Result>,
  step: CleanupStep,
  olderThanMs: number,
  limit: number,
): Promise<Cleaned> {
  if (step.kind === 'receipts') {
    const { consumer, after = NO_UUID } = step
    const page = await receiptPage(sql, query, consumer, after, limit)
    if (page === undefined) return { deleted: 0, after: undefined }
    const params = [consumer, after, page.last, olderThanMs]
    const deleted = step.dryRun
      ? Number((await query({ text: sql.countReceipts, params })).rows[0]?.['count'] ?? 0)
      : (await query({ text: sql.cleanReceipts, params })).affected
    return { deleted, after: page.more ? page.last : undefined }
  }
  const { affected } = await query(
    step.kind === 'sent'
      ? { text: sql.cleanSent, params: [step.relay, limit, olderThanMs] }
      : { text: sql.cleanAudit, params: [limit, olderThanMs] },
  )
  // The oldest rows come first; if one of the page is too young, so is what follows. What is gone needs no mark.
  return { deleted: affected, after: affected < limit ? undefined : '0' }
}

/** The last key of a page of receipts; undefined: there are none. */
async function receiptPage(
  sql: ReturnType<typeof statements>,
  query: (statement: Statement) => Promise<Result>,
  consumer: string,
  after: string,
  limit: number,
): Promise<{ readonly last: string; readonly more: boolean } | undefined> {
  const [page] = (await query({ text: sql.receiptPage, params: [consumer, after, limit] })).rows
  if (page === undefined || Number(page['count']) === 0) return undefined
  return { last: asUuid(page['last']), more: Number(page['count']) === limit }
}

const COLUMNS = 'message_key, source, id, type, key, attributes, data, fingerprint'
const VALUES = `${UUID}, ?, ?, ?, ?, ?, ?, unhex(?)`
const MESSAGE = 'm.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, m.fingerprint'
const FAILED = `${NAME('m')} as seq, m.origin, m.consumer, ${MESSAGE}, m.attempts, m.reason, m.error, m.error_hash,
  m.failed_at, cast(m.held_seq as text) as held_seq, m.replaced_by`
const FAILED_GIVEN = `
with f (origin_, consumer_, type_, reason_, hash_, older_, newer_, replaced_) as (values (?, ?, ?, ?, ?, ?, ?, ?))`
const FAILED_WHERE = `(f.origin_ is null or m.origin = f.origin_) and (f.consumer_ is null or m.consumer = f.consumer_)
  and (f.type_ is null or m.type = f.type_) and (f.reason_ is null or m.reason = f.reason_)
  and (f.hash_ is null or m.error_hash = f.hash_)
  and (f.older_ is null or m.failed_at < ${NOW} - f.older_) and (f.newer_ is null or m.failed_at >= ${NOW} - f.newer_)
  and (m.replaced_by is not null) = f.replaced_`
const SENT_GIVEN = `
with f (relay_, type_, older_, newer_) as (values (?, ?, ?, ?))`
const SENT_WHERE = `(f.relay_ is null or m.relay = f.relay_) and (f.type_ is null or m.type = f.type_)
  and (f.older_ is null or m.sent_at < ${NOW} - f.older_) and (f.newer_ is null or m.sent_at >= ${NOW} - f.newer_)`
const UNKNOWN_ERROR = `'{"name":"Error","message":"held for a reason that is not known any more"}'`

/** Every statement, whole and by name. */
function statements(prefix: string) {
  const both = (text: (table: Origin) => string): Readonly<Record<Origin, string>> => ({
    inbox: text('inbox'),
    outbox: text('outbox'),
  })
  const counts = {
    inbox: 'attempts = 0, lost = 0, starts = 0, crashes = 0, lease_token = null',
    outbox: 'attempts = 0',
  }
  const scope = { inbox: 'consumer', outbox: 'relay' }
  const keyed = { inbox: 'm.ordered = 1', outbox: 'm.key is not null' }
  /** A receipt stays while the inbox or the failed store has its message. */
  const finished = `
  not exists (select 1 from ${prefix}inbox as i where i.message_key = r.message_key and i.consumer = r.consumer)
  and not exists (select 1 from ${prefix}failed as f
    where f.consumer = r.consumer and f.message_key = r.message_key and f.origin = 'inbox')`
  return {
    failedList: `${FAILED_GIVEN}
select ${FAILED} from ${prefix}failed as m, f where ${FAILED_WHERE} and m.seq < cast(? as integer)
order by m.seq desc limit ?`,
    failedCount: `${FAILED_GIVEN}
select count(*) as count from ${prefix}failed as m, f where ${FAILED_WHERE}`,
    failedGroups: `${FAILED_GIVEN}
select g.*, ${NAME('newest')} as seq, newest.error
from (
  select m.origin, m.consumer, m.type, m.reason, m.error_hash, count(*) as count, min(m.failed_at) as first_at,
    max(m.failed_at) as last_at, max(m.seq) as last
  from ${prefix}failed as m, f where ${FAILED_WHERE}
  group by m.origin, m.consumer, m.type, m.reason, m.error_hash
  order by count(*) desc, max(m.seq) desc limit ?
) as g join ${prefix}failed as newest on newest.seq = g.last
order by g.count desc, g.last desc`,
    failedSeqs: `${FAILED_GIVEN}
select ${NAME('m')} as seq from ${prefix}failed as m, f where ${FAILED_WHERE} and m.seq > cast(? as integer)
order by m.seq limit ?`,
    failedGet: `select ${FAILED} from ${prefix}failed as m where ${ROW}`,
    failedLock: `
select ${NAME('m')} as seq, m.origin, m.consumer,
  case m.origin
    when 'outbox' then (select ${NAME('o')} from ${prefix}outbox as o
      where o.seq = m.held_seq and o.message_key = m.message_key and o.held_at is not null)
    else (select ${NAME('i')} from ${prefix}inbox as i
      where i.seq = m.held_seq and i.message_key = m.message_key and i.held_at is not null)
  end as held_seq
from ${prefix}failed as m where ${ROW} and (m.replaced_by is null or ? = 1)`,
    copyBack: {
      inbox: `
insert into ${prefix}inbox (consumer, ${COLUMNS}, lane, ordered, failed_seq, failed_mark, available_at, fence)
select consumer, ${COLUMNS}, lane, ordered, seq, mark, ${NOW}, 1 from ${prefix}failed where ${ROW}`,
      outbox: `
insert into ${prefix}outbox (relay, ${COLUMNS}, lane, failed_seq, failed_mark, available_at)
select consumer, ${COLUMNS}, lane, seq, mark, ${NOW} from ${prefix}failed where ${ROW}`,
    },
    copyEdited: {
      inbox: `
insert into ${prefix}inbox (${COLUMNS}, consumer, lane, ordered, available_at)
select ${VALUES}, consumer, lane, ordered, ${NOW} from ${prefix}failed where ${ROW}`,
      outbox: `
insert into ${prefix}outbox (${COLUMNS}, relay, lane, available_at)
select ${VALUES}, consumer, lane, ${NOW} from ${prefix}failed where ${ROW}`,
    },
    unhold: both(
      (table) => `
update ${prefix}${table} set failed_seq = ?, failed_mark = ?, held_at = null, aside = 0, waits = 0, error = null,
  available_at = ${NOW}, ${counts[table]} where ${ROW}`,
    ),
    replaceHeld: both(
      (table) => `
update ${prefix}${table} set (${COLUMNS}) = (${VALUES}),
  failed_seq = null, failed_mark = null, held_at = null, aside = 0, waits = 0, error = null, available_at = ${NOW},
  ${counts[table]}
where ${ROW}`,
    ),
    deleteHeld: both((table) => `delete from ${prefix}${table} where ${ROW}`),
    deleteFailed: `delete from ${prefix}failed where ${ROW}`,
    failedReplaced: `update ${prefix}failed set replaced_by = ?, held_seq = null where ${ROW}`,
    insertReceipt: `
insert into ${prefix}receipts (consumer, message_key, token, fingerprint, source, id, type)
values (?, ${UUID}, ${UUID}, unhex(?), ?, ?, ?)`,
    auditFailed: `
insert into ${prefix}audit (action, actor, note, origin, consumer, source, id, type)
select ?, ?, ?, origin, consumer, source, id, type from ${prefix}failed where ${ROW}`,
    auditOther: `
insert into ${prefix}audit (action, actor, note, origin, consumer, source, id, type) values (?, ?, ?, ?, ?, ?, ?, ?)`,

    heldKeys: `
select h.origin, h.scope, h.key, h.id, h.held_at, ${NAME('m')} as failed_seq,
  case h.origin
    when 'outbox' then (select count(*) from ${prefix}outbox as o
      where o.relay = h.scope and o.lane = h.lane and o.key = h.key and o.seq > h.seq)
    else (select count(*) from ${prefix}inbox as i
      where i.consumer = h.scope and i.lane = h.lane and i.key = h.key and i.ordered = 1 and i.seq > h.seq)
  end as waiting
from (
  select 'inbox' as origin, seq, message_key, consumer as scope, lane, key, id, held_at from ${prefix}inbox
  where held_at is not null and key is not null
  union all
  select 'outbox', seq, message_key, relay, lane, key, id, held_at from ${prefix}outbox
  where held_at is not null and key is not null
  order by held_at, seq limit ?
) as h left join ${prefix}failed as m on m.origin = h.origin and m.held_seq = h.seq
  and m.message_key = h.message_key
order by h.held_at, h.seq`,
    lockHeld: both(
      (table) => `
select ${NAME('m')} as seq, m.source, m.id, m.type,
  (select ${NAME('f')} from ${prefix}failed as f
    where f.origin = '${table}' and f.held_seq = m.seq and f.message_key = m.message_key limit 1) as failed_seq
from ${prefix}${table} as m
where m.${scope[table]} = ? and m.lane = ? and m.key = ? and ${keyed[table]} and m.held_at is not null order by m.seq limit 1`,
    ),
    heldToFailed: {
      inbox: `
insert into ${prefix}failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error)
select 'inbox', consumer, ${COLUMNS}, lane, ordered, attempts, 'permanent', coalesce(error, ${UNKNOWN_ERROR})
from ${prefix}inbox where ${ROW}
on conflict do nothing`,
      outbox: `
insert into ${prefix}failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error)
select 'outbox', relay, ${COLUMNS}, lane, key is not null, attempts, 'permanent', coalesce(error, ${UNKNOWN_ERROR})
from ${prefix}outbox where ${ROW}
on conflict do nothing`,
    },
    failedLetGo: `update ${prefix}failed set held_seq = null where origin = ? and held_seq = cast(? as integer)`,

    moveRelay: `
insert into ${prefix}relays (name, destination) values (?, ?)
on conflict (name) do update set destination = excluded.destination, recorded_at = ${NOW}`,
    subscriptions: `select consumer, type, ordered from ${prefix}subscriptions order by consumer, type`,
    lockSubscriptions: `select type from ${prefix}subscriptions where consumer = ?`,
    unsubscribe: `delete from ${prefix}subscriptions where consumer = ?`,

    sentList: `${SENT_GIVEN}
select ${NAME('m')} as seq, m.relay, m.sent_at, ${MESSAGE} from ${prefix}sent as m, f
where ${SENT_WHERE} and m.seq < cast(? as integer) order by m.seq desc limit ?`,
    sentSeqs: `${SENT_GIVEN}
select ${NAME('m')} as seq from ${prefix}sent as m, f
where ${SENT_WHERE} and m.seq > cast(? as integer) order by m.seq limit ?`,
    sentGet: `select ${NAME('m')} as seq, m.relay, ${MESSAGE} from ${prefix}sent as m where ${ROW}`,
    republish: `
insert into ${prefix}outbox (relay, ${COLUMNS}, lane, available_at)
select relay, ${COLUMNS}, ?, ${NOW} from ${prefix}sent where ${ROW}`,

    // By key, because there is no index on taken_at: a receipt has to stay small.
    receiptPage: `
select max(message_key) as last, count(*) as count from (
  select message_key from ${prefix}receipts where consumer = ? and message_key > ${UUID} order by message_key limit ?)`,
    cleanReceipts: `
delete from ${prefix}receipts as r
where r.consumer = ? and r.message_key > ${UUID} and r.message_key <= ${UUID} and r.taken_at < ${NOW} - ? and ${finished}`,
    countReceipts: `
select count(*) as count from ${prefix}receipts as r
where r.consumer = ? and r.message_key > ${UUID} and r.message_key <= ${UUID} and r.taken_at < ${NOW} - ? and ${finished}`,
    cleanSent: `
delete from ${prefix}sent where seq in (select seq from ${prefix}sent where relay = ? order by seq limit ?)
  and sent_at < ${NOW} - ?`,
    cleanAudit: `
delete from ${prefix}audit where seq in (select seq from ${prefix}audit order by seq limit ?) and at < ${NOW} - ?`,
  } as const
}
