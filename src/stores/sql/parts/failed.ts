// Changes by hand to failed messages. Each is one short transaction that locks the failed row first: of two people who decide about a
// message at the same time, the second one finds that it is gone, and is told so.

import { HapaxError } from '../../../base/index.ts'
import type { Audit, FailedMessage, Origin, Row, Statement, StoreFailed } from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import type { Dialect } from '../dialect/dialect.ts'
import { asFailed, asGroup, asLocked } from '../operator-rows.ts'
import { asSeq } from '../values.ts'
import { change } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'
import { counted } from './step.ts'

/** The failed store in an SQL database. */
export function sqlFailed(parts: SqlParts): StoreFailed {
  const { dialect } = parts
  const get = async (seq: string): Promise<FailedMessage | undefined> => {
    const [row] = await rowsOf(parts, dialect.failed.get(seq))
    return row && asFailed(row)
  }
  return {
    list: async (filter) => (await rowsOf(parts, dialect.failed.list(filter))).map(asFailed),
    count: async (where) => Number((await rowsOf(parts, dialect.failed.count(where)))[0]?.['count'] ?? 0),
    groups: async (where, limit) => (await rowsOf(parts, dialect.failed.groups(where, limit))).map(asGroup),
    seqs: async (where, after, limit) =>
      (await rowsOf(parts, dialect.failed.seqs(where, after, limit))).map((row) => asSeq(row['seq'])),
    get,
    retry: (seq, audit, step) => {
      const back = (row: Row): readonly Statement[] => {
        const { origin, held } = asLocked(row)
        return [
          held === null ? dialect.held[origin].back(seq) : dialect.held[origin].unhold(held, seq),
          dialect.admin.auditFailed(seq, audit),
          dialect.failed.delete(seq),
        ]
      }
      return change(parts, dialect.failed.lock(seq, false), back, undefined, counted(parts, step, seq))
    },
    edit: async (seq, message, audit) => {
      const failed = await get(seq)
      if (failed === undefined) return false
      if (failed.origin === 'inbox') await assertNew(parts, failed.consumer, message)
      return change(
        parts,
        dialect.failed.lock(seq, false),
        (row) => edit(parts, seq, message, audit, row),
        async () => (await get(seq))?.replacedBy === message.id,
      )
    },
    discard: (seq, audit, step) => {
      const away = (row: Row): readonly Statement[] => {
        const { origin, held } = asLocked(row)
        return [
          ...(held === null ? [] : deleteHeld(parts.dialect, origin, held)),
          dialect.admin.auditFailed(seq, audit),
          dialect.failed.delete(seq),
        ]
      }
      return change(parts, dialect.failed.lock(seq, true), away, undefined, counted(parts, step, seq))
    },
  }
}

/** The receipt's key decides at last; this is for a clear word in time. */
async function assertNew(parts: SqlParts, consumer: string, { messageKey, id }: StoredMessage): Promise<void> {
  const taken = await rowsOf(parts, parts.dialect.receipts.read(consumer, [messageKey]))
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
  const { origin, consumer, held } = asLocked(row)
  const place =
    held === null ? dialect.held[origin].backEdited(seq, message) : dialect.held[origin].replace(held, message)
  const receipt = origin === 'inbox' ? [dialect.receipts.insert(consumer, random.token(), message)] : []
  return [...receipt, place, dialect.admin.auditFailed(seq, audit), dialect.failed.replaced(seq, message.id)]
}

/** Deletes a row that holds its key; what stands aside behind it is looked at from now on. */
export function deleteHeld(dialect: Dialect, origin: Origin, seq: string): readonly Statement[] {
  return [dialect.aside[origin].forwardBehind([seq]), dialect.held[origin].delete(seq)]
}
