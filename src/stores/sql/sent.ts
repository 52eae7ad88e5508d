import type { StoreSent } from '../../contracts/index.ts'
import { laneOf } from '../../message/index.ts'
import { change } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'
import { asSent } from './operator-rows.ts'
import { asMessage, asSeq, asText } from './values.ts'

/** Messages that were published and kept in an SQL database. */
export function sqlSent(parts: SqlParts): StoreSent {
  const sql = parts.dialect.operator
  return {
    list: async (filter) => (await rowsOf(parts, sql.sentList(filter))).map(asSent),
    seqs: async (where, after, limit) =>
      (await rowsOf(parts, sql.sentSeqs(where, after, limit))).map((row) => asSeq(row['seq'])),
    // Made again, it is published once more under the same id, as any message of the outbox may be.
    republish: (seq, audit) =>
      change(parts, sql.sentGet(seq), (row) => {
        const message = asMessage(row)
        const { source, id, type } = message
        return [
          sql.republish(seq, laneOf(message, true)),
          sql.auditOther(audit, { origin: 'outbox', consumer: asText(row['relay']), source, id, type }),
        ]
      }),
  }
}
