// What connections have to know of a session of MySQL or MariaDB, which more than one of them uses.

import { randomUUID } from 'node:crypto'
import type { Statement } from '../../../contracts/index.ts'
import { plain } from '../dialect/statement.ts'

/** Marks a statement that only MySQL runs: a connection to MariaDB leaves it out. */
export const MYSQL_ONLY = '/*!80000'

/** Tells a server from its replicas. */
export const MYSQL_SERVER = `concat_ws(' ', @@server_id, @@port, @@hostname)`

/** How a session is asked what it is, and how it gets the name by which its transaction can be ended from outside. */
export const mysqlSession: { readonly question: Statement; mark(): Statement } = {
  question:
    plain(`select version() as version, @@max_allowed_packet as packet, @@autocommit as autocommit, @hapax_link as link,
  connection_id() as session,
  ${MYSQL_ONLY} @@transaction_isolation */ /*M!100000 @@tx_isolation */ as isolation`),
  /**
   * A name that no other session has on any server: that of a lock which it holds; and that of the server. The number of a connection may belong to another session
   * after a restart, on another server of a cluster, or behind a proxy.
   */
  mark(): Statement {
    const name = `hapax_${randomUUID()}`
    return plain(`set @hapax_link = concat('${name} ', ${MYSQL_SERVER}), @hapax_marked = get_lock('${name}', 0)`)
  },
}

/** MySQL has the lock timeout only by session: sets it back to the first value that the session had. */
export const mysqlReset: Statement = plain(
  `${MYSQL_ONLY} set session innodb_lock_wait_timeout = cast(coalesce(@hapax_lock_wait, @@session.innodb_lock_wait_timeout) as unsigned) */`,
)
