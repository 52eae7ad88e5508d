import { expected } from '../base/index.ts'
import type { Connection } from '../contracts/index.ts'
import { isClient, type LibsqlClient, LibsqlConnection, type LibsqlTransaction } from './kit/libsql.ts'

export type { LibsqlClient, LibsqlTransaction } from './kit/libsql.ts'

/**
 * Lets a store work through libsql: `sqlite(fromLibsql(client))`, with a client of `@libsql/client`. `ctx.tx` and `publish` then take its
 * own transactions.
 */
export function fromLibsql<Tx extends LibsqlTransaction>(client: LibsqlClient<Tx>): Connection<Tx> {
  if (!isClient(client)) expected('client', 'a client of @libsql/client', client)
  return new LibsqlConnection(client, { name: 'sqlite (libsql)', of: (tx: Tx) => tx, under: (tx) => tx })
}
