import type { Connection, ConnectionSource, SqlDatabase } from '../../../contracts/index.ts'

type Given<Tx, Own> = Connection<Tx, Own> | ConnectionSource<Tx, Own>

/** Whether a store was given a connection, and not options to make one. */
export function isConnection<Tx, Own>(given: object | Given<Tx, Own>): given is Given<Tx, Own> {
  if (typeof given !== 'object' || given === null) return false
  // A pool has listeners, too.
  return 'transaction' in given || ('on' in given && !('connect' in given) && !('getConnection' in given))
}

/** The connection that a store was given, on its database. */
export function connectionOn<Tx, Own>(database: SqlDatabase, given: Given<Tx, Own>): Connection<Tx, Own> {
  return 'on' in given ? given.on(database) : given
}
