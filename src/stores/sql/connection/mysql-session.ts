// What connections have to know of a session of MySQL or MariaDB, which more than one of them uses.

import { randomUUID } from 'node:crypto'
import { HapaxError } from '../../../base/index.ts'
import type { Statement } from '../../../contracts/index.ts'
import { plain } from '../dialect/statement.ts'

/** Marks a statement that only MySQL runs: a connection to MariaDB leaves it out. */
export const MYSQL_ONLY = '/*!80000'

/** Tells a server from its replicas. */
export const MYSQL_SERVER = `concat_ws(' ', @@server_id, @@port, @@hostname)`

/** The largest value, which is the default of the server. */
export const NO_LIMIT = '18446744073709551615'

/**
 * Gives an `unsuited` session standard behaviour: unlimited reads, updates by any condition, COMMIT that neither chains nor disconnects, plain
 * comparison with null, and immediate unique checks. Explicit values, because `default` would be the server's own setting.
 */
export const mysqlSuited: Statement = plain(
  `set sql_select_limit = ${NO_LIMIT}, sql_safe_updates = 0, completion_type = 'NO_CHAIN', sql_auto_is_null = 0, sql_big_selects = 1, unique_checks = 1`,
)

/** MariaDB modes in which the statements of hapax are invalid or mean something else: empty strings become null. */
const FOREIGN = ['ORACLE', 'EMPTY_STRING_IS_NULL']

/**
 * Fails on a server that speaks the protocol of MySQL, accepts SKIP LOCKED and locks nothing. It is recognised by its name: a trial with two
 * connections would tell the same of a cluster whose nodes take writes, such as Galera, when they lead to two of them.
 */
export function assertLocks(version: string): void {
  if (!/tidb/i.test(version)) return
  throw new HapaxError(
    'unsupported-server',
    `expected MariaDB or MySQL, got TiDB (${version}): it accepts SKIP LOCKED and locks nothing, so two workers would run the same message`,
    { fields: { version } },
  )
}

/**
 * Fails on a session whose mode hapax does not support. The mode is not changed, because handlers share the session, and their statements
 * depend on it.
 */
export function assertMode(mode: string): void {
  const foreign = FOREIGN.filter((each) => mode.split(',').includes(each))
  if (foreign.length === 0) return
  throw new HapaxError(
    'unsupported-sql-mode',
    `expected an sql_mode without ${foreign.join(' and ')} on the connections of hapax: give it a separate pool with another mode`,
    { fields: { mode } },
  )
}

/** How a session is asked what it is, and how it gets the name by which its transaction can be ended from outside. */
export const mysqlSession: { readonly question: Statement; mark(): Statement } = {
  question:
    plain(`select version() as version, @@max_allowed_packet as packet, @@autocommit as autocommit, @hapax_link as link,
  connection_id() as session,
  not (@@sql_select_limit = ${NO_LIMIT} and @@sql_safe_updates = 0 and @@completion_type = 'NO_CHAIN' and @@sql_auto_is_null = 0
    and @@sql_big_selects = 1 and @@unique_checks = 1) as unsuited, @@sql_mode as sql_mode,
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
