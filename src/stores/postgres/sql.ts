import type { Result, Statement } from '../../core/connection.ts'
import { errorHash } from '../../core/errors.ts'
import { laneOf } from '../../core/lanes.ts'
import type { StoredMessage } from '../../core/message.ts'
import { type Dialect, encodeText, pageOf } from '../../core/sql/index.ts'
import type { Share } from '../../core/store.ts'
import { answered, classify } from './errors.ts'
import { BACKEND, INBOX, LATER, MESSAGE, MS } from './fragments.ts'
import { leases } from './leases.ts'
import { array } from './literal.ts'
import { migrations } from './migrations.ts'
import { operator } from './operator.ts'

const NO_PARAMS: readonly [] = []
const plain = (text: string): Statement => ({ text, params: NO_PARAMS })

/** The statements of PostgreSQL in one schema. */
export function dialect(schema: string): Dialect {
  const sql = statements(schema)
  return {
    name: 'postgres',
    isolationLevels: ['read committed', 'repeatable read', 'serializable'],
    parallelWriters: true,
    ownTransactions: true,

    classify,
    answered,

    migrations: migrations(schema),
    delimiter: undefined,
    migrationLock: [
      plain(`set local lock_timeout = '60s'`),
      { text: 'select pg_advisory_xact_lock(hashtextextended($1::text, 0))', params: [`hapax migrate ${schema}`] },
      plain(`create schema if not exists ${schema}`),
    ],
    migrationUnlock: [],
    migrationTable: plain(sql.migrationTable),
    migrationRows: plain(sql.migrationRows),
    migrationDone: (version, name, checksum) => ({ text: sql.migrationDone, params: [version, name, checksum] }),

    settings: ({ lockTimeoutMs, idleTimeoutMs }, opening) => [
      plain(`set local idle_in_transaction_session_timeout = ${Math.ceil(idleTimeoutMs)}`),
      // 0 would mean to wait for ever.
      ...(opening === 'plain' ? [] : [plain(`set local lock_timeout = ${Math.max(1, Math.ceil(lockTimeoutMs))}`)]),
    ],
    guardSet: [plain('set local lock_timeout to default'), plain('savepoint hapax')],
    guardRelease: [plain('release savepoint hapax')],
    guardCheck: [plain('release savepoint hapax;savepoint hapax')],
    guardRollback: [plain('rollback to savepoint hapax')],

    take: (consumer, token, messages) => [
      messages.length === 1
        ? takeOne(sql.takeOne, consumer, token, messages[0] as StoredMessage)
        : takeMany(sql.takeMany, consumer, token, messages),
    ],
    taken: ([answer], _token, messages) => takenKeys(answer, messages.length),
    receipts: (consumer, keys) => ({ text: sql.receipts, params: [consumer, array(keys)] }),
    claim: (seqs) => ({ text: sql.claim, params: [array(seqs)] }),
    lockAll: (seqs) => ({ text: sql.lockAll, params: [array(seqs)] }),
    claimDeletes: true,
    blocked: (seqs) => ({ text: sql.blocked, params: [array(seqs), array(seqs)] }),
    backend: (answers) => backendOf(answers.find((answer) => answer.rows.length > 0)),
    terminate: ([pid, xid]) => ({ text: sql.terminate, params: [Number(pid), String(xid)] }),
    fate: ([, xid]) => ({ text: sql.fate, params: [String(xid)] }),

    deleteInbox: (seqs) => [{ text: sql.deleteInbox, params: [array(seqs)] }],
    insertInbox: (rows) => [
      {
        text: sql.insertInbox,
        params: [
          array(rows.map((row) => row.consumer)),
          ...messageArrays(rows.map((row) => row.message)),
          array(rows.map((row) => row.attempts)),
          array(rows.map((row) => row.starts)),
          array(rows.map((row) => row.delayMs)),
          array(rows.map((row) => row.error && JSON.stringify(row.error))),
          array(rows.map((row) => laneOf(row.message, row.ordered))),
          array(rows.map((row) => String(inOrder(row)))),
        ],
      },
    ],
    insertFailed: (rows) => [
      {
        text: sql.insertFailed,
        params: [
          array(rows.map((row) => row.consumer)),
          ...messageArrays(rows.map((row) => row.message)),
          array(rows.map((row) => row.attempts)),
          array(rows.map((row) => row.reason)),
          array(rows.map((row) => JSON.stringify(row.error))),
          array(rows.map((row) => errorHash(row.error))),
          array(rows.map((row) => laneOf(row.message, row.ordered))),
          array(rows.map((row) => String(inOrder(row)))),
        ],
      },
    ],
    insertOutbox: (rows) => [
      {
        text: sql.insertOutbox,
        params: [
          array(rows.map((row) => row.relay)),
          ...messageArrays(rows.map((row) => row.message)),
          array(rows.map((row) => row.delayMs)),
          array(rows.map((row) => laneOf(row.message, true))),
        ],
      },
    ],
    writeLocal: async (executor, rows, token) => {
      const known = rows.flatMap(({ message, consumers }) =>
        consumers.map((consumer) => ({ type: message.type, consumer })),
      )
      const { rows: answers } = await executor.query(sql.writeLocal, [
        ...messageArrays(rows.map((row) => row.message)),
        array(rows.map((row) => row.delayMs)),
        array(rows.map((row) => laneOf(row.message, false))),
        array(rows.map((row) => laneOf(row.message, true))),
        array(known.map(({ type }) => encodeText(type))),
        array(known.map(({ consumer }) => consumer.name)),
        array(known.map(({ consumer }) => String(consumer.ordered))),
        token,
      ])
      return answers.map((row) => ({ consumers: Number(row['consumers']), fresh: Number(row['fresh']) }))
    },

    look: (query, shares) =>
      query({ text: sql.look, params: [...columns(shares, 'inbox'), ...columns(shares, 'outbox')] }),
    reschedule: ({ seq, attempts, lost, delayMs, error, leaseToken }) => ({
      text: sql.reschedule,
      params: [attempts, lost, delayMs, JSON.stringify(error), seq, leaseToken],
    }),
    lockInbox: (seq, leaseToken) => ({ text: sql.lockInbox, params: [seq, leaseToken] }),
    copyToFailed: ({ seq, attempts, reason, error, hold }) => ({
      text: sql.copyToFailed,
      params: [String(hold), attempts, reason, JSON.stringify(error), errorHash(error), seq],
    }),
    holdInbox: ({ seq, attempts, error }) => ({ text: sql.holdInbox, params: [attempts, JSON.stringify(error), seq] }),
    inboxSeq: (consumer, messageKey) => ({ text: sql.inboxSeq, params: [consumer, messageKey] }),

    outboxRows: (seqs) => ({ text: sql.outboxRows, params: [array(seqs)] }),
    copyToSent: (seqs) => ({ text: sql.copyToSent, params: [array(seqs)] }),
    deleteOutbox: (seqs) => ({ text: sql.deleteOutbox, params: [array(seqs)] }),
    deleteConfirmed: (seqs) => ({ text: sql.deleteConfirmed, params: [array(seqs)] }),
    postpone: (rows) => [
      {
        text: sql.postpone,
        params: [
          array(rows.map((row) => row.seq)),
          array(rows.map((row) => row.delayMs)),
          array(rows.map((row) => JSON.stringify(row.error))),
        ],
      },
    ],
    lockOutbox: (seq) => ({ text: sql.lockOutbox, params: [seq] }),
    refuseToFailed: ({ seq, reason, error, hold }) => ({
      text: sql.refuseToFailed,
      params: [String(hold), reason, JSON.stringify(error), errorHash(error), seq],
    }),
    holdOutbox: ({ seq, error }) => ({ text: sql.holdOutbox, params: [JSON.stringify(error), seq] }),
    recordRelay: (name, destination) => ({ text: sql.recordRelay, params: [name, destination] }),
    relay: (name) => ({ text: sql.relay, params: [name] }),

    join: ({ id, name, ttlMs, serves }) => ({ text: sql.join, params: [id, ttlMs, name, serves] }),
    note: (id, inHand, alone, beat) => ({ text: beat ? sql.beat : sql.note, params: [inHand, String(alone), id] }),
    workers: plain(sql.workers),
    lockDead: plain(sql.lockDead),
    suspect: (seqs) => ({ text: sql.suspect, params: [array(seqs)] }),
    crashed: (seqs) => ({ text: sql.crashed, params: [array(seqs)] }),
    leave: (ids) => ({ text: sql.leave, params: [array(ids)] }),

    subscribe: (consumer, type, ordered) => ({
      text: sql.subscribe,
      params: [consumer, encodeText(type), String(ordered)],
    }),
    subscription: (consumer, type) => ({ text: sql.subscription, params: [consumer, encodeText(type)] }),

    leases: leases(schema),
    operator: operator(schema),
  }
}

function takeOne(text: string, consumer: string, token: string, message: StoredMessage): Statement {
  const { messageKey, source, id, type, fingerprint } = message
  const params = [consumer, messageKey, token, encodeText(source), encodeText(id), encodeText(type), fingerprint]
  return { text, params }
}

function takeMany(text: string, consumer: string, token: string, messages: readonly StoredMessage[]): Statement {
  const params = [
    consumer,
    token,
    array(messages.map((message) => message.messageKey)),
    array(messages.map((message) => encodeText(message.source))),
    array(messages.map((message) => encodeText(message.id))),
    array(messages.map((message) => encodeText(message.type))),
    array(messages.map((message) => message.fingerprint)),
    messages.length,
  ]
  return { text, params }
}

function takenKeys(answer: Result | undefined, count: number): ReadonlySet<string> | 'all' {
  const keys = answer?.rows[0]?.['message_key']
  if (keys === 'all' || (count === 1 && keys !== undefined)) return 'all'
  return new Set(keys === undefined || keys === null ? [] : String(keys).split(','))
}

/** message_key, source, id, type, key, attributes, data, fingerprint: eight parameters. */
function messageArrays(messages: readonly StoredMessage[]): readonly string[] {
  return [
    array(messages.map((message) => message.messageKey)),
    array(messages.map((message) => encodeText(message.source))),
    array(messages.map((message) => encodeText(message.id))),
    array(messages.map((message) => encodeText(message.type))),
    array(messages.map((message) => (message.key === null ? null : encodeText(message.key)))),
    array(messages.map((message) => message.attributes)),
    array(messages.map((message) => message.data)),
    array(messages.map((message) => message.fingerprint)),
  ]
}

/** A message without a key has no order to keep. */
function inOrder({ message, ordered }: { message: StoredMessage; ordered: boolean }): boolean {
  return ordered && message.key !== null
}

/** How many rows a look lists of the first key of a lane; of the others less and less, because there may be many. */
const RUN = 100
/** How many suspects of a lane a look lists: they run one after the other, and must not stand in the way of the rest. */
const SUSPECTS = 2

/** The shares of a table, column by column: share, scope, page, types, lanes, after; the last three are lists as texts. */
function columns(shares: readonly Share[], table: Share['table']): readonly string[] {
  const rows = shares.map((share, index) => ({ share, index })).filter(({ share }) => share.table === table)
  return [
    array(rows.map(({ index }) => index)),
    array(rows.map(({ share }) => share.scope)),
    array(rows.map(({ share }) => pageOf(share))),
    array(rows.map(({ share }) => array(share.types.map(encodeText)))),
    array(rows.map(({ share }) => array(share.lanes))),
    array(rows.map(({ share }) => array(share.lanes.map((lane) => encodeText(share.after.get(lane) ?? ''))))),
  ]
}

function backendOf(answer: Result | undefined): readonly [number, string] | undefined {
  const row = answer?.rows[0]
  return row && [Number(row['pid']), String(row['xid'])]
}

/**
 * Every statement, whole and by name. Parameters are scalars, each used once and in order, each cast.
 * ON CONFLICT names no key: while REINDEX CONCURRENTLY swaps the index, a named one is not found, or is not the only one.
 */
function statements(schema: string) {
  return {
    migrationTable: `
create table if not exists ${schema}.migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default clock_timestamp()
)`,
    migrationRows: `select version, checksum from ${schema}.migrations`,
    migrationDone: `
insert into ${schema}.migrations (version, name, checksum) values ($1::integer, $2::text, $3::text)`,

    takeOne: `
insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
values ($1::text, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, decode($7::text, 'hex'))
on conflict do nothing
returning message_key::text as message_key, ${BACKEND}`,
    // Sorted, because two groups inserting in different order deadlock. One row comes back: that they are usually all
    // ours is cheaper to say than to list.
    takeMany: `
with taken as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select $1::text, m.message_key, $2::uuid, m.source, m.id, m.type, decode(m.fingerprint, 'hex')
  from unnest($3::text::uuid[], $4::text::text[], $5::text::text[], $6::text::text[], $7::text::text[])
    as m (message_key, source, id, type, fingerprint)
  order by m.message_key
  on conflict do nothing
  returning message_key
)
select case when count(*) = $8::integer then 'all' else string_agg(message_key::text, ',') end as message_key, ${BACKEND}
from taken`,
    receipts: `
select message_key::text as message_key, token::text as token, source, id, type,
  encode(fingerprint, 'hex') as fingerprint, ${MS('taken_at')} as taken_at
from ${schema}.receipts where consumer = $1::text and message_key = any ($2::text::uuid[])`,

    // The older rows of a key are only read: nothing ever waits for another worker's row.
    claim: `
with mine as materialized (
  select seq, consumer, lane, key, ordered from ${schema}.inbox
  where seq = any ($1::text::bigint[]) and held_at is null
    and (lease_token is null or available_at <= clock_timestamp())
  order by seq for update skip locked
), kept as (
  select seq from mine
  where not ordered or not exists (
    select from ${schema}.inbox older
    where older.ordered and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
      and older.seq < mine.seq and older.seq not in (select seq from mine))
)
delete from ${schema}.inbox where seq = any (array(select seq from kept))
returning ${INBOX}, ${BACKEND}`,
    lockAll: `
select seq::text as seq, ${BACKEND} from ${schema}.inbox
where seq = any ($1::text::bigint[]) order by inbox.seq for update`,
    blocked: `
select mine.seq::text as seq from ${schema}.inbox mine
where mine.seq = any ($1::text::bigint[]) and mine.ordered and exists (
  select from ${schema}.inbox older
  where older.ordered and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
    and older.seq < mine.seq and older.seq <> all ($2::text::bigint[]))`,
    // The transaction's id makes sure that it is still this one.
    fate: `select pg_xact_status($1::text::xid8) as fate`,
    terminate: `
select pg_terminate_backend(pid) from pg_stat_activity
where pid = $1::integer and backend_xid::text = $2::text`,

    deleteInbox: `delete from ${schema}.inbox where seq = any ($1::text::bigint[])`,
    insertInbox: `
insert into ${schema}.inbox
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, starts, available_at, error,
    lane, ordered)
select m.consumer, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  m.attempts, m.starts, ${LATER('m.delay_ms')}, m.error, m.lane, m.ordered
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::integer[],
  $12::text::float8[], $13::text::text[], $14::text::smallint[], $15::text::boolean[])
  with ordinality as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint,
    attempts, starts, delay_ms, error, lane, ordered, place)
order by m.place`,
    insertFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error, error_hash,
    lane, ordered)
select m.consumer, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  m.attempts, m.reason, m.error, m.error_hash, m.lane, m.ordered
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::text[], $12::text::text[],
  $13::text::text[], $14::text::smallint[], $15::text::boolean[])
  as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error,
    error_hash, lane, ordered)
on conflict do nothing`,
    insertOutbox: `
insert into ${schema}.outbox
  (relay, message_key, source, id, type, key, attributes, data, fingerprint, available_at, lane)
select m.relay, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  ${LATER('m.delay_ms')}, m.lane
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::float8[], $11::text::smallint[])
  with ordinality as m (relay, message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, lane, place)
order by m.place`,
    // One statement: who listens, receipts where there are none, and an inbox row for each receipt that is new.
    writeLocal: `
with m as (
  select * from unnest($1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::text[],
    $6::text::text[], $7::text::bytea[], $8::text::text[], $9::text::float8[], $10::text::smallint[],
    $11::text::smallint[])
    with ordinality as m (message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, lane, key_lane, place)
), known as (
  select distinct * from unnest($12::text::text[], $13::text::text[], $14::text::boolean[])
    as known (type, consumer, ordered)
), listening as (
  select type, consumer, ordered from known
  union all
  select type, consumer, ordered from ${schema}.subscriptions
  where not exists (select from known where known.type = subscriptions.type and known.consumer = subscriptions.consumer)
), target as (
  select m.*, listening.consumer, listening.ordered and m.key is not null as ordered
  from m join listening on listening.type = m.type
), receipt as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select consumer, message_key, $15::uuid, source, id, type, decode(fingerprint, 'hex') from target
  order by consumer, message_key
  on conflict do nothing
  returning consumer, message_key
), delivered as (
  insert into ${schema}.inbox
    (consumer, message_key, source, id, type, key, attributes, data, fingerprint, available_at, lane, ordered)
  select consumer, message_key, source, id, type, key, attributes, data, decode(fingerprint, 'hex'),
    ${LATER('delay_ms')}, case when ordered then key_lane else lane end, ordered
  from target join receipt using (consumer, message_key)
  order by place, consumer
)
select count(target.consumer) as consumers, count(receipt.consumer) as fresh
from m left join target using (place)
  left join receipt on receipt.consumer = target.consumer and receipt.message_key = target.message_key
group by place order by place`,

    // Lane by lane through the index, so that what belongs to others costs nothing, and not at all where nothing waits;
    // keys are skipped through one by one, so that a million rows behind one of them cost as much as one. A relay may have
    // thousands of rows without a key at once: those of a lane are one row of the answer.
    look: `
with inbox_share as (
  select share, scope, page, types::text[] as types, lanes, afters
  from unnest($1::text::integer[], $2::text::text[], $3::text::integer[], $4::text::text[],
    $5::text::text[], $6::text::text[]) as s (share, scope, page, types, lanes, afters)
  offset 0
), outbox_share as (
  select share, scope, page, types::text[] as types, lanes, afters
  from unnest($7::text::integer[], $8::text::text[], $9::text::integer[], $10::text::text[],
    $11::text::text[], $12::text::text[]) as s (share, scope, page, types, lanes, afters)
  offset 0
)
select s.share, r.seq::text as seq, r.type, r.lane, null as key, r.bytes::text as bytes, r.ms::text as ms, false as held, r.starts
from inbox_share as s
cross join lateral (select from ${schema}.inbox i where i.consumer = s.scope and not i.ordered limit 1) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  (select i.seq, i.type, i.lane, octet_length(i.data) as bytes, ${MS('i.available_at - now()')} as ms, i.starts as starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at <= now() and i.type = any (s.types)
    and i.starts = 0
  order by i.available_at, i.seq limit s.page)
  union all
  (select i.seq, i.type, i.lane, octet_length(i.data), ${MS('i.available_at - now()')}, i.starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at <= now() and i.type = any (s.types)
    and i.starts > 0
  order by i.available_at, i.seq limit ${SUSPECTS})
  union all
  (select i.seq, i.type, i.lane, 0, ${MS('i.available_at - now()')}, 0
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at > now() and i.type = any (s.types)
  order by i.available_at, i.seq limit 1)
) as r
union all
select s.share, r.seq::text, r.type, r.lane, r.key, r.bytes::text, r.ms::text, r.held, r.starts
from inbox_share as s
cross join lateral (select from ${schema}.inbox i where i.consumer = s.scope and i.ordered limit 1) as there
cross join lateral unnest(s.lanes::smallint[], s.afters::text[]) as l (lane, after)
cross join lateral (
  with recursive head as (
    (select 1 as rank, i.key, i.held_at is null and i.available_at <= now() as ready from ${schema}.inbox i
    where i.consumer = s.scope and i.lane = l.lane and i.ordered and i.key > l.after
    order by i.key, i.seq limit 1)
    union all
    select head.rank + 1, next.* from head cross join lateral (
      select i.key, i.held_at is null and i.available_at <= now() from ${schema}.inbox i
      where i.consumer = s.scope and i.lane = l.lane and i.ordered and i.key > head.key
      order by i.key, i.seq limit 1) as next
  )
  select * from head limit s.page
) as head
cross join lateral (
  select i.seq, i.type, i.lane, i.key, octet_length(i.data) as bytes, ${MS('i.available_at - now()')} as ms,
    i.held_at is not null as held, i.starts as starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and i.ordered and i.key = head.key
  order by i.seq limit case when head.ready then greatest(1, ${RUN} / head.rank ^ 2)::integer else 1 end
) as r
union all
select s.share, string_agg(r.seq::text, ','), r.type, l.lane, null, string_agg(r.bytes::text, ','), string_agg(r.ms::text, ','), false, 0
from outbox_share as s
cross join lateral (select from ${schema}.outbox i where i.relay = s.scope and i.key is null limit 1) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  (select i.seq, i.type, octet_length(i.data) as bytes, ${MS('i.available_at - now()')} as ms
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is null and i.available_at <= now()
  order by i.available_at, i.seq limit s.page)
  union all
  (select i.seq, i.type, 0, ${MS('i.available_at - now()')}
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is null and i.available_at > now()
  order by i.available_at, i.seq limit 1)
) as r
group by s.share, l.lane, r.type
union all
select s.share, r.seq::text, r.type, r.lane, r.key, r.bytes::text, r.ms::text, r.held, r.starts
from outbox_share as s
cross join lateral (select from ${schema}.outbox i where i.relay = s.scope and i.key is not null limit 1) as there
cross join lateral unnest(s.lanes::smallint[], s.afters::text[]) as l (lane, after)
cross join lateral (
  with recursive head as (
    (select 1 as rank, i.key, i.held_at is null and i.available_at <= now() as ready from ${schema}.outbox i
    where i.relay = s.scope and i.lane = l.lane and i.key is not null and i.key > l.after
    order by i.key, i.seq limit 1)
    union all
    select head.rank + 1, next.* from head cross join lateral (
      select i.key, i.held_at is null and i.available_at <= now() from ${schema}.outbox i
      where i.relay = s.scope and i.lane = l.lane and i.key is not null and i.key > head.key
      order by i.key, i.seq limit 1) as next
  )
  select * from head limit s.page
) as head
cross join lateral (
  select i.seq, i.type, i.lane, i.key, octet_length(i.data) as bytes, ${MS('i.available_at - now()')} as ms,
    i.held_at is not null as held, 0 as starts
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is not null and i.key = head.key
  order by i.seq limit case when head.ready then greatest(1, ${RUN} / head.rank ^ 2)::integer else 1 end
) as r`,
    reschedule: `
update ${schema}.inbox set attempts = $1::integer, lost = $2::integer, starts = 0,
  available_at = ${LATER('$3::float8')}, error = $4::text, lease_token = null
where seq = $5::bigint and lease_token is not distinct from $6::uuid`,
    lockInbox: `
select seq::text as seq from ${schema}.inbox
where seq = $1::bigint and lease_token is not distinct from $2::uuid for update`,
    copyToFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered, held_seq, attempts, reason,
    error, error_hash)
select consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered,
  case when $1::boolean then seq end, $2::integer, $3::text, $4::text, $5::text
from ${schema}.inbox where seq = $6::bigint
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(failed.held_seq, excluded.held_seq), replaced_by = null`,
    holdInbox: `
update ${schema}.inbox set held_at = clock_timestamp(), attempts = $1::integer, error = $2::text, starts = 0,
  lease_token = null
where seq = $3::bigint`,
    inboxSeq: `
select seq::text as seq from ${schema}.inbox
where consumer = $1::text and message_key = $2::uuid order by inbox.seq limit 1`,

    outboxRows: `
select seq::text as seq, relay, ${MESSAGE}, attempts from ${schema}.outbox
where seq = any ($1::text::bigint[]) order by outbox.seq`,
    copyToSent: `
insert into ${schema}.sent (message_key, fingerprint, relay, source, id, type, key, attributes, data)
select message_key, fingerprint, relay, source, id, type, key, attributes, data from (
  select * from ${schema}.outbox where seq = any ($1::text::bigint[]) order by outbox.seq for update
) as confirmed`,
    // A server that crashes may bring back what was deleted in its last moment; then it is sent again.
    deleteConfirmed: `
with eventually as materialized (select set_config('synchronous_commit', 'off', true) as setting)
delete from ${schema}.outbox using eventually where seq = any ($1::text::bigint[]) and setting = 'off'`,
    deleteOutbox: `delete from ${schema}.outbox where seq = any ($1::text::bigint[])`,
    postpone: `
update ${schema}.outbox set attempts = attempts + 1, available_at = ${LATER('m.delay_ms')}, error = m.error
from unnest($1::text::bigint[], $2::text::float8[], $3::text::text[]) as m (seq, delay_ms, error)
where outbox.seq = m.seq`,
    lockOutbox: `select seq::text as seq from ${schema}.outbox where seq = $1::bigint for update`,
    refuseToFailed: `
insert into ${schema}.failed
  (origin, consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered, attempts, held_seq,
    reason, error, error_hash)
select 'outbox', relay, message_key, source, id, type, key, attributes, data, fingerprint, lane, key is not null,
  attempts + 1, case when $1::boolean then seq end, $2::text, $3::text, $4::text
from ${schema}.outbox where seq = $5::bigint
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(failed.held_seq, excluded.held_seq), replaced_by = null`,
    holdOutbox: `
update ${schema}.outbox set held_at = clock_timestamp(), attempts = attempts + 1, error = $1::text
where seq = $2::bigint`,
    recordRelay: `
insert into ${schema}.relays (name, destination) values ($1::text, $2::text) on conflict do nothing`,
    relay: `select destination from ${schema}.relays where name = $1::text`,

    join: `
insert into ${schema}.workers (id, ttl_ms, name, serves) values ($1::text, $2::integer, $3::text, $4::text)
on conflict do nothing`,
    // Nobody waits for the disk: if the server loses the last moments, no process has died.
    note: `
update ${schema}.workers set in_hand = $1::text, alone = $2::boolean
from (select set_config('synchronous_commit', 'off', true)) as at_leisure where id = $3::text`,
    beat: `
update ${schema}.workers set in_hand = $1::text, alone = $2::boolean, heartbeat_at = clock_timestamp()
from (select set_config('synchronous_commit', 'off', true)) as at_leisure where id = $3::text`,
    workers: `
select id, name, serves, ${MS('started_at')} as started_at, ${MS('clock_timestamp() - heartbeat_at')} as silent_ms,
  clock_timestamp() - heartbeat_at <= ttl_ms * interval '1 millisecond' as alive, in_hand
from ${schema}.workers order by id`,
    lockDead: `
select id, in_hand, alone from ${schema}.workers
where clock_timestamp() - heartbeat_at > ttl_ms * interval '1 millisecond' order by id for update skip locked`,
    // A row that is locked is being worked on: its worker is slow to be heard, not dead.
    suspect: `
update ${schema}.inbox set starts = starts + 1 where seq in (
  select seq from ${schema}.inbox where seq = any ($1::text::bigint[]) order by seq for update skip locked)`,
    crashed: `
update ${schema}.inbox set starts = starts + 1, crashes = crashes + 1 where seq in (
  select seq from ${schema}.inbox where seq = any ($1::text::bigint[]) order by seq for update skip locked)`,
    leave: `delete from ${schema}.workers where id = any ($1::text::text[])`,

    subscribe: `
insert into ${schema}.subscriptions (consumer, type, ordered) values ($1::text, $2::text, $3::boolean)
on conflict (consumer, type) do update set ordered = excluded.ordered`,
    subscription: `select ordered from ${schema}.subscriptions where consumer = $1::text and type = $2::text`,
  } as const
}
