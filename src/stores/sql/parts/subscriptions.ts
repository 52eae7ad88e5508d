import type { StoreSubscriptions } from '../../../contracts/index.ts'
import { asSubscription } from '../operator-rows.ts'
import { asBoolean } from '../values.ts'
import { change } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'

/** Which types the consumers of an SQL database handle. */
export function sqlSubscriptions(parts: SqlParts): StoreSubscriptions {
  const { calls, dialect } = parts
  return {
    add: async (consumer, types, ordered) => {
      for (const type of types) {
        const [row] = await rowsOf(parts, dialect.subscriptions.get(consumer, type))
        if (row !== undefined && (asBoolean(row['ordered']) || !ordered)) continue
        await calls.run(dialect.subscriptions.add(consumer, type, ordered))
      }
    },
    list: async () => (await rowsOf(parts, dialect.subscriptions.list)).map(asSubscription),
    remove: (consumer, audit) =>
      change(parts, dialect.subscriptions.lock(consumer), () => [
        dialect.subscriptions.remove(consumer),
        dialect.admin.audit(audit, { consumer }),
      ]),
  }
}
