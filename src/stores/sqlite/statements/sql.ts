import { errorHash } from '../../../base/index.ts'
import type {
  Executor,
  LocalResult,
  LocalRow,
  Param,
  Result,
  RetryRow,
  Row,
  Share,
  Statement,
} from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import { encodeText, laneOf, numberOf } from '../../../message/index.ts'
import { asBoolean, type Dialect, PROBE, pageOf } from '../../sql/index.ts'
import { answered, classify, doomOf } from '../errors.ts'
import { aside } from './aside.ts'
import { leases } from './leases.ts'
import { migrations } from './migrations.ts'
import { operator } from './operator.ts'
import { overview } from './overview.ts'
import { named, one } from './rows.ts'
import { type Statements, statements } from './statements.ts'

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
    doomOf,
    answered,

    probe: plain(probe),
    migrations: migrations(prefix),
    delimiter: undefined,
    // BEGIN IMMEDIATE is the lock.
    migrationLock: [],
    migrationPlace: [],
    migrationUnlock: [],
    migrationTable: plain(sql.migrationTable),
    migrationRows: plain(sql.migrationRows),
    migrationDone: (version, name, checksum) => ({ text: sql.migrationDone, params: [version, name, checksum] }),

    startChecks: [],
    settings: () => [],
    guardSet: [plain('savepoint hapax')],
    guardRelease: [plain('release savepoint hapax')],
    guardCheck: [plain('release savepoint hapax'), plain('savepoint hapax')],
    guardRollback: [plain('rollback to savepoint hapax')],

    take: (consumer, token, messages) => messages.map((message) => receipt(sql.take, consumer, token, message)),
    taken: (answers, _token, messages) => takenKeys(answers, messages),
    receipts: (consumer, keys) => ({ text: sql.receipts, params: [consumer, JSON.stringify(keys)] }),
    claim: (seqs) => ({ text: sql.claim, params: named(seqs) }),
    lockAll: (seqs) => ({ text: sql.lock, params: named(seqs) }),
    claimDeletes: true,
    blocked: (seqs) => ({ text: sql.blocked, params: [JSON.stringify(seqs.map(numberOf))] }),
    backend: () => undefined,
    terminate: () => plain('select 1'),
    fate: () => undefined,

    deleteInbox: (seqs) => seqs.map((seq) => ({ text: sql.deleteInbox, params: one(seq) })),
    insertInbox: (rows) => rows.map((row) => ({ text: sql.insertInbox, params: inboxValues(row) })),
    insertFailed: (rows) =>
      rows.map(({ consumer, message, ordered, attempts, reason, error }) => ({
        text: sql.insertFailed,
        params: [
          consumer,
          ...columns(message),
          attempts,
          reason,
          JSON.stringify(error),
          errorHash(error),
          ...place(message, ordered),
        ],
      })),
    enter: () => undefined,
    insertOutbox: (rows) =>
      rows.map(({ relay, message, delayMs }) => ({
        text: sql.insertOutbox,
        params: [relay, ...columns(message), delayMs, laneOf(message, true)],
      })),
    writeLocal: async (executor, rows, token) => {
      const results: LocalResult[] = []
      for (const row of rows) results.push(await deliver(sql, executor, row, token))
      return results
    },

    // One statement for each share: there is no round trip to save.
    look: async (query, shares) => {
      const rows: Row[] = []
      for (const [index, share] of shares.entries()) rows.push(...(await lookAt(sql, query, share, index)))
      return { rows, affected: rows.length }
    },
    reschedule: ({ seq, attempts, lost, delayMs, error, leaseToken }) => ({
      text: sql.reschedule,
      params: [attempts, lost, delayMs, JSON.stringify(error), ...one(seq), leaseToken],
    }),
    lockInbox: (seq, leaseToken) => ({ text: sql.lockInbox, params: [...one(seq), leaseToken] }),
    copyToFailed: ({ seq, attempts, reason, error, hold }) => ({
      text: sql.copyToFailed,
      params: [Number(hold), attempts, reason, JSON.stringify(error), errorHash(error), ...one(seq)],
    }),
    holdInbox: ({ seq, attempts, error }) => ({
      text: sql.holdInbox,
      params: [attempts, JSON.stringify(error), ...one(seq)],
    }),
    inboxSeq: (consumer, messageKey) => ({ text: sql.inboxSeq, params: [consumer, messageKey] }),

    outboxRows: (seqs) => ({ text: sql.outboxRows, params: named(seqs) }),
    lockFree: (seqs) => ({ text: sql.lockFree, params: named(seqs) }),
    outboxSeqs: (seqs) => ({ text: sql.outboxSeqs, params: named(seqs) }),
    copyToSent: (seqs) => ({ text: sql.copyToSent, params: named(seqs) }),
    deleteOutbox: (seqs) => ({ text: sql.deleteOutbox, params: named(seqs) }),
    deleteConfirmed: (seqs) => ({ text: sql.deleteConfirmed, params: named(seqs) }),
    postpone: (rows) =>
      rows.map(({ seq, delayMs, error }) => ({
        text: sql.postpone,
        params: [delayMs, JSON.stringify(error), ...one(seq)],
      })),
    lockOutbox: (seq) => ({ text: sql.lockOutbox, params: one(seq) }),
    keepNumber: (origin, seq) => ({ text: sql.keepNumber[origin], params: [...one(seq), ...one(seq)] }),
    refuseToFailed: ({ seq, reason, error, hold }) => ({
      text: sql.refuseToFailed,
      params: [Number(hold), reason, JSON.stringify(error), errorHash(error), ...one(seq)],
    }),
    holdOutbox: ({ seq, error }) => ({ text: sql.holdOutbox, params: [JSON.stringify(error), ...one(seq)] }),
    recordRelay: (name, destination) => ({ text: sql.recordRelay, params: [name, destination] }),
    relay: (name) => ({ text: sql.relay, params: [name] }),

    join: ({ id, name, ttlMs, serves }) => ({ text: sql.join, params: [id, ttlMs, name, serves] }),
    note: (id, inHand, alone, beat) => ({ text: beat ? sql.beat : sql.note, params: [inHand, Number(alone), id] }),
    workers: plain(sql.workers),
    lockDead: plain(sql.lockDead),
    suspect: (seqs) => ({ text: sql.suspect, params: named(seqs) }),
    crashed: (seqs) => ({ text: sql.crashed, params: named(seqs) }),
    leave: (ids) => ({ text: sql.leave, params: [JSON.stringify(ids)] }),

    subscribe: (consumer, type, ordered) => ({
      text: sql.subscribe,
      params: [consumer, encodeText(type), Number(ordered)],
    }),
    subscription: (consumer, type) => ({ text: sql.subscription, params: [consumer, encodeText(type)] }),

    aside: aside(prefix),
    leases: leases(prefix),
    operator: operator(prefix),
    overview: overview(prefix),
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

/** lane and ordered: a message without a key has no order to keep. */
function place(message: StoredMessage, ordered: boolean): readonly Param[] {
  return [laneOf(message, ordered), Number(ordered && message.key !== null)]
}

function inboxValues({ consumer, message, ordered, attempts, starts, delayMs, error }: RetryRow): readonly Param[] {
  const state = [attempts, starts, delayMs, error && JSON.stringify(error)]
  return [consumer, ...columns(message), ...state, ...place(message, ordered)]
}

/** Receipt and inbox row for each consumer that has no receipt yet. */
async function deliver(
  sql: Statements,
  executor: Executor,
  { message, consumers, delayMs }: LocalRow,
  token: string,
): Promise<LocalResult> {
  // By name: what JSON makes of an object leaves getters out.
  const known = consumers.map(({ name, ordered }) => ({ name, ordered }))
  const listening = await executor.query(sql.listening, [JSON.stringify(known), encodeText(message.type)])
  let fresh = 0
  for (const row of listening.rows) {
    const consumer = String(row['consumer'])
    const { text, params } = receipt(sql.take, consumer, token, message)
    if ((await executor.query(text, params)).affected === 0) continue
    fresh += 1
    const ordered = asBoolean(row['ordered'])
    const values = inboxValues({ consumer, message, ordered, attempts: 0, starts: 0, delayMs, error: null })
    await executor.query(sql.insertInbox, values)
  }
  return { consumers: listening.rows.length, fresh }
}

async function lookAt(
  sql: Statements,
  query: (statement: Statement) => Promise<Result>,
  share: Share,
  index: number,
): Promise<readonly Row[]> {
  const { table, scope, types, lanes, after, all = false } = share
  const page = pageOf(share)
  const from = lanes.map((lane) => ({ lane, after: encodeText(after.get(lane) ?? '') }))
  const which = [index, JSON.stringify(from), scope]
  const text = sql.look[table][all ? 'all' : 'front']
  const answer = await query({ text, params: [...which, page, JSON.stringify(types.map(encodeText))] })
  return answer.rows
}

const probe = `select '${PROBE.text}' as probe_text, ${PROBE.number} as probe_number, ${PROBE.time} as probe_time,
  x'${PROBE.bytes}' as probe_bytes, x'${PROBE.uuid.replaceAll('-', '')}' as probe_uuid, 1 as probe_true, 0 as probe_false,
  null as probe_null`
