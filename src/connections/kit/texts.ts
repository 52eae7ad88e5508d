// Observes the statements that an ORM sends through a `pg` or `mysql2` client: they bypass hapax, but not the driver.

import { fieldOf } from '../../base/index.ts'
import type { SqlDatabase } from '../../contracts/index.ts'
import { mysqlSent, Reaching, reachOf, SAVEPOINTS } from '../../stores/sql/index.ts'

const seen = new WeakMap<object, Reaching>()

/** Tracks the reach of the statements sent through a client from now on. Undefined: the client's statements cannot be observed. */
export function seenThrough(database: SqlDatabase, client: object): Reaching | undefined {
  if (database === 'mysql') return mysqlSent(client)?.reaching
  return database === 'postgres' ? seenOnPostgres(client) : undefined
}

/** For as long as the client lives: nothing of it stays behind in the pool's next one. */
function seenOnPostgres(client: object): Reaching | undefined {
  const known = seen.get(client)
  if (known !== undefined) return known
  const query: unknown = Reflect.get(client, 'query')
  if (typeof query !== 'function') return undefined
  const reaching = new Reaching()
  Reflect.set(client, 'query', function (this: unknown, ...args: unknown[]) {
    reaching.add(reachOf(fieldOf(args[0], 'text') ?? args[0], SAVEPOINTS))
    return query.apply(this, args)
  })
  seen.set(client, reaching)
  return reaching
}
