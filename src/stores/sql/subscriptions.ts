import type { StoreSubscriptions } from '../../contracts/index.ts'
import { change } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'
import { asSubscription } from './operator-rows.ts'
import { asBoolean } from './values.ts'

/** Which types the consumers of an SQL database handle. */
export function sqlSubscriptions(parts: SqlParts): StoreSubscriptions {
  const { calls, dialect } = parts
  const sql = dialect.operator
  return {
    add: async (consumer, types, ordered) => {
      for (const type of types) {
        const [row] = await rowsOf(parts, dialect.subscription(consumer, type))
        if (row !== undefined && (asBoolean(row['ordered']) || !ordered)) continue
        await calls.run(dialect.subscribe(consumer, type, ordered))
      }
    },
    list: async () => (await rowsOf(parts, sql.subscriptions)).map(asSubscription),
    remove: (consumer, audit) =>
      change(parts, sql.lockSubscriptions(consumer), () => [
        sql.unsubscribe(consumer),
        sql.auditOther(audit, { consumer }),
      ]),
  }
}
