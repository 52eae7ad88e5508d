import { type Dialect, PROBE, plain, statement } from '../../sql/index.ts'
import { answered, classify, doomOf } from '../errors.ts'
import { admin, traces } from './admin.ts'
import { aside } from './aside.ts'
import { endpoints } from './endpoints.ts'
import { failed, failing, held } from './failed.ts'
import { inbox, leases, receipts } from './inbox.ts'
import { journal } from './journal.ts'
import { lists } from './lists.ts'
import { local } from './local.ts'
import { look } from './look.ts'
import { migrations } from './migrations.ts'
import { outbox, relays, sent } from './outbox.ts'
import { responses } from './responses.ts'
import { status } from './status.ts'
import { subscriptions, workers } from './workers.ts'

/** The statements of SQLite with one prefix. Rows are written one by one: there is no round trip to save. */
export function dialect(prefix: string): Dialect {
  return {
    name: 'sqlite',
    // There is one writer at a time, so every level that can be asked for is kept.
    isolationLevels: ['serializable'],
    parallelWriters: false,
    ownTransactions: false,

    classify,
    doomOf,
    answered,

    schema: schema(prefix),
    transactions: transactions(),
    receipts: receipts(prefix),
    inbox: inbox(prefix),
    leases: leases(prefix),
    journal: journal(prefix),
    responses: responses(prefix),
    endpoints: endpoints(prefix),
    outbox: outbox(prefix),
    relays: relays(prefix),
    sent: sent(prefix),
    workers: workers(prefix),
    subscriptions: subscriptions(prefix),
    failing: failing(prefix),
    failed: failed(prefix),
    held: { inbox: held(prefix, 'inbox'), outbox: held(prefix, 'outbox') },
    aside: { inbox: aside(prefix, 'inbox'), outbox: aside(prefix, 'outbox') },
    admin: admin(prefix),
    status: status(prefix),
    traces: traces(prefix),
    lists: lists(prefix),
    news: undefined,
    lastLocal: () => undefined,
    writeLocal: local(prefix),
    look: look(prefix),
  }
}

function schema(prefix: string): Dialect['schema'] {
  return {
    probe: plain(probe),
    migrations: migrations(prefix),
    delimiter: undefined,
    // BEGIN IMMEDIATE is the lock.
    lock: [],
    place: [],
    unlock: [],
    // Not NOW: the sqlite3 of an older system (before 3.42) has to be able to run the printed migrations.
    table: plain(`
create table if not exists ${prefix}migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at integer not null default (cast(strftime('%s', 'now') as integer) * 1000)
) strict`),
    applied: plain(`select version, checksum from ${prefix}migrations`),
    done: statement(
      `insert into ${prefix}migrations (version, name, checksum) values (?, ?, ?)`,
      (version, name, checksum) => [version, name, checksum],
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
      check: [plain('release savepoint hapax'), plain('savepoint hapax')],
      rollback: [plain('rollback to savepoint hapax')],
    },
    backend: () => undefined,
    terminate: () => plain('select 1'),
    fate: () => undefined,
    enter: () => undefined,
  }
}

const probe = `select '${PROBE.text}' as probe_text, ${PROBE.number} as probe_number, ${PROBE.time} as probe_time,
  x'${PROBE.bytes}' as probe_bytes, x'${PROBE.uuid.replaceAll('-', '')}' as probe_uuid, 1 as probe_true, 0 as probe_false,
  null as probe_null`
