import type { Executor, Param, Result, Statement } from '../../core/connection.ts'
import type { StoredMessage } from '../../core/message.ts'
import { type Dialect, encodeText } from '../../core/sql/index.ts'
import type { LocalResult, LocalRow } from '../../core/store.ts'
import { answered, classify } from './errors.ts'
import { migrations, NOW } from './migrations.ts'

const NO_PARAMS: readonly [] = []
const plain = (text: string): Statement => ({ text, params: NO_PARAMS })

/** The statements of SQLite with one prefix. Rows are written one by one: there is no round trip to save. */
export function dialect(prefix: string): Dialect {
  const sql = statements(prefix)
  return {
    name: 'sqlite',
    // There is one writer at a time, so every level that can be asked for is kept.
    isolationLevels: ['serializable'],
    parallelWriters: false,
    ownTransactions: false,

    classify,
    answered,

    migrations: migrations(prefix),
    // BEGIN IMMEDIATE is the lock.
    migrationLock: [],
    migrationUnlock: [],
    migrationTable: plain(sql.migrationTable),
    migrationRows: plain(sql.migrationRows),
    migrationDone: (version, name, checksum) => ({ text: sql.migrationDone, params: [version, name, checksum] }),

    settings: () => [],
    guardSet: [plain('savepoint hapax')],
    guardRelease: [plain('release savepoint hapax')],
    guardCheck: [plain('release savepoint hapax'), plain('savepoint hapax')],
    guardRollback: [plain('rollback to savepoint hapax')],

    take: (consumer, token, messages) => messages.map((message) => receipt(sql.take, consumer, token, message)),
    taken: (answers, _token, messages) => takenKeys(answers, messages),
    receipts: (consumer, keys) => ({ text: sql.receipts, params: [consumer, JSON.stringify(keys)] }),
    claim: (seqs) => ({ text: sql.claim, params: [JSON.stringify(seqs)] }),
    claimDeletes: true,
    lock: (seqs) => ({ text: sql.lock, params: [JSON.stringify(seqs)] }),
    backend: () => undefined,
    terminate: () => plain('select 1'),

    deleteInbox: (seqs) => seqs.map((seq) => ({ text: sql.deleteInbox, params: [seq] })),
    insertInbox: (rows) =>
      rows.map(({ consumer, message, attempts, starts, delayMs, error }) => ({
        text: sql.insertInbox,
        params: [consumer, ...columns(message), attempts, starts, delayMs, error && JSON.stringify(error)],
      })),
    insertFailed: (rows) =>
      rows.map(({ consumer, message, attempts, reason, error }) => ({
        text: sql.insertFailed,
        params: [consumer, ...columns(message), attempts, reason, JSON.stringify(error)],
      })),
    insertOutbox: (rows) =>
      rows.map(({ relay, message, delayMs }) => ({
        text: sql.insertOutbox,
        params: [relay, ...columns(message), delayMs],
      })),
    writeLocal: async (executor, rows, token) => {
      const results: LocalResult[] = []
      for (const row of rows) results.push(await deliver(sql, executor, row, token))
      return results
    },

    due: async (query, types, { limit, except, started, hideMs }) => {
      const rows: Result['rows'][number][] = []
      for (const [consumer, names] of types) {
        if (rows.length >= limit) break
        const inHand = JSON.stringify(except)
        const which = [consumer, JSON.stringify(names.map(encodeText)), started ? 1 : 0, inHand]
        const params = [hideMs, ...which, limit - rows.length]
        rows.push(...(await query({ text: sql.due, params })).rows)
      }
      return { rows, affected: rows.length }
    },
    nextDue: (consumer, types) => ({ text: sql.nextDue, params: [consumer, JSON.stringify(types.map(encodeText))] }),
    inFlight: (consumer, types) => ({ text: sql.inFlight, params: [consumer, JSON.stringify(types.map(encodeText))] }),
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

function receipt(text: string, consumer: string, token: string, message: StoredMessage): Statement {
  const { messageKey, source, id, type, fingerprint } = message
  const params = [consumer, messageKey, token, fingerprint, encodeText(source), encodeText(id), encodeText(type)]
  return { text, params }
}

/** An insert that met a conflict has changed nothing. */
function takenKeys(answers: readonly Result[], messages: readonly StoredMessage[]): ReadonlySet<string> | 'all' {
  if (answers.every((answer) => answer.affected === 1)) return 'all'
  const keys = new Set<string>()
  for (let index = 0; index < messages.length; index++) {
    if (answers[index]?.affected === 1) keys.add((messages[index] as StoredMessage).messageKey)
  }
  return keys
}

/** message_key, source, id, type, key, attributes, data, fingerprint: eight parameters. */
function columns(message: StoredMessage): readonly Param[] {
  const { messageKey, source, id, type, key, attributes, data, fingerprint } = message
  const encodedKey = key === null ? null : encodeText(key)
  return [messageKey, encodeText(source), encodeText(id), encodeText(type), encodedKey, attributes, data, fingerprint]
}

/** Receipt and inbox row for each consumer that has no receipt yet. */
async function deliver(
  sql: ReturnType<typeof statements>,
  executor: Executor,
  { message, consumers, delayMs }: LocalRow,
  token: string,
): Promise<LocalResult> {
  const listening = await executor.query(sql.listening, [encodeText(message.type), JSON.stringify(consumers)])
  let fresh = 0
  for (const row of listening.rows) {
    const consumer = String(row['consumer'])
    const { text, params } = receipt(sql.take, consumer, token, message)
    if ((await executor.query(text, params)).affected === 0) continue
    fresh += 1
    await executor.query(sql.insertInbox, [consumer, ...columns(message), 0, 0, delayMs, null])
  }
  return { consumers: listening.rows.length, fresh }
}

const LATER = `cast(round(unixepoch('subsec') * 1000 + ?) as integer)`
const UUID = `unhex(?, '-')`
const MESSAGE = 'message_key, source, id, type, key, attributes, data, fingerprint'
const MESSAGE_VALUES = `${UUID}, ?, ?, ?, ?, ?, ?, unhex(?)`
const SEQ = 'cast(seq as text) as seq'
const INBOX = `${SEQ}, consumer, ${MESSAGE}, attempts, lost, starts`

/** Every statement, whole and by name. Parameters are scalars; a list is the text of a JSON array. */
function statements(prefix: string) {
  return {
    // Not NOW: the sqlite3 of an older system (before 3.42) has to be able to run the printed migrations.
    migrationTable: `
create table if not exists ${prefix}migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at integer not null default (cast(strftime('%s', 'now') as integer) * 1000)
) strict`,
    migrationRows: `select version, checksum from ${prefix}migrations`,
    migrationDone: `insert into ${prefix}migrations (version, name, checksum) values (?, ?, ?)`,

    take: `
insert into ${prefix}receipts (consumer, message_key, token, fingerprint, source, id, type)
values (?, ${UUID}, ${UUID}, unhex(?), ?, ?, ?)
on conflict (consumer, message_key) do nothing`,
    receipts: `
select message_key, token, source, id, type, fingerprint, taken_at from ${prefix}receipts
where consumer = ? and message_key in (select unhex(value, '-') from json_each(?))`,

    // The transaction holds the only write lock: what it reads is its own.
    lock: `
select ${SEQ} from ${prefix}inbox as i
where i.seq in (select cast(value as integer) from json_each(?)) order by i.seq`,

    claim: `
delete from ${prefix}inbox where seq in (select cast(value as integer) from json_each(?))
returning cast(seq as text) as seq`,
    deleteInbox: `delete from ${prefix}inbox where seq = ?`,
    insertInbox: `
insert into ${prefix}inbox (consumer, ${MESSAGE}, attempts, starts, available_at, error)
values (?, ${MESSAGE_VALUES}, ?, ?, ${LATER}, ?)`,
    insertFailed: `
insert into ${prefix}failed (consumer, ${MESSAGE}, attempts, reason, error)
values (?, ${MESSAGE_VALUES}, ?, ?, ?)
on conflict (consumer, message_key, fingerprint) do nothing`,
    insertOutbox: `
insert into ${prefix}outbox (relay, ${MESSAGE}, available_at)
values (?, ${MESSAGE_VALUES}, ${LATER})`,
    listening: `
select consumer from ${prefix}subscriptions where type = ?
union
select value from json_each(?)
order by 1`,

    due: `
update ${prefix}inbox set starts = starts + 1, available_at = ${LATER}
where seq in (
  select seq from ${prefix}inbox
  where consumer = ? and type in (select value from json_each(?)) and available_at <= ${NOW}
    and (starts > 0) = ? and seq not in (select cast(value as integer) from json_each(?))
  order by available_at, seq limit ?)
returning ${INBOX}`,
    nextDue: `
select available_at - ${NOW} as ms from ${prefix}inbox
where consumer = ? and type in (select value from json_each(?))
order by available_at limit 1`,
    inFlight: `
select 1 as one from ${prefix}inbox
where consumer = ? and type in (select value from json_each(?)) and starts > 0 limit 1`,
    reschedule: `
update ${prefix}inbox set attempts = ?, lost = ?, starts = 0, available_at = ${LATER}, error = ? where seq = ?`,
    copyToFailed: `
insert into ${prefix}failed (consumer, ${MESSAGE}, attempts, reason, error)
select consumer, ${MESSAGE}, ?, ?, ? from ${prefix}inbox where seq = ?
on conflict (consumer, message_key, fingerprint) do nothing`,
    inboxRow: `
select ${INBOX} from ${prefix}inbox as i where consumer = ? and message_key = ${UUID} order by i.seq limit 1`,

    subscribe: `insert into ${prefix}subscriptions (consumer, type) values (?, ?) on conflict do nothing`,
    subscription: `select 1 as one from ${prefix}subscriptions where consumer = ? and type = ?`,

    failedList: `
with f (consumer_, type_, reason_, before_) as (values (?, ?, ?, cast(? as integer)))
select ${SEQ}, consumer, ${MESSAGE}, attempts, reason, error, failed_at
from ${prefix}failed as m, f
where (f.consumer_ is null or consumer = f.consumer_) and (f.type_ is null or type = f.type_)
  and (f.reason_ is null or reason = f.reason_) and (f.before_ is null or m.seq < f.before_)
order by m.seq desc limit ?`,
    failedGet: `
select ${SEQ}, consumer, ${MESSAGE}, attempts, reason, error, failed_at from ${prefix}failed where seq = ?`,
    failedLock: `select ${SEQ} from ${prefix}failed where seq = ?`,
    copyToInbox: `
insert into ${prefix}inbox (consumer, ${MESSAGE}, available_at)
select consumer, ${MESSAGE}, ${NOW} from ${prefix}failed where seq = ?`,
    deleteFailed: `delete from ${prefix}failed where seq = ?`,

    statusConsumers: `
select consumer, sum(receipts) as receipts, sum(waiting) as waiting, sum(retrying) as retrying, sum(failed) as failed
from (
  select consumer, count(*) as receipts, 0 as waiting, 0 as retrying, 0 as failed from ${prefix}receipts group by consumer
  union all
  select consumer, 0, count(*) filter (where attempts = 0), count(*) filter (where attempts > 0), 0
  from ${prefix}inbox group by consumer
  union all
  select consumer, 0, 0, 0, count(*) from ${prefix}failed group by consumer
)
group by consumer order by consumer`,
    statusOutbox: `select count(*) as outbox, min(created_at) as oldest from ${prefix}outbox`,
    trace: [
      `select 'receipt' as place, consumer, source, type, taken_at as at from ${prefix}receipts where id = ?`,
      `
select 'inbox' as place, consumer, source, type, created_at as at, attempts, available_at as due_at, error
from ${prefix}inbox where id = ?`,
      `select 'outbox' as place, relay, source, type, created_at as at from ${prefix}outbox where id = ?`,
      `
select 'failed' as place, ${SEQ}, consumer, source, type, failed_at as at, attempts, reason, error
from ${prefix}failed where id = ?`,
    ],
  } as const
}
