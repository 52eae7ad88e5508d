import type { StoreKeys } from '../../contracts/index.ts'
import { change } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'
import { deleteHeld } from './failed.ts'
import { asHeldKey } from './operator-rows.ts'
import { asSeq, asText } from './values.ts'

/** Keys of an SQL database that wait behind a message that failed for good. */
export function sqlKeys(parts: SqlParts): StoreKeys {
  const sql = parts.dialect.operator
  return {
    list: async (limit) => (await rowsOf(parts, sql.heldKeys(limit))).map(asHeldKey),
    release: (origin, scope, key, audit) =>
      change(parts, sql.lockHeld(origin, scope, key), (row) => {
        const seq = asSeq(row['seq'])
        const [source, id, type] = [asText(row['source']), asText(row['id']), asText(row['type'])]
        return [
          ...(row['failed_seq'] == null ? [sql.heldToFailed(origin, seq)] : []),
          sql.failedLetGo(origin, seq),
          ...deleteHeld(parts.dialect, origin, seq),
          sql.auditOther(audit, { origin, consumer: scope, source, id, type }),
        ]
      }),
  }
}
