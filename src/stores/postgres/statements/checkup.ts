// What `doctor` checks on PostgreSQL. Each check is one statement, so that one which the user may not run is a warning of its own and
// does not hide the others. Advice says what to do, not only what is wrong.

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
import { MS } from './fragments.ts'
import { migrations } from './migrations.ts'

const plain = (text: string): Statement => ({ text, params: [] })

/** Transactions that are open longer than this keep vacuum from cleaning up. */
const LONG_MINUTES = 5
/** Dead rows below this are nothing to worry about. */
const MANY_DEAD = 100_000

/** In another encoding than UTF-8 there are characters that cannot be stored. */
export const encodingCheck: Check = {
  check: 'encoding',
  statement: plain(
    `select pg_encoding_to_char(encoding) as encoding from pg_database where datname = current_database()`,
  ),
  judge: ([row]) => encoding(asText(row?.['encoding'])),
}

/** What `doctor` looks at on PostgreSQL. */
export function checks(schema: string): readonly Check[] {
  const name = schema.replaceAll('"', '')
  const tables = expectedTables(migrations(schema), (table) => table.split('.').at(-1) ?? table)
  return [
    {
      check: 'server',
      statement: plain(`
select current_setting('server_version') as version, current_setting('server_version_num')::integer as number,
  pg_is_in_recovery() as replica, current_setting('transaction_read_only') as read_only`),
      judge: server,
    },
    encodingCheck,
    {
      check: 'settings',
      statement: plain(`
select name, setting from pg_settings
where name in ('synchronous_commit', 'fsync', 'full_page_writes', 'autovacuum', 'default_transaction_isolation',
  'idle_in_transaction_session_timeout', 'synchronous_standby_names', 'statement_timeout')`),
      judge: settings,
    },
    {
      check: 'connections',
      statement: plain(`
select count(*) as used, current_setting('max_connections')::integer as most
from pg_stat_activity where backend_type = 'client backend'`),
      judge: ([row]) => connections(Number(row?.['used']), Number(row?.['most'])),
    },
    {
      check: 'pooler',
      statement: plain(`
select ${MS('clock_timestamp() - backend_start')} as ms
from pg_stat_activity where pid = pg_backend_pid()`),
      judge: ([row]) => pooler(Number(row?.['ms'])),
    },
    clockCheck(plain(`select ${MS('clock_timestamp()')} as ms`)),
    {
      check: 'long transactions',
      statement: plain(`
select count(*) filter (where long) as count, string_agg(pid::text, ', ') filter (where long) as pids,
  round(extract(epoch from max(clock_timestamp() - xact_start) filter (where long)) / 60) as minutes,
  count(*) filter (where hidden) as hidden
from (
  select pid, xact_start, coalesce(query = '<insufficient privilege>', false) as hidden,
    coalesce(xact_start < clock_timestamp() - interval '${LONG_MINUTES} minutes', false)
      and backend_type = 'client backend' as long
  from pg_stat_activity where pid <> pg_backend_pid() and datname is not null
) as sessions`),
      judge: longTransactions,
    },
    {
      check: 'prepared transactions',
      statement: plain(`
select count(*) as count, round(extract(epoch from max(clock_timestamp() - prepared)) / 60) as minutes
from pg_prepared_xacts where database = current_database()`),
      judge: prepared,
    },
    {
      check: 'privileges',
      statement: {
        text: `
select relname as name, privilege
from pg_class join pg_namespace on pg_namespace.oid = relnamespace,
  unnest(array['select', 'insert', 'update', 'delete']) with ordinality as wanted (privilege, place)
where nspname = $1::text and relkind = 'r' and relname <> 'migrations'
  and not has_table_privilege(pg_class.oid, privilege)
order by relname, place`,
        params: [name],
      },
      // The schema may have tables of other applications.
      judge: (rows) => privileges(rows.filter((row) => tables.has(asText(row['name'])))),
    },
    {
      check: 'vacuum',
      statement: {
        text: `
select relname as name, n_live_tup as live, n_dead_tup as dead, last_autovacuum is null and last_vacuum is null as never
from pg_stat_user_tables where schemaname = $1::text order by n_dead_tup desc`,
        params: [name],
      },
      judge: vacuum,
    },
    {
      check: 'tables',
      statement: {
        text: `
select relname as name, reltuples::bigint as rows, pg_total_relation_size(pg_class.oid) as bytes
from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where nspname = $1::text and relkind = 'r' order by 3 desc`,
        params: [name],
      },
      judge: (rows) => ok(rows.map(tableSize).join(', ')),
    },
    {
      check: 'schema drift',
      statement: {
        text: `
select relname as name, attname as part from pg_attribute
  join pg_class on pg_class.oid = attrelid join pg_namespace on pg_namespace.oid = relnamespace
where nspname = $1::text and relkind = 'r' and attnum > 0 and not attisdropped
union all
select relname, indexname from pg_indexes join pg_class on relname = tablename
  join pg_namespace on pg_namespace.oid = relnamespace and nspname = schemaname
where schemaname = $2::text`,
        params: [name, name],
      },
      judge: (rows) =>
        schemaVerdict(tables, new Set(rows.map((row) => `${asText(row['name'])}.${asText(row['part'])}`))),
    },
  ]
}

function server([row]: readonly Row[]): readonly CheckResult[] {
  const version = asText(row?.['version'])
  const verdicts =
    Number(row?.['number']) >= 130_000
      ? [ok(`PostgreSQL ${version}`)]
      : [error(`PostgreSQL ${version}`, 'Use PostgreSQL 13 or newer.')]
  if (row?.['replica'] === true) {
    verdicts.push(error('this is a replica: nothing can be written', 'Connect to the primary.'))
  } else if (asText(row?.['read_only']) === 'on') {
    verdicts.push(
      error('transactions are read-only', 'Set default_transaction_read_only to off for the user of hapax.'),
    )
  }
  return verdicts
}

function encoding(name: string): CheckResult {
  if (name === 'UTF8') return ok('the encoding of the database is UTF8')
  if (name === 'SQL_ASCII') {
    return warning(
      'the encoding of the database is SQL_ASCII: it stores the bytes of any client as they come, and checks nothing',
      'Hapax writes and reads UTF-8, which works as long as no other program writes to its tables. For new data, use a database whose encoding is UTF8.',
    )
  }
  return warning(
    `the encoding of the database is ${name}: a message with a character that it lacks in its id, source, type, key or headers cannot be taken, and only a stub of it goes to the failed store`,
    `Use a database whose encoding is UTF8 (create database … encoding 'UTF8' template template0).`,
  )
}

function settings(rows: readonly Row[]): readonly CheckResult[] {
  const found = new Map(rows.map((row) => [asText(row['name']), asText(row['setting'])]))
  const verdicts: CheckResult[] = []
  const unless = (name: string, fine: boolean, otherwise: CheckResult): void => {
    if (found.has(name)) verdicts.push(fine ? ok(`${name} is ${found.get(name)}`) : otherwise)
  }
  unless(
    'synchronous_commit',
    found.get('synchronous_commit') !== 'off',
    error(
      'synchronous_commit is off: what was acknowledged may be lost in a crash of the server',
      'Set it to on for the user of hapax (alter role … set synchronous_commit = on).',
    ),
  )
  unless(
    'fsync',
    found.get('fsync') === 'on',
    error('fsync is off: a crash may destroy the database', 'Set fsync = on in postgresql.conf.'),
  )
  unless(
    'full_page_writes',
    found.get('full_page_writes') === 'on',
    warning(
      'full_page_writes is off: a crash may destroy pages, unless the file system cannot tear them',
      'Set full_page_writes = on in postgresql.conf.',
    ),
  )
  unless(
    'autovacuum',
    found.get('autovacuum') === 'on',
    error('autovacuum is off: inbox and outbox grow with every message', 'Set autovacuum = on in postgresql.conf.'),
  )
  const isolation = found.get('default_transaction_isolation')
  unless(
    'default_transaction_isolation',
    isolation !== 'read uncommitted',
    warning(`default_transaction_isolation is ${isolation}`, 'PostgreSQL treats it as read committed: set it to that.'),
  )
  const idle = found.get('idle_in_transaction_session_timeout')
  unless(
    'idle_in_transaction_session_timeout',
    idle !== '0',
    ok('idle_in_transaction_session_timeout is not set; transactions of hapax set it for themselves'),
  )
  if (found.get('synchronous_standby_names') && Number(found.get('statement_timeout')) > 0) {
    verdicts.push(
      warning(
        `statement_timeout is ${found.get('statement_timeout')} ms: a COMMIT that waits longer for a synchronous standby succeeds without it`,
        'Set it to 0 for the user of hapax (alter role … set statement_timeout = 0), or what was acknowledged may be lost in a fail-over.',
      ),
    )
  }
  return verdicts
}

function connections(used: number, most: number): CheckResult {
  const message = `${used} of ${most} connections are in use`
  if (used <= 0.8 * most) return ok(message)
  return warning(message, 'Use smaller pools, put PgBouncer in front of the server, or raise max_connections.')
}

/** A connection that is older than this process belongs to a pooler in between. The opposite proves nothing. */
function pooler(connectedMs: number): CheckResult {
  const between = connectedMs > performance.now() + 2_000
  return between
    ? ok(
        'connections go through a pooler such as PgBouncer: everything works in session and in transaction mode, nothing in statement mode',
      )
    : ok('no pooler detected')
}

function longTransactions([row]: readonly Row[]): CheckResult {
  const count = Number(row?.['count'])
  const hidden = Number(row?.['hidden'])
  const seen =
    hidden === 0 ? '' : ` among those that this user may see (pg_read_all_stats shows ${hidden} more sessions)`
  if (count === 0) return ok(`no transaction has been open for more than ${LONG_MINUTES} minutes${seen}`)
  return warning(
    `${count} transactions have been open for more than ${LONG_MINUTES} minutes, one for ${Number(row?.['minutes'])} (pid ${asText(row?.['pids'])})`,
    'While they are open, vacuum cannot remove the rows of finished messages. Find out who left them open, or end them with pg_terminate_backend(pid).',
  )
}

function privileges(rows: readonly Row[]): CheckResult {
  if (rows.length === 0) return ok('this user may read and write every table')
  const denied = Map.groupBy(rows, (row) => asText(row['name']))
  const each = [...denied].map(([table, of]) => `${of.map((row) => asText(row['privilege'])).join(', ')} on ${table}`)
  return warning(
    `this user may not ${each.join('; ')}`,
    'That is fine for a user who only reads. Workers, relays and changes by hand need all of it: grant it to their user.',
  )
}

function prepared([row]: readonly Row[]): CheckResult {
  const count = Number(row?.['count'])
  if (count === 0) return ok('there is none')
  return warning(
    `${count} prepared transactions are waiting to be committed or rolled back, one for ${Number(row?.['minutes'])} minutes`,
    'They hold locks and keep vacuum from cleaning up. End them: commit prepared or rollback prepared (select * from pg_prepared_xacts).',
  )
}

function vacuum(rows: readonly Row[]): readonly CheckResult[] {
  const late = rows.filter((row) => Number(row['dead']) > MANY_DEAD && Number(row['dead']) > Number(row['live']))
  if (late.length === 0) return [ok('keeps up with the dead rows')]
  return late.map((row) =>
    warning(
      `${asText(row['name'])} has ${Number(row['dead'])} dead rows beside ${Number(row['live'])} live ones${row['never'] === true ? ' and was never vacuumed' : ''}`,
      `Look for long transactions; then run vacuum (analyze) on the table, and lower its autovacuum_vacuum_scale_factor.`,
    ),
  )
}

function tableSize(row: Row): string {
  const rows = Number(row['rows'])
  // Before the first vacuum or analyze there are no counts.
  const about = rows < 0 ? 'not counted yet' : `about ${rows} rows`
  return `${asText(row['name'])} ${size(Number(row['bytes']))} (${about})`
}
