import { errorHash } from '../../../base/index.ts'
import type { Result, Statement } from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import { encodeText, laneOf, numberOf } from '../../../message/index.ts'
import { asNumber, asText, asTextOrNull, type Dialect, errorJson, PROBE } from '../../sql/index.ts'
import { answered, classify, doomOf } from '../errors.ts'
import { array } from '../literal.ts'
import { aside } from './aside.ts'
import { encodingCheck } from './checkup.ts'
import { MS } from './fragments.ts'
import { leases } from './leases.ts'
import { local } from './local.ts'
import { look } from './look.ts'
import { migrations } from './migrations.ts'
import { operator } from './operator.ts'
import { overview } from './overview.ts'
import { inOrder, messageArrays, named, one } from './rows.ts'
import { statements } from './statements.ts'

const NO_PARAMS: readonly [] = []
const plain = (text: string): Statement => ({ text, params: NO_PARAMS })

/** The statements of PostgreSQL in one schema. */
export function dialect(schema: string): Dialect {
  const sql = statements(schema)
  const waiting = look(schema)
  return {
    name: 'postgres',
    isolationLevels: ['read committed', 'repeatable read', 'serializable'],
    parallelWriters: true,
    ownTransactions: true,

    classify,
    doomOf,
    answered,

    probe: plain(probe),
    migrations: migrations(schema),
    delimiter: undefined,
    migrationLock: [
      plain(`set local lock_timeout = '60s'`),
      { text: 'select pg_advisory_xact_lock(hashtextextended($1::text, 0))', params: [`hapax migrate ${schema}`] },
    ],
    migrationPlace: [
      // With `if not exists` it would need the right to make schemas also where there is one.
      plain(`do $$ begin if to_regnamespace('${schema}') is null then create schema ${schema}; end if; end $$`),
    ],
    migrationUnlock: [],
    migrationTable: plain(sql.migrationTable),
    migrationRows: plain(sql.migrationRows),
    migrationDone: (version, name, checksum) => ({ text: sql.migrationDone, params: [version, name, checksum] }),

    startChecks: [encodingCheck],
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
    claim: (seqs) => ({ text: sql.claim, params: named(seqs) }),
    lockAll: (seqs) => ({ text: sql.lockAll, params: named(seqs) }),
    claimDeletes: true,
    blocked: (seqs) => ({ text: sql.blocked, params: [array(seqs.map(numberOf)), array(seqs.map(numberOf))] }),
    backend: (answers) => backendOf(answers.find((answer) => answer.rows.length > 0)),
    terminate: ([pid, xid]) => ({ text: sql.terminate, params: [Number(pid), String(xid)] }),
    fate: ([, xid]) => ({ text: sql.fate, params: [String(xid)] }),

    deleteInbox: (seqs) => [{ text: sql.deleteInbox, params: named(seqs) }],
    insertInbox: (rows) => [
      {
        text: sql.insertInbox,
        params: [
          array(rows.map((row) => row.consumer)),
          ...messageArrays(rows.map((row) => row.message)),
          array(rows.map((row) => row.attempts)),
          array(rows.map((row) => row.starts)),
          array(rows.map((row) => row.delayMs)),
          array(rows.map((row) => (row.error === null ? '' : errorJson(row.error)))),
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
          array(rows.map((row) => errorJson(row.error))),
          array(rows.map((row) => errorHash(row.error))),
          array(rows.map((row) => laneOf(row.message, row.ordered))),
          array(rows.map((row) => String(inOrder(row)))),
        ],
      },
    ],
    enter: (entered) => ({ text: sql.enter, params: [entered] }),
    insertOutbox: (rows, entered = '') => [
      {
        text: sql.insertOutbox,
        params: [
          array(rows.map((row) => row.relay)),
          ...messageArrays(rows.map((row) => row.message)),
          array(rows.map((row) => row.delayMs)),
          array(rows.map((row) => laneOf(row.message, true))),
          entered,
        ],
      },
    ],
    writeLocal: local(schema),

    look: (query, shares) => query(waiting(shares)),
    reschedule: ({ seq, attempts, lost, delayMs, error, leaseToken }) => ({
      text: sql.reschedule,
      params: [attempts, lost, delayMs, errorJson(error), ...one(seq), leaseToken],
    }),
    lockInbox: (seq, leaseToken) => ({ text: sql.lockInbox, params: [...one(seq), leaseToken] }),
    copyToFailed: ({ seq, attempts, reason, error, hold }) => ({
      text: sql.copyToFailed,
      params: [String(hold), attempts, reason, errorJson(error), errorHash(error), ...one(seq)],
    }),
    holdInbox: ({ seq, attempts, error }) => ({
      text: sql.holdInbox,
      params: [attempts, errorJson(error), ...one(seq)],
    }),
    inboxSeq: (consumer, messageKey) => ({ text: sql.inboxSeq, params: [consumer, messageKey] }),

    outboxRows: (seqs) => ({ text: sql.outboxRows, params: named(seqs) }),
    lockFree: (seqs) => ({ text: sql.lockFree, params: named(seqs) }),
    outboxSeqs: (seqs) => ({ text: sql.outboxSeqs, params: named(seqs) }),
    copyToSent: (seqs) => ({ text: sql.copyToSent, params: named(seqs) }),
    deleteOutbox: (seqs) => ({ text: sql.deleteOutbox, params: named(seqs) }),
    deleteConfirmed: (seqs) => ({ text: sql.deleteConfirmed, params: named(seqs) }),
    postpone: (rows) => [
      {
        text: sql.postpone,
        params: [
          ...named(rows.map((row) => row.seq)),
          array(rows.map((row) => row.delayMs)),
          array(rows.map((row) => errorJson(row.error))),
        ],
      },
    ],
    lockOutbox: (seq) => ({ text: sql.lockOutbox, params: one(seq) }),
    keepNumber: (origin, seq) => ({ text: sql.keepNumber[origin], params: one(seq) }),
    refuseToFailed: ({ seq, reason, error, hold }) => ({
      text: sql.refuseToFailed,
      params: [String(hold), reason, errorJson(error), errorHash(error), ...one(seq)],
    }),
    holdOutbox: ({ seq, error }) => ({ text: sql.holdOutbox, params: [errorJson(error), ...one(seq)] }),
    recordRelay: (name, destination) => ({ text: sql.recordRelay, params: [name, destination] }),
    relay: (name) => ({ text: sql.relay, params: [name] }),

    join: ({ id, name, ttlMs, serves }) => ({ text: sql.join, params: [id, ttlMs, name, serves] }),
    note: (id, inHand, alone, beat) => ({ text: beat ? sql.beat : sql.note, params: [inHand, String(alone), id] }),
    workers: plain(sql.workers),
    lockDead: plain(sql.lockDead),
    suspect: (seqs) => ({ text: sql.suspect, params: named(seqs) }),
    crashed: (seqs) => ({ text: sql.crashed, params: named(seqs) }),
    leave: (ids) => ({ text: sql.leave, params: [array(ids)] }),

    subscribe: (consumer, type, ordered) => ({
      text: sql.subscribe,
      params: [consumer, encodeText(type), String(ordered)],
    }),
    subscription: (consumer, type) => ({ text: sql.subscription, params: [consumer, encodeText(type)] }),

    aside: aside(schema),
    leases: leases(schema),
    operator: operator(schema),
    overview: overview(schema),
  }
}

const probe = `select '${PROBE.text}'::text as probe_text, ${PROBE.number}::bigint as probe_number,
  ${MS(`timestamptz '${new Date(PROBE.time).toISOString()}'`)} as probe_time, decode('${PROBE.bytes}', 'hex') as probe_bytes,
  '${PROBE.uuid}'::text as probe_uuid, true as probe_true, false as probe_false, null::text as probe_null`

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
  const row = answer?.rows[0]
  const keys = row === undefined ? null : asTextOrNull(row['message_key'])
  if (keys === 'all' || (count === 1 && keys !== null)) return 'all'
  return new Set(keys === null ? [] : keys.split(','))
}

function backendOf(answer: Result | undefined): readonly [number, string] | undefined {
  const row = answer?.rows[0]
  return row && [asNumber(row['pid']), asText(row['xid'])]
}
