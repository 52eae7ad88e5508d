import type { Result, Statement } from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import { laneOf, numberOf } from '../../../message/index.ts'
import { asText, asUuid, type Dialect, PROBE, uuidBytes } from '../../sql/index.ts'
import { answered, classify, doomOf } from '../errors.ts'
import { aside } from './aside.ts'
import { chunks, inserts } from './batch.ts'
import { checks } from './checkup.ts'
import { MS } from './fragments.ts'
import { leases } from './leases.ts'
import { writeLocal } from './local.ts'
import { look } from './look.ts'
import { migrations } from './migrations.ts'
import { operator } from './operator.ts'
import { overview } from './overview.ts'
import { bytes, columns, errorColumns, inboxRow, list, microseconds, named, one, place, receipt, text } from './rows.ts'
import { LOCK_WAIT_RESET, lockWaitSet, seconds, statements } from './statements.ts'

const NO_PARAMS: readonly [] = []
const plain = (text: string): Statement => ({ text, params: NO_PARAMS })

/**
 * The statements of MariaDB and MySQL with one prefix, each valid on both. Every text goes as bytes, so that neither the
 * character set of the connection nor an SQL mode such as NO_BACKSLASH_ESCAPES can change it.
 *
 * `idleTimeoutMs` is not kept: both servers know it only as a setting of the session (`idle_transaction_timeout`,
 * `wait_timeout`), which would cost round trips and stay behind in the user's pool.
 */
export function dialect(database: string, prefix: string): Dialect {
  // With the database, because a handler may say USE: its receipt would be written elsewhere.
  const tables = `\`${database}\`.${prefix}`
  const sql = statements(tables)
  return {
    name: 'mysql',
    isolationLevels: ['read committed', 'repeatable read', 'serializable'],
    parallelWriters: true,
    ownTransactions: true,

    classify,
    doomOf,
    answered,

    probe: plain(probe),
    migrations: migrations(prefix),
    delimiter: '//',
    // The steps name no database, so that a copy under another name has the same checksums.
    migrationLock: [plain(`use \`${database}\``), { text: sql.migrationLock, params: [prefix] }],
    migrationPlace: [],
    migrationUnlock: [{ text: sql.migrationUnlock, params: [prefix] }],
    migrationTable: plain(sql.migrationTable),
    migrationRows: plain(sql.migrationRows),
    migrationDone: (version, name, checksum) => ({
      text: sql.migrationDone,
      params: [version, bytes(name), bytes(checksum)],
    }),

    startChecks: [],
    settings: () => [],
    guardSet: [plain('savepoint hapax')],
    guardRelease: [plain('release savepoint hapax')],
    guardCheck: [plain('release savepoint hapax'), plain('savepoint hapax')],
    guardRollback: [plain('rollback to savepoint hapax')],

    take: (consumer, token, messages, lockTimeoutMs) => [
      plain(lockWaitSet(lockTimeoutMs)),
      ...inserts(
        sql.take(seconds(lockTimeoutMs)),
        sorted(messages).map((message) => receipt(consumer, token, message)),
      ),
      ...chunks(messages).map((part) => ({
        text: sql.taken(part.length),
        params: [bytes(consumer), ...part.map((message) => uuidBytes(message.messageKey))],
      })),
      plain(LOCK_WAIT_RESET),
    ],
    taken: (answers, token) => takenKeys(answers, token),
    receipts: (consumer, keys) => ({
      text: sql.receipts(keys.length),
      params: [bytes(consumer), ...keys.map(uuidBytes)],
    }),
    claim: (seqs, isolation) => ({
      text: isolation === 'serializable' ? sql.claimSerializable : sql.claim,
      params: [named(seqs)],
    }),
    lockAll: (seqs, lockTimeoutMs) => ({ text: sql.lockAll(seconds(lockTimeoutMs)), params: [named(seqs)] }),
    claimDeletes: false,
    blocked: (seqs) => ({ text: sql.blocked(seqs.length), params: [...seqs, ...seqs].map(numberOf) }),
    backend: (answers) => backendOf(answers),
    terminate: ([link]) => ({ text: sql.terminate, params: [String(link)] }),
    fate: () => undefined,

    deleteInbox: (seqs) => chunks(seqs).map((part) => ({ text: sql.deleteInbox, params: [named(part)] })),
    insertInbox: (rows) => inserts(sql.insertInbox, rows.map(inboxRow)),
    insertFailed: (rows) =>
      inserts(
        sql.insertFailed,
        rows.map(({ consumer, message, ordered, attempts, reason, error }) => [
          bytes(consumer),
          ...columns(message),
          attempts,
          bytes(reason),
          ...errorColumns(error),
          ...place(message, ordered),
        ]),
      ),
    enter: () => undefined,
    insertOutbox: (rows) =>
      inserts(
        sql.insertOutbox,
        rows.map(({ relay, message, delayMs }) => [
          bytes(relay),
          ...columns(message),
          microseconds(delayMs),
          laneOf(message, true),
        ]),
      ),
    writeLocal: (executor, rows, token) => writeLocal(sql, executor, rows, token),

    look: (query, shares) => look(sql, query, shares),
    reschedule: ({ seq, attempts, lost, delayMs, error, leaseToken }) => ({
      text: sql.reschedule,
      params: [
        attempts,
        lost,
        microseconds(delayMs),
        bytes(JSON.stringify(error)),
        ...one(seq),
        leaseToken && uuidBytes(leaseToken),
      ],
    }),
    lockInbox: (seq, leaseToken) => ({
      text: sql.lockInbox,
      params: [...one(seq), leaseToken && uuidBytes(leaseToken)],
    }),
    copyToFailed: ({ seq, attempts, reason, error, hold }) => ({
      text: sql.copyToFailed,
      params: [Number(hold), attempts, bytes(reason), ...errorColumns(error), ...one(seq)],
    }),
    holdInbox: ({ seq, attempts, error }) => ({
      text: sql.holdInbox,
      params: [attempts, bytes(JSON.stringify(error)), ...one(seq)],
    }),
    inboxSeq: (consumer, messageKey) => ({ text: sql.inboxSeq, params: [bytes(consumer), uuidBytes(messageKey)] }),

    outboxRows: (seqs) => ({ text: sql.outboxRows, params: [named(seqs)] }),
    lockFree: (seqs) => ({ text: sql.lockFree, params: [named(seqs)] }),
    outboxSeqs: (seqs) => ({ text: sql.outboxSeqs, params: [named(seqs)] }),
    copyToSent: (seqs) => ({ text: sql.copyToSent, params: [named(seqs)] }),
    deleteOutbox: (seqs) => ({ text: sql.deleteOutbox, params: [named(seqs)] }),
    deleteConfirmed: (seqs) => ({ text: sql.deleteConfirmed, params: [named(seqs)] }),
    postpone: (rows) =>
      rows.map(({ seq, delayMs, error }) => ({
        text: sql.postpone,
        params: [microseconds(delayMs), bytes(JSON.stringify(error)), ...one(seq)],
      })),
    lockOutbox: (seq) => ({ text: sql.lockOutbox, params: one(seq) }),
    keepNumber: (origin, seq) => ({ text: sql.keepNumber[origin], params: one(seq) }),
    refuseToFailed: ({ seq, reason, error, hold }) => ({
      text: sql.refuseToFailed,
      params: [Number(hold), bytes(reason), ...errorColumns(error), ...one(seq)],
    }),
    holdOutbox: ({ seq, error }) => ({ text: sql.holdOutbox, params: [bytes(JSON.stringify(error)), ...one(seq)] }),
    recordRelay: (name, destination) => ({ text: sql.recordRelay, params: [bytes(name), text(destination)] }),
    relay: (name) => ({ text: sql.relay, params: [bytes(name)] }),

    join: ({ id, name, ttlMs, serves }) => ({ text: sql.join, params: [bytes(id), ttlMs, text(name), text(serves)] }),
    note: (id, inHand, alone) => ({ text: sql.note, params: [bytes(inHand), Number(alone), bytes(id)] }),
    workers: plain(sql.workers),
    lockDead: plain(sql.lockDead),
    suspect: (seqs) => ({ text: sql.suspect, params: [named(seqs)] }),
    crashed: (seqs) => ({ text: sql.crashed, params: [named(seqs)] }),
    leave: (ids) => ({ text: sql.leave, params: [list(ids.map(bytes))] }),

    subscribe: (consumer, type, ordered) => ({
      text: sql.subscribe,
      params: [text(type), bytes(consumer), Number(ordered)],
    }),
    subscription: (consumer, type) => ({ text: sql.subscription, params: [text(type), bytes(consumer)] }),

    aside: aside(tables),
    leases: leases(tables),
    operator: operator(tables, checks(database, prefix)),
    overview: overview(tables),
  }
}

const probe = `select x'${Buffer.from(PROBE.text).toString('hex')}' as probe_text,
  cast(${PROBE.number} as signed) as probe_number,
  ${MS(`timestamp'${new Date(PROBE.time).toISOString().replace('T', ' ').replace('Z', '')}'`)} as probe_time,
  x'${PROBE.bytes}' as probe_bytes, x'${PROBE.uuid.replaceAll('-', '')}' as probe_uuid, 1 = 1 as probe_true,
  1 = 0 as probe_false, null as probe_null`

/** Sorted, because two groups inserting in different order deadlock. */
function sorted(messages: readonly StoredMessage[]): readonly StoredMessage[] {
  return messages.toSorted((a, b) => (a.messageKey < b.messageKey ? -1 : 1))
}

/** A receipt with our token is one that we wrote: a token is used for one transaction only. */
function takenKeys(answers: readonly Result[], token: string): ReadonlySet<string> {
  const rows = answers.flatMap((answer) => answer.rows)
  return new Set(rows.filter((row) => asUuid(row['token']) === token).map((row) => asUuid(row['message_key'])))
}

function backendOf(answers: readonly Result[]): readonly [string] | undefined {
  const link = answers.find((answer) => answer.rows.length > 0)?.rows[0]?.['link']
  return link == null ? undefined : [asText(link)]
}
