// Drizzle on the drivers of SQLite. hapax begins and ends the transaction on the driver; Drizzle only makes its own handle for it. That of
// better-sqlite3 cannot wait for a handler, and Drizzle's own transactions there are those of the driver.

import { expected, fieldOf } from '../../base/index.ts'
import type { Connection } from '../../contracts/index.ts'
import { SyncConnection } from '../../stores/sql/index.ts'
import { BetterDriver, type BetterSqlite3Database, isBetterSqlite3, reopening } from './better-sqlite3.ts'
import { lent } from './handle.ts'
import { isClient, type LibsqlClient, LibsqlConnection, type LibsqlTransaction } from './libsql.ts'

/** The connection under a Drizzle database on SQLite; `Tx` is its own type of transactions. */
export function drizzleOnSqlite<Tx extends object>(db: {
  transaction(work: (tx: Tx) => Promise<unknown>): unknown
}): Connection<Tx> {
  const client = fieldOf(db, '$client')
  const session = fieldOf(db, 'session')
  if (typeof session === 'object' && session !== null) {
    if (isBetterSqlite3(client)) return onBetterSqlite3<Tx>(client, session)
    if (isClient(client)) return onLibsql<Tx>(client, session)
  }
  return expected('db', 'a Drizzle database on better-sqlite3 or libsql', client)
}

/** A session of Drizzle, as far as hapax uses it: the work is called with a transaction of that session. */
interface Session<Tx> {
  client: unknown
  transaction(work: (tx: Tx) => Tx): Tx
}

function onBetterSqlite3<Tx extends object>(db: BetterSqlite3Database, session: object): Connection<Tx> {
  // Calls its function, and nothing else: hapax has begun already.
  const begun = {
    transaction: (work: unknown) => ({ default: work, deferred: work, immediate: work, exclusive: work }),
  }
  return new SyncConnection(
    new BetterDriver<BetterSqlite3Database, Tx>(reopening(db), {
      name: 'sqlite (drizzle, better-sqlite3)',
      of: (client, isClosed) => {
        const own: Session<Tx> = Object.create(session, { client: { value: begun, writable: true } })
        const tx = own.transaction((each) => each)
        own.client = client
        return lent(tx, isClosed)
      },
      key: (tx) => fieldOf(tx, 'session'),
    }),
  )
}

function onLibsql<Tx extends object>(client: LibsqlClient, session: object): Connection<Tx> {
  return new LibsqlConnection<LibsqlTransaction, Tx>(client, {
    name: 'sqlite (drizzle, libsql)',
    of: async (transaction, isClosed) => {
      // Drizzle ends what it believes to have begun.
      const begun = new Proxy(transaction, {
        get: (target, name) => (name === 'commit' || name === 'rollback' ? async () => {} : Reflect.get(target, name)),
      })
      const own: { transaction(work: (tx: Tx) => Promise<{ tx: Tx }>): Promise<{ tx: Tx }> } = Object.create(session, {
        client: { value: { transaction: async () => begun } },
      })
      const { tx } = await own.transaction(async (each) => ({ tx: each }))
      return lent(tx, isClosed)
    },
    under: (tx) => fieldOf(fieldOf(tx, 'session'), 'tx'),
  })
}
