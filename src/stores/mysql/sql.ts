import type { Result, Statement } from '../../core/connection.ts'
import type { StoredMessage } from '../../core/message.ts'
import { asUuid, type Dialect, uuidBytes } from '../../core/sql/index.ts'
import { chunks, inserts } from './batch.ts'
import { answered, classify } from './errors.ts'
import { writeLocal } from './local.ts'
import { migrations } from './migrations.ts'
import { bytes, columns, microseconds, receipt, text } from './rows.ts'
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
export function dialect(prefix: string): Dialect {
  const sql = statements(prefix)
  const lock: Dialect['lock'] = (seqs, locked, lockTimeoutMs, isolation) => {
    const skip = isolation === 'serializable' ? sql.lockSkipSerializable : sql.lockSkip
    return { text: (locked === 'skip' ? skip : sql.lockWait)(seqs.length, seconds(lockTimeoutMs)), params: seqs }
  }
  return {
    name: 'mysql',
    isolationLevels: ['read committed', 'repeatable read', 'serializable'],
    parallelWriters: true,
    ownTransactions: true,

    classify,
    answered,

    migrations: migrations(prefix),
    migrationLock: [{ text: sql.migrationLock, params: [prefix] }],
    migrationUnlock: [{ text: sql.migrationUnlock, params: [prefix] }],
    migrationTable: plain(sql.migrationTable),
    migrationRows: plain(sql.migrationRows),
    migrationDone: (version, name, checksum) => ({
      text: sql.migrationDone,
      params: [version, bytes(name), bytes(checksum)],
    }),

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
    claim: lock,
    claimDeletes: false,
    lock,
    backend: (answers) => backendOf(answers),
    // The link of this transaction is destroyed by the time this runs, and ids are not used again: it hits nobody else.
    terminate: ([pid]) => ({ text: sql.terminate, params: [Number(pid)] }),

    deleteInbox: (seqs) => chunks(seqs).map((part) => ({ text: sql.deleteInbox(part.length), params: part })),
    insertInbox: (rows) =>
      inserts(
        sql.insertInbox,
        rows.map(({ consumer, message, attempts, starts, delayMs, error }) => [
          bytes(consumer),
          ...columns(message),
          attempts,
          starts,
          microseconds(delayMs),
          error && bytes(JSON.stringify(error)),
        ]),
      ),
    insertFailed: (rows) =>
      inserts(
        sql.insertFailed,
        rows.map(({ consumer, message, attempts, reason, error }) => [
          bytes(consumer),
          ...columns(message),
          attempts,
          bytes(reason),
          bytes(JSON.stringify(error)),
        ]),
      ),
    insertOutbox: (rows) =>
      inserts(
        sql.insertOutbox,
        rows.map(({ relay, message, delayMs }) => [bytes(relay), ...columns(message), microseconds(delayMs)]),
      ),
    writeLocal: (executor, rows, token) => writeLocal(sql, executor, rows, token),

    due: async (_query, types, { limit, except, started: again, hideMs }, transaction) => {
      const rows: Result['rows'][number][] = []
      for (const [consumer, names] of types) {
        if (rows.length >= limit) break
        if (names.length === 0) continue
        const params = [bytes(consumer), ...names.map(text), ...except]
        const due = { text: sql.due(names.length, except.length, limit - rows.length, again), params }
        const answer = await transaction(due, (found) =>
          found.rows.length === 0 ? undefined : started(sql, found, microseconds(hideMs)),
        )
        rows.push(...answer.rows)
      }
      return { rows, affected: rows.length }
    },
    nextDue: (consumer, types) => ({
      text: sql.nextDue(types.length),
      params: [bytes(consumer), ...types.map(text)],
    }),
    inFlight: (consumer, types) => ({
      text: sql.inFlight(types.length),
      params: [bytes(consumer), ...types.map(text)],
    }),
    reschedule: ({ seq, attempts, lost, delayMs, error }) => ({
      text: sql.reschedule,
      params: [attempts, lost, microseconds(delayMs), bytes(JSON.stringify(error)), seq],
    }),
    copyToFailed: ({ seq, attempts, reason, error }) => ({
      text: sql.copyToFailed,
      params: [attempts, bytes(reason), bytes(JSON.stringify(error)), seq],
    }),
    inboxRow: (consumer, messageKey) => ({ text: sql.inboxRow, params: [bytes(consumer), uuidBytes(messageKey)] }),

    subscribe: (consumer, type) => ({ text: sql.subscribe, params: [text(type), bytes(consumer)] }),
    subscription: (consumer, type) => ({ text: sql.subscription, params: [text(type), bytes(consumer)] }),

    failedList: ({ consumer, type, reason, before, limit }) => ({
      text: sql.failedList(limit),
      params: [
        consumer === undefined ? null : bytes(consumer),
        type === undefined ? null : text(type),
        reason === undefined ? null : bytes(reason),
        before ?? null,
      ],
    }),
    failedGet: (seq) => ({ text: sql.failedGet, params: [seq] }),
    failedLock: (seq) => ({ text: sql.failedLock, params: [seq] }),
    copyToInbox: (seq) => ({ text: sql.copyToInbox, params: [seq] }),
    deleteFailed: (seq) => ({ text: sql.deleteFailed, params: [seq] }),

    statusConsumers: plain(sql.statusConsumers),
    statusOutbox: plain(sql.statusOutbox),
    trace: (id) => sql.trace.map((each) => ({ text: each, params: [text(id)] })),
  }
}

/** Sorted, because two groups inserting in different order deadlock. */
function sorted(messages: readonly StoredMessage[]): readonly StoredMessage[] {
  return messages.toSorted((a, b) => (a.messageKey < b.messageKey ? -1 : 1))
}

/** A receipt with our token is one that we wrote: a token is used for one transaction only. */
function takenKeys(answers: readonly Result[], token: string): ReadonlySet<string> {
  const rows = answers.flatMap((answer) => answer.rows)
  return new Set(rows.filter((row) => asUuid(row['token']) === token).map((row) => asUuid(row['message_key'])))
}

function backendOf(answers: readonly Result[]): readonly [number] | undefined {
  const row = answers.find((answer) => answer.rows.length > 0)?.rows[0]
  return row && [Number(row['pid'])]
}

function started(sql: ReturnType<typeof statements>, { rows }: Result, hideUs: number): readonly Statement[] {
  return [{ text: sql.started(rows.length), params: [hideUs, ...rows.map((row) => String(row['seq']))] }]
}
