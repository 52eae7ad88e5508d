import { type Dialect, GUARD, PROBE, plain, statement } from '../../sql/index.ts'
import { answered, classify, doomOf } from '../errors.ts'
import { admin, traces } from './admin.ts'
import { aside } from './aside.ts'
import { clock } from './clock.ts'
import { endpoints } from './endpoints.ts'
import { failed, failing, held } from './failed.ts'
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
import { samples } from './samples.ts'
import { status } from './status.ts'
import { waiting } from './waiting.ts'
import { subscriptions, workers } from './workers.ts'

/** The statements of SQLite with one prefix. Rows are written one by one: there is no round trip to save. */
export function dialect(prefix: string): Dialect {
  return {
    name: 'sqlite',
    // There is one writer at a time, so every level that can be asked for is kept.
    isolationLevels: ['serializable'],
    parallelWriters: false,

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
    operations: operations(prefix),
    pauses: pauses(prefix),
    samples: samples(prefix),
    clock: clock(prefix),
    admin: admin(prefix),
    status: status(prefix),
    traces: traces(prefix),
    lists: lists(prefix),
    waiting: waiting(prefix),
    news: undefined,
    lastLocal: () => undefined,
    writeLocal: local(prefix),
    look: look(prefix),
  }
}

function schema(prefix: string): Dialect['schema'] {
  return {
    probe: plain(probe(prefix)),
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
  compatible_from integer not null,
  applied_at integer not null default (cast(strftime('%s', 'now') as integer) * 1000)
) strict`),
    applied: plain(`select version, checksum, compatible_from from ${prefix}migrations`),
    caughtUp: undefined,
    done: statement(
      `insert into ${prefix}migrations (version, name, checksum, compatible_from) values (?, ?, ?, ?)`,
      (version, name, checksum, compatibleFrom) => [version, name, checksum, compatibleFrom],
    ),
    checks: [],
  }
}

function transactions(): Dialect['transactions'] {
  return {
    settings: () => [],
    guard: {
      set: [plain(`savepoint ${GUARD}`)],
      release: [plain(`release savepoint ${GUARD}`)],
      check: [plain(`release savepoint ${GUARD}`), plain(`savepoint ${GUARD}`)],
      rollback: [plain(`rollback to savepoint ${GUARD}`)],
    },
    backend: () => undefined,
    isEndedBy: () => false,
    terminate: () => plain('select 1'),
    fate: () => undefined,
    enter: () => undefined,
  }
}

/**
 * With columns of a table first, which give the others their types: the adapter of Prisma takes bytes only from columns that have one. No row has
 * that number.
 */
function probe(prefix: string): string {
  return `select id as probe_text, seq as probe_number, seq as probe_time, data as probe_bytes, message_key as probe_uuid,
  seq as probe_true, seq as probe_false, type as probe_null from ${prefix}outbox where seq = -1
union all select '${PROBE.text}', ${PROBE.number}, ${PROBE.time}, x'${PROBE.bytes}', x'${PROBE.uuid.replaceAll('-', '')}', 1, 0, null`
}
