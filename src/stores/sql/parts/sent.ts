import type { Row, Statement, StoreSent } from '../../../contracts/index.ts'
import { laneOf } from '../../../message/index.ts'
import { asSent } from '../operator-rows.ts'
import { asMessage, asSeq, asText } from '../values.ts'
import { change } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'
import { counted } from './step.ts'

/** Messages that were published and kept in an SQL database. */
export function sqlSent(parts: SqlParts): StoreSent {
  const { dialect } = parts
  return {
    list: async (filter) => (await rowsOf(parts, dialect.sent.list(filter))).map(asSent),
    seqs: async (where, after, limit) =>
      (await rowsOf(parts, dialect.sent.seqs(where, after, limit))).map((row) => asSeq(row['seq'])),
    // Made again, it is published once more under the same id, as any message of the outbox may be.
    republish: (seq, audit, step) => {
      const copied = (row: Row): readonly Statement[] => {
        const message = asMessage(row)
        const { source, id, type } = message
        return [
          dialect.sent.republish(seq, laneOf(message, true)),
          dialect.admin.audit(audit, { origin: 'outbox', consumer: asText(row['relay']), source, id, type }),
        ]
      }
      return change(parts, dialect.sent.get(seq), copied, undefined, counted(parts, step, seq))
    },
    purge: async (seqs) => {
      await parts.calls.assertFits()
      return seqs.length === 0 ? 0 : (await parts.calls.run(dialect.sent.delete(seqs))).affected
    },
  }
}
