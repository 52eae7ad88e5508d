import type { StoreKeys } from '../../../contracts/index.ts'
import { asHeldKey } from '../operator-rows.ts'
import { asSeq, asText } from '../values.ts'
import { change } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'
import { deleteHeld } from './failed.ts'

/** Keys of an SQL database that wait behind a message that failed for good. */
export function sqlKeys(parts: SqlParts): StoreKeys {
  const { dialect } = parts
  return {
    list: async (limit) => (await rowsOf(parts, dialect.admin.keys(limit))).map(asHeldKey),
    release: (origin, scope, key, audit) =>
      change(parts, dialect.held[origin].lock(scope, key), (row) => {
        const seq = asSeq(row['seq'])
        const [source, id, type] = [asText(row['source']), asText(row['id']), asText(row['type'])]
        return [
          ...(row['failed_seq'] == null ? [dialect.held[origin].toFailed(seq)] : []),
          dialect.failed.letGo(origin, seq),
          ...deleteHeld(parts.dialect, origin, seq),
          dialect.admin.audit(audit, { origin, consumer: scope, source, id, type }),
        ]
      }),
  }
}
