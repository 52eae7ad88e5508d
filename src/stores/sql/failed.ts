import { HapaxError } from '../../base/index.ts'
import type { Audit, FailedMessage, Origin, Row, Statement, StoreFailed } from '../../contracts/index.ts'
import type { StoredMessage } from '../../message/index.ts'
import { change } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'
import type { Dialect } from './dialect/dialect.ts'
import { asFailed, asGroup, asLocked } from './operator-rows.ts'
import { asSeq } from './values.ts'

/** The failed store in an SQL database. */
export function sqlFailed(parts: SqlParts): StoreFailed {
  const sql = parts.dialect.operator
  const get = async (seq: string): Promise<FailedMessage | undefined> => {
    const [row] = await rowsOf(parts, sql.failedGet(seq))
    return row && asFailed(row)
  }
  return {
    list: async (filter) => (await rowsOf(parts, sql.failedList(filter))).map(asFailed),
    count: async (where) => Number((await rowsOf(parts, sql.failedCount(where)))[0]?.['count'] ?? 0),
    groups: async (where, limit) => (await rowsOf(parts, sql.failedGroups(where, limit))).map(asGroup),
    seqs: async (where, after, limit) =>
      (await rowsOf(parts, sql.failedSeqs(where, after, limit))).map((row) => asSeq(row['seq'])),
    get,
    retry: (seq, audit) =>
      change(parts, sql.failedLock(seq, false), (row) => {
        const { origin, held } = asLocked(row)
        return [
          held === null ? sql.copyBack(seq, origin) : sql.unhold(origin, held, seq),
          sql.auditFailed(seq, audit),
          sql.deleteFailed(seq),
        ]
      }),
    edit: async (seq, message, audit) => {
      const failed = await get(seq)
      if (failed === undefined) return false
      if (failed.origin === 'inbox') await assertNew(parts, failed.consumer, message)
      return change(
        parts,
        sql.failedLock(seq, false),
        (row) => edit(parts, seq, message, audit, row),
        async () => (await get(seq))?.replacedBy === message.id,
      )
    },
    discard: (seq, audit) =>
      change(parts, sql.failedLock(seq, true), (row) => {
        const { origin, held } = asLocked(row)
        return [
          ...(held === null ? [] : deleteHeld(parts.dialect, origin, held)),
          sql.auditFailed(seq, audit),
          sql.deleteFailed(seq),
        ]
      }),
  }
}

/** The receipt's key decides at last; this is for a clear word in time. */
async function assertNew(parts: SqlParts, consumer: string, { messageKey, id }: StoredMessage): Promise<void> {
  const taken = await rowsOf(parts, parts.dialect.receipts(consumer, [messageKey]))
  if (taken.length === 0) return
  throw new HapaxError('conflict', `expected a new id, but ${consumer} has taken a message with the id ${id}`, {
    fields: { consumer, id },
  })
}

function edit(
  { dialect, random }: SqlParts,
  seq: string,
  message: StoredMessage,
  audit: Audit,
  row: Row,
): readonly Statement[] {
  const sql = dialect.operator
  const { origin, consumer, held } = asLocked(row)
  const place = held === null ? sql.copyEdited(seq, origin, message) : sql.replaceHeld(origin, held, message)
  const receipt = origin === 'inbox' ? [sql.insertReceipt(consumer, random.token(), message)] : []
  return [...receipt, place, sql.auditFailed(seq, audit), sql.failedReplaced(seq, message.id)]
}

/** Deletes a row that holds its key; what stands aside behind it is looked at from now on. */
export function deleteHeld({ aside, operator }: Dialect, origin: Origin, seq: string): readonly Statement[] {
  return [aside.forwardBehind(origin, [seq]), operator.deleteHeld(origin, seq)]
}
