// What `doctor` checks on MariaDB and MySQL. Each check is one statement, so that one which the user may not run is a warning of its own
// and does not hide the others. Advice says what to do, not only what is wrong.

import type { Row, Statement } from '../../../contracts/index.ts'
import {
  asText,
  type Check,
  type CheckResult,
  clockCheck,
  error,
  expectedTables,
  ok,
  schemaVerdict,
  size,
  warning,
} from '../../sql/index.ts'
import { migrations } from './migrations.ts'
import { bytes } from './rows.ts'

const plain = (text: string): Statement => ({ text, params: [] })

/** Transactions that are open longer than this make every read slower. */
const LONG_MINUTES = 5
/** InnoDB tells times in the zone of the system, whatever that of the session is. */
const SYSTEM_NOW = `coalesce(convert_tz(now(), @@session.time_zone, 'SYSTEM'), now())`
/** A replica that is restarted is away for longer than the default of MariaDB. */
const SEMI_SYNC_MS = 60_000
/** What the statements of hapax are made for. */
const PACKET = 16 * 1024 * 1024

/** What `doctor` looks at on MariaDB and MySQL. */
export function checks(database: string, prefix: string): readonly Check[] {
  return [
    { check: 'server', statement: plain('select version() as version'), judge: server },
    {
      check: 'settings',
      statement: plain(`
show global variables where variable_name in ('innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format',
  'innodb_rollback_on_timeout', 'innodb_doublewrite', 'read_only', 'innodb_read_only', 'max_connections',
  'wsrep_on', 'rpl_semi_sync_master_enabled', 'rpl_semi_sync_master_timeout')`),
      judge: globalSettings,
    },
    {
      check: 'settings',
      statement: plain(`
show session variables where variable_name in ('wait_timeout', 'sql_mode', 'tx_isolation', 'transaction_isolation',
  'max_allowed_packet', 'autocommit')`),
      judge: sessionSettings,
    },
    {
      check: 'connections',
      statement: plain(`
show global status where variable_name in ('Threads_connected', 'Max_used_connections', 'Connection_errors_max_connections')`),
      judge: connections,
    },
    clockCheck(plain(`select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) / 1000 as ms`)),
    {
      check: 'long transactions',
      statement: plain(`
select count(*) as count, max(timestampdiff(minute, trx_started, ${SYSTEM_NOW})) as minutes,
  group_concat(trx_mysql_thread_id) as ids
from information_schema.innodb_trx
where trx_started < ${SYSTEM_NOW} - interval ${LONG_MINUTES} minute and trx_mysql_thread_id <> connection_id()`),
      judge: longTransactions,
    },
    { check: 'prepared transactions', statement: plain('xa recover'), judge: prepared },
    {
      check: 'tables',
      statement: {
        text: `
select table_name as name, table_rows as estimate, data_length + index_length as bytes
from information_schema.tables where table_schema = ? and left(table_name, ${prefix.length}) = ?
order by 3 desc`,
        params: [database, bytes(prefix)],
      },
      judge: (rows) => ok(rows.map((row) => tableSize(row, prefix)).join(', ')),
    },
    {
      check: 'schema drift',
      statement: {
        text: `
select table_name as name, column_name as part from information_schema.columns
where table_schema = ? and left(table_name, ${prefix.length}) = ?
union
select table_name, index_name from information_schema.statistics
where table_schema = ? and left(table_name, ${prefix.length}) = ?`,
        params: [database, bytes(prefix), database, bytes(prefix)],
      },
      judge: (rows) =>
        schemaVerdict(
          expectedTables(migrations(prefix), (table) => table),
          new Set(rows.map((row) => `${asText(row['name'])}.${asText(row['part'])}`)),
        ),
    },
  ]
}

function server([row]: readonly Row[]): CheckResult {
  const version = asText(row?.['version'])
  const maria = /mariadb/i.test(version)
  const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10))
  const fine = maria ? major > 10 || (major === 10 && minor >= 6) : major >= 8
  const name = `${maria ? 'MariaDB' : 'MySQL'} ${version}`
  return fine ? ok(name) : error(name, 'Use MariaDB 10.6 or MySQL 8.0, or newer.')
}

/** SHOW returns rows of a name and a value. */
function variables(rows: readonly Row[]): ReadonlyMap<string, string> {
  return new Map(rows.map((row) => [asText(row['Variable_name']).toLowerCase(), asText(row['Value'])]))
}

function globalSettings(rows: readonly Row[]): readonly CheckResult[] {
  const found = variables(rows)
  const is = (name: string, ...values: string[]): boolean =>
    values.includes(found.get(name)?.toLowerCase() ?? '(not there)')
  const verdicts: CheckResult[] = [
    is('innodb_flush_log_at_trx_commit', '1')
      ? ok('innodb_flush_log_at_trx_commit is 1')
      : error(
          `innodb_flush_log_at_trx_commit is ${found.get('innodb_flush_log_at_trx_commit')}: what was acknowledged may be lost in a crash`,
          'Set innodb_flush_log_at_trx_commit = 1.',
        ),
  ]
  if (is('log_bin', 'on', '1') && !is('sync_binlog', '1')) {
    verdicts.push(
      warning(
        `sync_binlog is ${found.get('sync_binlog')}: after a crash, replicas may have less than this server acknowledged`,
        'Set sync_binlog = 1.',
      ),
    )
  }
  if (is('log_bin', 'on', '1') && is('binlog_format', 'statement')) {
    verdicts.push(
      error(
        'binlog_format is STATEMENT: replicas repeat statements that skip locked rows or have a limit, and end up with different rows',
        'Set binlog_format = ROW, or MIXED.',
      ),
    )
  }
  if (is('innodb_doublewrite', 'off', '0')) {
    verdicts.push(
      warning(
        'innodb_doublewrite is off: a crash may destroy pages, unless the file system cannot tear them',
        'Set innodb_doublewrite = on.',
      ),
    )
  }
  if (is('read_only', 'on', '1', 'no_lock', 'no_lock_no_admin') || is('innodb_read_only', 'on', '1')) {
    verdicts.push(error('the server is read-only', 'Connect to the primary.'))
  }
  const semiSyncMs = Number(found.get('rpl_semi_sync_master_timeout'))
  if (is('rpl_semi_sync_master_enabled', 'on', '1') && semiSyncMs < SEMI_SYNC_MS) {
    verdicts.push(
      warning(
        `rpl_semi_sync_master_timeout is ${semiSyncMs} ms: when the replica is away for longer, commits do not wait for it any more`,
        'Set it to longer than any outage of the replica, or what was acknowledged may be lost in a fail-over.',
      ),
    )
  }
  if (is('wsrep_on', 'on', '1')) {
    verdicts.push(ok('a node of a Galera cluster: let all processes write to one node where conflicts cost too much'))
  }
  const rollback = is('innodb_rollback_on_timeout', 'on', '1') ? 'the whole transaction' : 'one statement only'
  return [...verdicts, ok(`a lock timeout rolls back ${rollback}; hapax rolls back itself either way`)]
}

function sessionSettings(rows: readonly Row[]): readonly CheckResult[] {
  const found = variables(rows)
  const isolation = found.get('transaction_isolation') ?? found.get('tx_isolation') ?? 'unknown'
  const waits = Number(found.get('wait_timeout'))
  const packet = Number(found.get('max_allowed_packet'))
  return [
    /read-uncommitted/i.test(isolation)
      ? error(
          'transactions read what is not committed (READ-UNCOMMITTED)',
          'Set transaction_isolation to READ-COMMITTED or higher.',
        )
      : ok(`transactions are ${isolation}`),
    /strict_(trans|all)_tables/i.test(found.get('sql_mode') ?? '')
      ? ok('sql_mode is strict')
      : warning(
          'sql_mode is not strict: values that do not fit are cut silently, also in your own tables',
          'Add STRICT_TRANS_TABLES to sql_mode.',
        ),
    waits >= 60
      ? ok(`idle connections are closed after ${waits} s`)
      : warning(
          `idle connections are closed after ${waits} s: a handler that waits for something else for so long loses its transaction`,
          'Raise wait_timeout to at least 60.',
        ),
    packet >= PACKET
      ? ok(`max_allowed_packet is ${size(packet)}`)
      : warning(
          `max_allowed_packet is ${size(packet)}: a message of more than ${size(Math.floor(packet / 2))} cannot be written, because bytes travel as two digits each`,
          `Raise max_allowed_packet to ${size(PACKET)} or more.`,
        ),
  ]
}

function connections(rows: readonly Row[]): CheckResult {
  const found = variables(rows)
  const refused = Number(found.get('connection_errors_max_connections') ?? 0)
  const message = `${found.get('threads_connected')} connections are in use, ${found.get('max_used_connections')} at most so far`
  if (refused === 0) return ok(message)
  return warning(
    `${message}; ${refused} were refused because there were too many`,
    'Use smaller pools, or raise max_connections.',
  )
}

function longTransactions([row]: readonly Row[]): CheckResult {
  const count = Number(row?.['count'])
  if (count === 0) return ok(`no transaction has been open for more than ${LONG_MINUTES} minutes`)
  return warning(
    `${count} transactions have been open for more than ${LONG_MINUTES} minutes, one for ${Number(row?.['minutes'])} (connection ${asText(row?.['ids'])})`,
    'While they are open, old versions of rows cannot be removed, and their locks stay. Find out who left them open, or end them with KILL.',
  )
}

function prepared(rows: readonly Row[]): CheckResult {
  if (rows.length === 0) return ok('there is none')
  return warning(
    `${rows.length} prepared transactions are waiting to be committed or rolled back`,
    'They hold locks. End them: XA COMMIT or XA ROLLBACK (XA RECOVER lists them).',
  )
}

function tableSize(row: Row, prefix: string): string {
  const name = asText(row['name']).slice(prefix.length)
  return `${name} ${size(Number(row['bytes']))} (about ${Number(row['estimate'])} rows)`
}
