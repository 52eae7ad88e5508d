import type { Result, Statement } from '../../core/connection.ts'
import type { StoredMessage } from '../../core/message.ts'
import { type Dialect, encodeText } from '../../core/sql/index.ts'
import { answered, classify } from './errors.ts'
import { array } from './literal.ts'
import { migrations } from './migrations.ts'

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
    claim: (seqs, locked) => ({ text: locked === 'skip' ? sql.claimSkip : sql.claimWait, params: [array(seqs)] }),
    claimDeletes: true,
    lock: (seqs, locked) => ({ text: locked === 'skip' ? sql.lockSkip : sql.lockWait, params: [array(seqs)] }),
    backend: ([answer]) => backendOf(answer),
    terminate: ([pid, xid]) => ({ text: sql.terminate, params: [Number(pid), String(xid)] }),

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
        ],
      },
    ],
    writeLocal: async (executor, rows, token) => {
      const known = rows.flatMap(({ message, consumers }) =>
        consumers.map((consumer) => [message.type, consumer] as const),
      )
      const { rows: answers } = await executor.query(sql.writeLocal, [
        ...messageArrays(rows.map((row) => row.message)),
        array(rows.map((row) => row.delayMs)),
        array(known.map(([type]) => encodeText(type))),
        array(known.map(([, consumer]) => consumer)),
        token,
      ])
      return answers.map((row) => ({ consumers: Number(row['consumers']), fresh: Number(row['fresh']) }))
    },

    due: async (query, types, { limit, except, started, hideMs }) => {
      const rows: Result['rows'][number][] = []
      for (const [consumer, names] of types) {
        if (rows.length >= limit) break
        const which = [consumer, array(names.map(encodeText)), String(started), array(except)]
        const params = [hideMs, ...which, limit - rows.length]
        rows.push(...(await query({ text: sql.due, params })).rows)
      }
      return { rows, affected: rows.length }
    },
    nextDue: (consumer, types) => ({ text: sql.nextDue, params: [consumer, array(types.map(encodeText))] }),
    inFlight: (consumer, types) => ({ text: sql.inFlight, params: [consumer, array(types.map(encodeText))] }),
    reschedule: ({ seq, attempts, lost, delayMs, error }) => ({
      text: sql.reschedule,
      params: [attempts, lost, delayMs, JSON.stringify(error), seq],
    }),
    copyToFailed: ({ seq, attempts, reason, error }) => ({
      text: sql.copyToFailed,
      params: [attempts, reason, JSON.stringify(error), seq],
    }),
    inboxRow: (consumer, messageKey) => ({ text: sql.inboxRow, params: [consumer, messageKey] }),

    subscribe: (consumer, type) => ({ text: sql.subscribe, params: [consumer, encodeText(type)] }),
    subscription: (consumer, type) => ({ text: sql.subscription, params: [consumer, encodeText(type)] }),

    failedList: ({ consumer, type, reason, before, limit }) => ({
      text: sql.failedList,
      params: [consumer ?? null, type === undefined ? null : encodeText(type), reason ?? null, before ?? null, limit],
    }),
    failedGet: (seq) => ({ text: sql.failedGet, params: [seq] }),
    failedLock: (seq) => ({ text: sql.failedLock, params: [seq] }),
    copyToInbox: (seq) => ({ text: sql.copyToInbox, params: [seq] }),
    deleteFailed: (seq) => ({ text: sql.deleteFailed, params: [seq] }),

    statusConsumers: plain(sql.statusConsumers),
    statusOutbox: plain(sql.statusOutbox),
    trace: (id) => sql.trace.map((text) => ({ text, params: [encodeText(id)] })),
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

function backendOf(answer: Result | undefined): readonly [number, string] | undefined {
  const row = answer?.rows[0]
  return row && [Number(row['pid']), String(row['xid'])]
}

const MS = (column: string): string => `(extract(epoch from ${column}) * 1000)::float8`
const LATER = (parameter: string): string => `clock_timestamp() + ${parameter} * interval '1 millisecond'`
const MESSAGE = `message_key::text as message_key, source, id, type, key, attributes, data, encode(fingerprint, 'hex') as fingerprint`
const INBOX = `seq::text as seq, consumer, ${MESSAGE}, attempts, lost, starts`
const BACKEND = `pg_backend_pid() as pid, pg_current_xact_id()::text as xid`

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

    lockSkip: `
select seq::text as seq, ${BACKEND} from ${schema}.inbox
where seq = any ($1::text::bigint[]) order by inbox.seq for update skip locked`,
    lockWait: `
select seq::text as seq, ${BACKEND} from ${schema}.inbox
where seq = any ($1::text::bigint[]) order by inbox.seq for update`,
    claimSkip: `
with mine as (
  select seq from ${schema}.inbox where seq = any ($1::text::bigint[]) order by inbox.seq for update skip locked
)
delete from ${schema}.inbox using mine where inbox.seq = mine.seq
returning inbox.seq::text as seq, ${BACKEND}`,
    claimWait: `
with mine as (
  select seq from ${schema}.inbox where seq = any ($1::text::bigint[]) order by inbox.seq for update
)
delete from ${schema}.inbox using mine where inbox.seq = mine.seq
returning inbox.seq::text as seq, ${BACKEND}`,
    // The transaction's id makes sure that it is still this one.
    terminate: `
select pg_terminate_backend(pid) from pg_stat_activity
where pid = $1::integer and backend_xid::text = $2::text`,

    deleteInbox: `delete from ${schema}.inbox where seq = any ($1::text::bigint[])`,
    insertInbox: `
insert into ${schema}.inbox
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, starts, available_at, error)
select m.consumer, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  m.attempts, m.starts, ${LATER('m.delay_ms')}, m.error
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::integer[],
  $12::text::float8[], $13::text::text[])
  with ordinality as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint,
    attempts, starts, delay_ms, error, place)
order by m.place`,
    insertFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error)
select m.consumer, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  m.attempts, m.reason, m.error
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::text[], $12::text::text[])
  as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error)
on conflict do nothing`,
    insertOutbox: `
insert into ${schema}.outbox
  (relay, message_key, source, id, type, key, attributes, data, fingerprint, available_at)
select m.relay, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  ${LATER('m.delay_ms')}
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::float8[])
  with ordinality as m (relay, message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, place)
order by m.place`,
    // One statement: who listens, receipts where there are none, and an inbox row for each receipt that is new.
    writeLocal: `
with m as (
  select * from unnest($1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::text[],
    $6::text::text[], $7::text::bytea[], $8::text::text[], $9::text::float8[])
    with ordinality as m (message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, place)
), listening as (
  select type, consumer from ${schema}.subscriptions
  union
  select known.type, known.consumer from unnest($10::text::text[], $11::text::text[]) as known (type, consumer)
), target as (
  select m.*, listening.consumer from m join listening on listening.type = m.type
), receipt as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select consumer, message_key, $12::uuid, source, id, type, decode(fingerprint, 'hex') from target
  order by consumer, message_key
  on conflict do nothing
  returning consumer, message_key
), delivered as (
  insert into ${schema}.inbox
    (consumer, message_key, source, id, type, key, attributes, data, fingerprint, available_at)
  select consumer, message_key, source, id, type, key, attributes, data, decode(fingerprint, 'hex'), ${LATER('delay_ms')}
  from target join receipt using (consumer, message_key)
  order by place, consumer
)
select count(target.consumer) as consumers, count(receipt.consumer) as fresh
from m left join target using (place)
  left join receipt on receipt.consumer = target.consumer and receipt.message_key = target.message_key
group by place order by place`,

    due: `
update ${schema}.inbox set starts = starts + 1, available_at = ${LATER('$1::float8')}
where seq in (
  select seq from ${schema}.inbox
  where consumer = $2::text and type = any ($3::text::text[]) and available_at <= now()
    and (starts > 0) = $4::boolean and seq <> all ($5::text::bigint[])
  order by available_at, inbox.seq limit $6::integer for update skip locked)
returning ${INBOX}`,
    nextDue: `
select ${MS('min(available_at) - now()')} as ms from ${schema}.inbox
where consumer = $1::text and type = any ($2::text::text[])`,
    inFlight: `
select 1 as one from ${schema}.inbox where consumer = $1::text and type = any ($2::text::text[]) and starts > 0 limit 1`,
    reschedule: `
update ${schema}.inbox set attempts = $1::integer, lost = $2::integer, starts = 0,
  available_at = ${LATER('$3::float8')}, error = $4::text
where seq = $5::bigint`,
    copyToFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error)
select consumer, message_key, source, id, type, key, attributes, data, fingerprint, $1::integer, $2::text, $3::text
from ${schema}.inbox where seq = $4::bigint
on conflict do nothing`,
    inboxRow: `
select ${INBOX} from ${schema}.inbox where consumer = $1::text and message_key = $2::uuid order by inbox.seq limit 1`,

    subscribe: `
insert into ${schema}.subscriptions (consumer, type) values ($1::text, $2::text) on conflict do nothing`,
    subscription: `select 1 as one from ${schema}.subscriptions where consumer = $1::text and type = $2::text`,

    failedList: `
select seq::text as seq, consumer, ${MESSAGE}, attempts, reason, error, ${MS('failed_at')} as failed_at
from ${schema}.failed, (values ($1::text, $2::text, $3::text, $4::bigint)) as f (consumer_, type_, reason_, before_)
where (f.consumer_ is null or consumer = f.consumer_) and (f.type_ is null or type = f.type_)
  and (f.reason_ is null or reason = f.reason_) and (f.before_ is null or failed.seq < f.before_)
order by failed.seq desc limit $5::integer`,
    failedGet: `
select seq::text as seq, consumer, ${MESSAGE}, attempts, reason, error, ${MS('failed_at')} as failed_at
from ${schema}.failed where seq = $1::bigint`,
    failedLock: `select seq::text as seq from ${schema}.failed where seq = $1::bigint for update`,
    copyToInbox: `
insert into ${schema}.inbox (consumer, message_key, source, id, type, key, attributes, data, fingerprint, available_at)
select consumer, message_key, source, id, type, key, attributes, data, fingerprint, clock_timestamp()
from ${schema}.failed where seq = $1::bigint`,
    deleteFailed: `delete from ${schema}.failed where seq = $1::bigint`,

    statusConsumers: `
select consumer, sum(receipts) as receipts, sum(waiting) as waiting, sum(retrying) as retrying, sum(failed) as failed
from (
  select consumer, count(*) as receipts, 0 as waiting, 0 as retrying, 0 as failed from ${schema}.receipts group by consumer
  union all
  select consumer, 0, count(*) filter (where attempts = 0), count(*) filter (where attempts > 0), 0
  from ${schema}.inbox group by consumer
  union all
  select consumer, 0, 0, 0, count(*) from ${schema}.failed group by consumer
) as counts
group by consumer order by consumer`,
    statusOutbox: `select count(*) as outbox, ${MS('min(created_at)')} as oldest from ${schema}.outbox`,
    trace: [
      `select 'receipt' as place, consumer, source, type, ${MS('taken_at')} as at from ${schema}.receipts where id = $1::text`,
      `
select 'inbox' as place, consumer, source, type, ${MS('created_at')} as at, attempts, ${MS('available_at')} as due_at, error
from ${schema}.inbox where id = $1::text`,
      `select 'outbox' as place, relay, source, type, ${MS('created_at')} as at from ${schema}.outbox where id = $1::text`,
      `
select 'failed' as place, seq::text as seq, consumer, source, type, ${MS('failed_at')} as at, attempts, reason, error
from ${schema}.failed where id = $1::text`,
    ],
  } as const
}
