import type { Result } from '../../../contracts/index.ts'
import { asText, type Dialect, MYSQL_ONLY, MYSQL_SERVER, PROBE, plain, statement } from '../../sql/index.ts'
import { answered, classify, doomOf } from '../errors.ts'
import { admin, traces } from './admin.ts'
import { aside } from './aside.ts'
import { checks } from './checkup.ts'
import { clock } from './clock.ts'
import { endpoints } from './endpoints.ts'
import { failed, failing, held } from './failed.ts'
import { MS, NOW, tables } from './fragments.ts'
import { inbox, leases, receipts } from './inbox.ts'
import { journal } from './journal.ts'
import { lists } from './lists.ts'
import { local } from './local.ts'
import { look } from './look.ts'
import { migrations } from './migrations.ts'
import { operations } from './operations.ts'
import { outbox, relays, sent } from './outbox.ts'
import { pauses } from './pauses.ts'
import { responses } from './responses.ts'
import { bytes } from './rows.ts'
import { samples } from './samples.ts'
import { status } from './status.ts'
import { waiting } from './waiting.ts'
import { subscriptions, workers } from './workers.ts'

/**
 * The statements of MariaDB and MySQL with one prefix, each valid on both. Every text goes as bytes, so that neither the
 * character set of the connection nor an SQL mode such as NO_BACKSLASH_ESCAPES can change it.
 *
 * `idleTimeoutMs` is not kept: both servers know it only as a setting of the session (`idle_transaction_timeout`,
 * `wait_timeout`), which would cost round trips and stay behind in the user's pool.
 */
export function dialect(database: string, prefix: string): Dialect {
  // With the database, because a handler may say USE: its receipt would be written elsewhere.
  const full = `\`${database}\`.${prefix}`
  return {
    name: 'mysql',
    isolationLevels: ['read committed', 'repeatable read', 'serializable'],
    parallelWriters: true,

    classify,
    doomOf,
    answered,

    schema: schema(database, prefix, tables(full).migrations),
    transactions: transactions(),
    receipts: receipts(full),
    inbox: inbox(full),
    leases: leases(full),
    journal: journal(full),
    responses: responses(full),
    endpoints: endpoints(full),
    outbox: outbox(full),
    relays: relays(full),
    sent: sent(full),
    workers: workers(full),
    subscriptions: subscriptions(full),
    failing: failing(full),
    failed: failed(full),
    held: { inbox: held(full, 'inbox'), outbox: held(full, 'outbox') },
    aside: { inbox: aside(full, 'inbox'), outbox: aside(full, 'outbox') },
    operations: operations(full),
    pauses: pauses(full),
    samples: samples(full),
    clock: clock(full),
    admin: admin(full, checks(database, prefix)),
    status: status(full, database, prefix),
    traces: traces(full),
    lists: lists(full),
    waiting: waiting(full),
    news: undefined,
    lastLocal: () => undefined,
    writeLocal: local(full),
    look: look(full),
  }
}

function schema(database: string, prefix: string, applied: string): Dialect['schema'] {
  // A name has 64 characters at most, and MySQL 9 has no sha1().
  const lockName = `concat('hapax_', left(sha2(concat(database(), '.', ?), 256), 40))`
  return {
    probe: plain(probe),
    migrations: migrations(prefix),
    delimiter: '//',
    lock: [
      // The steps name no database, so that a copy under another name has the same checksums.
      plain(`use \`${database}\``),
      // Without the lock the subquery fails: a lock that was not got is no error by itself.
      { text: `select if(get_lock(${lockName}, 60) = 1, 1, (select 1 union select 2)) as locked`, params: [prefix] },
    ],
    place: [],
    unlock: [{ text: `do release_lock(${lockName})`, params: [prefix] }],
    // Without the database, like the steps: what is printed for one database has to run on another one.
    table: plain(`
create table if not exists ${prefix}migrations (
  version int not null primary key,
  name varbinary(255) not null,
  checksum varbinary(64) not null,
  compatible_from int not null,
  applied_at datetime(6) not null
) engine = innodb row_format = dynamic`),
    applied: plain(`select version, checksum, compatible_from from ${applied}`),
    // Galera. A comment to MySQL; a MariaDB that was built without it does not know the variable.
    caughtUp: plain('/*M! set statement wsrep_sync_wait = 1 for */ select 1'),
    done: statement(
      `insert into ${prefix}migrations (version, name, checksum, compatible_from, applied_at) values (?, ?, ?, ?, ${NOW})`,
      (version, name, checksum, compatibleFrom) => [version, bytes(name), bytes(checksum), compatibleFrom],
    ),
    checks: [],
  }
}

function transactions(): Dialect['transactions'] {
  return {
    settings: () => [],
    guard: {
      set: [plain('savepoint hapax')],
      release: [plain('release savepoint hapax')],
      // One round trip on MariaDB. If the release fails, no new savepoint may be set.
      check: [
        plain(`${MYSQL_ONLY} release savepoint hapax */`),
        plain('/*M!100000 begin not atomic release savepoint hapax; */ savepoint hapax /*M!100000 ; end */'),
      ],
      rollback: [plain('rollback to savepoint hapax')],
    },
    backend: (answers) => backendOf(answers),
    // The victim of a deadlock is rolled back.
    isEndedBy: (error) => classify(error) === 'conflict',
    // The connection that holds the lock of that name is the one; if none does, this is an error, and no other connection is hit.
    terminate: statement('kill is_used_lock(?)', ([link]) => [String(link)]),
    // Nothing but that it was another server.
    fate: statement(`select if(cast(${MYSQL_SERVER} as binary) = ?, null, 'elsewhere') as fate`, ([, server]) => [
      bytes(String(server)),
    ]),
    enter: () => undefined,
  }
}

const probe = `select x'${Buffer.from(PROBE.text).toString('hex')}' as probe_text,
  cast(${PROBE.number} as signed) as probe_number,
  ${MS(`timestamp'${new Date(PROBE.time).toISOString().replace('T', ' ').replace('Z', '')}'`)} as probe_time,
  x'${PROBE.bytes}' as probe_bytes, x'${PROBE.uuid.replaceAll('-', '')}' as probe_uuid, 1 = 1 as probe_true,
  1 = 0 as probe_false, null as probe_null`

function backendOf(answers: readonly Result[]): readonly [link: string, server: string] | undefined {
  const link = answers.find((answer) => answer.rows.length > 0)?.rows[0]?.['link']
  if (link == null) return undefined
  const [, name = '', server = ''] = /^(\S+) ?(.*)$/s.exec(asText(link)) ?? []
  return [name, server]
}
