import type {
  Cleaned,
  CleanupStep,
  FailedWhere,
  Origin,
  Param,
  Result,
  Row,
  SentWhere,
  Statement,
} from '../../../contracts/index.ts'
import { laneOfKey, numberOf } from '../../../message/index.ts'
import { asBoolean, asUuid, type Check, lookAt, type OperatorDialect, uuidBytes } from '../../sql/index.ts'
import { chunks } from './batch.ts'
import { BY_KEY, COLUMNS, KEYED, MESSAGE, MS, NAME, NOW, NUMBERED, ROW, SEQ } from './fragments.ts'
import { bytes, columns, keyHash, list, microseconds, numbered, one, receipt, text } from './rows.ts'

const NO_PARAMS: readonly [] = []
const plain = (each: string): Statement => ({ text: each, params: NO_PARAMS })

/** The statements of the tools that people use, on MariaDB and MySQL with one prefix, each valid on both. */
export function operator(prefix: string, checks: readonly Check[]): OperatorDialect {
  const sql = statements(prefix)
  return {
    failedList: ({ before, limit, ...where }) => ({
      text: sql.failedList(limit),
      params: [...failedParams(where), before === undefined ? MAX_SEQ : numberOf(before)],
    }),
    failedCount: (where) => ({ text: sql.failedCount, params: failedParams(where) }),
    failedGroups: (where, limit) => ({ text: sql.failedGroups(limit), params: failedParams(where) }),
    failedSeqs: (where, after, limit) => ({
      text: sql.failedSeqs(limit),
      params: [...failedParams(where), numberOf(after ?? '0')],
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
    failedReplaced: (seq, id) => ({ text: sql.failedReplaced, params: [text(id), ...one(seq)] }),
    insertReceipt: (consumer, token, message) => ({
      text: sql.insertReceipt,
      params: receipt(consumer, token, message),
    }),
    auditFailed: (seq, { action, actor, note }) => ({
      text: sql.auditFailed,
      params: [bytes(action), text(actor), textOrNull(note), ...one(seq)],
    }),
    auditOther: ({ action, actor, note }, { origin, consumer, source, id, type }) => ({
      text: sql.auditOther,
      params: [bytes(action), text(actor), ...[note, origin, consumer, source, id, type].map(textOrNull)],
    }),

    heldKeys: (limit) => plain(sql.heldKeys(limit)),
    lockHeld: (origin, scope, key) => ({
      text: sql.lockHeld[origin],
      params: [bytes(scope), laneOfKey(key), keyHash(key)],
    }),
    heldToFailed: (origin, seq) => ({ text: sql.heldToFailed[origin], params: one(seq) }),
    failedLetGo: (origin, heldSeq) => ({ text: sql.failedLetGo, params: [bytes(origin), numberOf(heldSeq)] }),

    moveRelay: (name, destination) => ({ text: sql.moveRelay, params: [bytes(name), text(destination)] }),
    subscriptions: plain(sql.subscriptions),
    lockSubscriptions: (consumer) => ({ text: sql.lockSubscriptions, params: [bytes(consumer)] }),
    unsubscribe: (consumer) => ({ text: sql.unsubscribe, params: [bytes(consumer)] }),

    sentList: ({ before, limit, ...where }) => ({
      text: sql.sentList(limit),
      params: [...sentParams(where), before === undefined ? MAX_SEQ : numberOf(before)],
    }),
    sentSeqs: (where, after, limit) => ({
      text: sql.sentSeqs(limit),
      params: [...sentParams(where), numberOf(after ?? '0')],
    }),
    sentGet: (seq) => ({ text: sql.sentGet, params: one(seq) }),
    republish: (seq, lane) => ({ text: sql.republish, params: [lane, ...one(seq)] }),

    clean: (query, step, olderThanMs, limit) => cleaned(sql, query, step, olderThanMs, limit),
    checkup: (query) => lookAt(query, checks),
  }
}

const MAX_SEQ = '9223372036854775807'

function textOrNull(value: string | undefined): Buffer | null {
  return value === undefined ? null : text(value)
}

function microsecondsOrNull(ms: number | undefined): number | null {
  return ms === undefined ? null : microseconds(ms)
}

/** The parameters of `FAILED_WHERE`. */
function failedParams(where: FailedWhere): readonly Param[] {
  const { origin, consumer, type, reason, errorHash, olderThanMs, newerThanMs, replaced } = where
  return [
    ...[origin, consumer, type, reason, errorHash].map(textOrNull),
    microsecondsOrNull(olderThanMs),
    microsecondsOrNull(newerThanMs),
    replaced ? 1 : 0,
  ]
}

/** The parameters of `SENT_WHERE`. */
function sentParams({ relay, type, olderThanMs, newerThanMs }: SentWhere): readonly Param[] {
  return [textOrNull(relay), textOrNull(type), microsecondsOrNull(olderThanMs), microsecondsOrNull(newerThanMs)]
}

/**
 * Reads a page without locks, then deletes by key what it found. One statement would lock what it looks up in the inbox,
 * and wait for every handler. What was finished when it was read stays finished: nothing comes back without its receipt. What was old
 * is looked at again: after a fail-over in between, another row may have the number, or the key, of one that was old.
 */
async function cleaned(
  sql: ReturnType<typeof statements>,
  query: (statement: Statement) => Promise<Result>,
  step: CleanupStep,
  olderThanMs: number,
  limit: number,
): Promise<Cleaned> {
  const ago = microseconds(olderThanMs)
  if (step.kind === 'receipts') {
    const { old, after } = await receiptPage(sql, query, step, olderThanMs, limit)
    if (step.dryRun) return { deleted: old.length, after }
    const deleted = await deleteAll(query, old, (part) => ({
      text: sql.deleteReceipts,
      params: [list(part), bytes(step.consumer), ago],
    }))
    return { deleted, after }
  }
  const table = step.kind
  const params = table === 'sent' ? [ago, bytes(step.relay)] : [ago]
  const { rows } = await query({ text: sql.page[table](limit), params })
  const old = rows.filter((row: Row) => asBoolean(row['old'])).map((row) => String(row['seq']))
  const deleted = await deleteAll(query, old, (part) => ({
    text: sql.deleteRows[table],
    params: [numbered(part), ago],
  }))
  // The oldest rows come first; if one of the page is too young, so is what follows.
  return { deleted, after: old.length < limit ? undefined : old.at(-1) }
}

/** A page of receipts: the keys of those that are old and finished. */
async function receiptPage(
  sql: ReturnType<typeof statements>,
  query: (statement: Statement) => Promise<Result>,
  { consumer, after = NO_UUID }: { readonly consumer: string; readonly after: string | undefined },
  olderThanMs: number,
  limit: number,
): Promise<{ readonly old: readonly Buffer[]; readonly after: string | undefined }> {
  const params = [microseconds(olderThanMs), bytes(consumer), uuidBytes(after)]
  const { rows } = await query({ text: sql.receiptPage(limit), params })
  const old = rows.filter((row) => asBoolean(row['old'])).map((row) => uuidBytes(asUuid(row['message_key'])))
  return { old, after: rows.length < limit ? undefined : asUuid(rows.at(-1)?.['message_key']) }
}

const NO_UUID = '00000000-0000-0000-0000-000000000000'

async function deleteAll<T>(
  query: (statement: Statement) => Promise<Result>,
  values: readonly T[],
  statement: (part: readonly T[]) => Statement,
): Promise<number> {
  let deleted = 0
  for (const part of chunks(values)) deleted += (await query(statement(part))).affected
  return deleted
}

const LIMIT = (limit: number): string => `limit ${Math.trunc(limit)}`

const AGO = (microseconds: string): string => `${NOW} - interval ${microseconds} microsecond`
const FAILED = `${NAME()} as seq, m.origin, m.consumer, ${MESSAGE}, m.attempts, m.reason, m.error, m.error_hash,
  ${MS('m.failed_at')} as failed_at, cast(m.held_seq as char) as held_seq, m.replaced_by`
const FAILED_WHERE = `(select ? as origin_, ? as consumer_, ? as type_, ? as reason_, ? as hash_, cast(? as signed) as older_,
  cast(? as signed) as newer_, cast(? as signed) as replaced_) as f
where (f.origin_ is null or m.origin = f.origin_) and (f.consumer_ is null or m.consumer = f.consumer_)
  and (f.type_ is null or m.type = f.type_) and (f.reason_ is null or m.reason = f.reason_)
  and (f.hash_ is null or m.error_hash = f.hash_)
  and (f.older_ is null or m.failed_at < ${AGO('f.older_')}) and (f.newer_ is null or m.failed_at >= ${AGO('f.newer_')})
  and (m.replaced_by is not null) = f.replaced_`
const SENT_WHERE = `(select ? as relay_, ? as type_, cast(? as signed) as older_, cast(? as signed) as newer_) as f
where (f.relay_ is null or m.relay = f.relay_) and (f.type_ is null or m.type = f.type_)
  and (f.older_ is null or m.sent_at < ${AGO('f.older_')}) and (f.newer_ is null or m.sent_at >= ${AGO('f.newer_')})`
const UNKNOWN_ERROR = `'{"name":"Error","message":"held for a reason that is not known any more"}'`

/** Every statement, whole and by name. */
function statements(prefix: string) {
  const table = {
    receipts: `${prefix}receipts`,
    inbox: `${prefix}inbox`,
    outbox: `${prefix}outbox`,
    failed: `${prefix}failed`,
    sent: `${prefix}sent`,
    audit: `${prefix}audit`,
    relays: `${prefix}relays`,
    subscriptions: `${prefix}subscriptions`,
  } as const
  const { receipts, inbox, outbox, failed, sent, audit, relays, subscriptions } = table
  const both = (each: (origin: Origin) => string): Readonly<Record<Origin, string>> => ({
    inbox: each('inbox'),
    outbox: each('outbox'),
  })
  const counts = {
    inbox: 'attempts = 0, lost = 0, starts = 0, crashes = 0, lease_token = null',
    outbox: 'attempts = 0',
  }
  const scope = { inbox: 'consumer', outbox: 'relay' }
  // In every lane that has rows.
  const heldRows = (origin: Origin): string => `
  select '${origin}' as origin, m.seq, m.message_key, m.${scope[origin]} as scope, m.lane, m.\`key\`, m.key_hash, m.id, m.held_at
  from (select distinct ${scope[origin]} as scope, lane from ${table[origin]} force index (${origin}_lane)) as l
  straight_join ${table[origin]} as m force index (${origin}_lane)
    on m.${scope[origin]} = l.scope and m.lane = l.lane and m.timed = 3`
  /** A receipt stays while the inbox or the failed store has its message. */
  const finished = `
  not exists (select 1 from ${inbox} as i where i.message_key = r.message_key and i.consumer = r.consumer)
  and not exists (select 1 from ${failed} as f
    where f.consumer = r.consumer and f.message_key = r.message_key and f.origin = 'inbox')`
  return {
    failedList: (limit: number) => `
select ${FAILED} from ${failed} as m join ${FAILED_WHERE} and m.seq < ${SEQ}
order by m.seq desc ${LIMIT(limit)}`,
    failedCount: `select count(*) as count from ${failed} as m join ${FAILED_WHERE}`,
    failedGroups: (limit: number) => `
select g.origin, g.consumer, g.type, g.reason, g.error_hash, g.count, g.first_at, g.last_at, ${NAME('newest')} as seq,
  newest.error
from (
  select m.origin, m.consumer, m.type, m.reason, m.error_hash, count(*) as count,
    ${MS('min(m.failed_at)')} as first_at, ${MS('max(m.failed_at)')} as last_at, max(m.seq) as seq
  from ${failed} as m join ${FAILED_WHERE}
  group by m.origin, m.consumer, m.type, m.reason, m.error_hash
  order by count(*) desc, max(m.seq) desc ${LIMIT(limit)}
) as g join ${failed} as newest on newest.seq = g.seq
order by g.count desc, g.seq desc`,
    failedSeqs: (limit: number) => `
select ${NAME()} as seq from ${failed} as m join ${FAILED_WHERE} and m.seq > ${SEQ}
order by m.seq ${LIMIT(limit)}`,
    failedGet: `select ${FAILED} from ${failed} as m where ${ROW}`,
    failedLock: `
select ${NAME()} as seq, m.origin, m.consumer,
  case when m.origin = 'outbox'
    then (select ${NAME('o')} from ${outbox} as o
      where o.seq = m.held_seq and o.message_key = m.message_key and o.held_at is not null)
    else (select ${NAME('i')} from ${inbox} as i
      where i.seq = m.held_seq and i.message_key = m.message_key and i.held_at is not null)
  end as held_seq
from ${failed} as m where ${ROW} and (m.replaced_by is null or cast(? as signed) = 1) for update`,
    copyBack: {
      inbox: `
insert into ${inbox} (consumer, ${COLUMNS}, lane, ordered, failed_seq, failed_mark, created_at, available_at, fence)
select m.consumer, ${MESSAGE}, m.lane, m.ordered, m.seq, m.mark, ${NOW}, ${NOW}, 1 from ${failed} as m where ${ROW}`,
      outbox: `
insert into ${outbox} (relay, ${COLUMNS}, lane, failed_seq, failed_mark, created_at, available_at)
select m.consumer, ${MESSAGE}, m.lane, m.seq, m.mark, ${NOW}, ${NOW} from ${failed} as m where ${ROW}`,
    },
    copyEdited: {
      inbox: `
insert into ${inbox} (${COLUMNS}, consumer, lane, ordered, created_at, available_at)
select ?, ?, ?, ?, ?, ?, ?, ?, m.consumer, m.lane, m.ordered, ${NOW}, ${NOW} from ${failed} as m where ${ROW}`,
      outbox: `
insert into ${outbox} (${COLUMNS}, relay, lane, created_at, available_at)
select ?, ?, ?, ?, ?, ?, ?, ?, m.consumer, m.lane, ${NOW}, ${NOW} from ${failed} as m where ${ROW}`,
    },
    unhold: both(
      (origin) => `
update ${table[origin]} set failed_seq = ${SEQ}, failed_mark = ${SEQ}, held_at = null, aside = 0, waits = 0, error = null,
  available_at = ${NOW}, ${counts[origin]} where ${ROW}`,
    ),
    replaceHeld: both(
      (origin) => `
update ${table[origin]} set message_key = ?, source = ?, id = ?, type = ?, \`key\` = ?, attributes = ?, data = ?,
  fingerprint = ?, failed_seq = null, failed_mark = null, held_at = null, aside = 0, waits = 0, error = null, available_at = ${NOW}, ${counts[origin]}
where ${ROW}`,
    ),
    deleteHeld: both((origin) => `delete from ${table[origin]} where ${ROW}`),
    deleteFailed: `delete from ${failed} where ${ROW}`,
    failedReplaced: `update ${failed} set replaced_by = ?, held_seq = null where ${ROW}`,
    insertReceipt: `
insert into ${receipts} (consumer, message_key, token, fingerprint, source, id, type, taken_at)
values (?, ?, ?, ?, ?, ?, ?, ${NOW})`,
    auditFailed: `
insert into ${audit} (at, action, actor, note, origin, consumer, source, id, type)
select ${NOW}, ?, ?, ?, m.origin, m.consumer, m.source, m.id, m.type from ${failed} as m where ${ROW}`,
    auditOther: `
insert into ${audit} (at, action, actor, note, origin, consumer, source, id, type)
values (${NOW}, ?, ?, ?, ?, ?, ?, ?, ?)`,

    heldKeys: (limit: number) => `
select h.origin, h.scope, h.\`key\`, h.id, ${MS('h.held_at')} as held_at, ${NAME()} as failed_seq,
  case when h.origin = 'outbox'
    then (select count(*) from ${outbox} as o
      where o.relay = h.scope and o.lane = h.lane and o.key_hash = h.key_hash and o.seq > h.seq)
    else (select count(*) from ${inbox} as i
      where i.consumer = h.scope and i.lane = h.lane and i.key_hash = h.key_hash and i.seq > h.seq)
  end as waiting
from (
  ${heldRows('inbox')}
  union all
  ${heldRows('outbox')}
  order by held_at, seq ${LIMIT(limit)}
) as h left join ${failed} as m on m.held_seq = h.seq and m.origin = h.origin and m.message_key = h.message_key
order by h.held_at, h.seq`,
    // Looked for without locks first: a locking search would lock every row that it passes.
    lockHeld: both(
      (origin) => `
select ${NAME()} as seq, m.source, m.id, m.type,
  (select ${NAME('f')} from ${failed} as f
    where f.held_seq = m.seq and f.origin = '${origin}' and f.message_key = m.message_key limit 1) as failed_seq
from (select seq from ${table[origin]} force index (${origin}_key)
    where ${scope[origin]} = ? and lane = ? and key_hash = ? and held_at is not null order by seq limit 1) as there
  straight_join ${table[origin]} as m ${BY_KEY} on m.seq = there.seq
where m.held_at is not null for update`,
    ),
    heldToFailed: {
      inbox: `
insert into ${failed} (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error, error_hash, failed_at)
select 'inbox', m.consumer, ${MESSAGE}, m.lane, m.ordered, m.attempts, 'permanent', coalesce(m.error, ${UNKNOWN_ERROR}), '',
  ${NOW}
from ${inbox} as m where ${ROW}
on duplicate key update ${failed}.message_key = ${failed}.message_key`,
      outbox: `
insert into ${failed} (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error, error_hash, failed_at)
select 'outbox', m.relay, ${MESSAGE}, m.lane, m.\`key\` is not null, m.attempts, 'permanent',
  coalesce(m.error, ${UNKNOWN_ERROR}), '', ${NOW}
from ${outbox} as m where ${ROW}
on duplicate key update ${failed}.message_key = ${failed}.message_key`,
    },
    failedLetGo: `update ${failed} set held_seq = null where origin = ? and held_seq = ${SEQ}`,

    moveRelay: `
insert into ${relays} (name, destination, recorded_at) values (?, ?, ${NOW})
on duplicate key update destination = values(destination), recorded_at = values(recorded_at)`,
    subscriptions: `select consumer, type, ordered from ${subscriptions} order by consumer, type`,
    // Found without locks: a search by consumer reads the subscriptions of all, which publishers have locked.
    lockSubscriptions: `
select m.type from (select type, consumer from ${subscriptions} where consumer = ? limit 1000000) as there
  straight_join ${subscriptions} as m ${BY_KEY} on m.type = there.type and m.consumer = there.consumer
order by m.type for update`,
    unsubscribe: `
delete m from (select type, consumer from ${subscriptions} where consumer = ? limit 1000000) as there
  straight_join ${subscriptions} as m ${BY_KEY} on m.type = there.type and m.consumer = there.consumer`,

    sentList: (limit: number) => `
select ${NAME()} as seq, m.relay, ${MS('m.sent_at')} as sent_at, ${MESSAGE}
from ${sent} as m join ${SENT_WHERE} and m.seq < ${SEQ} order by m.seq desc ${LIMIT(limit)}`,
    sentSeqs: (limit: number) => `
select ${NAME()} as seq from ${sent} as m join ${SENT_WHERE} and m.seq > ${SEQ}
order by m.seq ${LIMIT(limit)}`,
    sentGet: `select ${NAME()} as seq, m.relay, ${MESSAGE} from ${sent} as m where ${ROW}`,
    republish: `
insert into ${outbox} (relay, ${COLUMNS}, lane, created_at, available_at)
select m.relay, ${MESSAGE}, ?, ${NOW}, ${NOW} from ${sent} as m where ${ROW}`,

    // By key, because there is no index on taken_at: a receipt has to stay small.
    receiptPage: (limit: number) => `
select r.message_key, (r.taken_at < ${AGO('?')} and ${finished}) as old
from ${receipts} as r ${BY_KEY} where r.consumer = ? and r.message_key > ? order by r.message_key ${LIMIT(limit)}`,
    deleteReceipts: `delete m from ${KEYED(receipts, 'message_key')} and m.consumer = ? and m.taken_at < ${AGO('?')}`,
    page: {
      sent: (limit: number) => `
select cast(m.seq as char) as seq, m.sent_at < ${AGO('?')} as old from ${sent} as m force index (sent_relay)
where m.relay = ? order by m.seq ${LIMIT(limit)}`,
      audit: (limit: number) => `
select cast(m.seq as char) as seq, m.at < ${AGO('?')} as old from ${audit} as m ${BY_KEY}
order by m.seq ${LIMIT(limit)}`,
    },
    deleteRows: {
      sent: `delete m from ${NUMBERED(sent)} and m.sent_at < ${AGO('?')}`,
      audit: `delete m from ${NUMBERED(audit)} and m.at < ${AGO('?')}`,
    },
  } as const
}
