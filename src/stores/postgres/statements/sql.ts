import { hash } from 'node:crypto'
import type { Result } from '../../../contracts/index.ts'
import { asNumber, asText, command, type Dialect, PROBE, plain, prepared, statement } from '../../sql/index.ts'
import { answered, classify, doomOf } from '../errors.ts'
import { admin, traces } from './admin.ts'
import { aside } from './aside.ts'
import { encodingCheck } from './checkup.ts'
import { clock } from './clock.ts'
import { endpoints } from './endpoints.ts'
import { failed, failing, held } from './failed.ts'
import { MS, SERVER } from './fragments.ts'
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

/**
 * The statements of PostgreSQL in one schema. Parameters are scalars, each used once and in order, each cast.
 * ON CONFLICT names no key: while REINDEX CONCURRENTLY swaps the index, a named one is not found, or is not the only one.
 */
export function dialect(schema: string, listen = true): Dialect {
  const looked = look(schema)
  return {
    name: 'postgres',
    isolationLevels: ['read committed', 'repeatable read', 'serializable'],
    parallelWriters: true,
    // Each border is a subtransaction. PostgreSQL lists 64 of them for other sessions, which have to look up each one if there are more.
    mostBorders: 50,

    classify,
    doomOf,
    answered,

    schema: schemaStatements(schema),
    transactions: transactions(),
    receipts: receipts(schema),
    inbox: inbox(schema),
    leases: leases(schema),
    journal: journal(schema),
    responses: responses(schema),
    endpoints: endpoints(schema),
    outbox: outbox(schema),
    relays: relays(schema),
    sent: sent(schema),
    workers: workers(schema),
    subscriptions: subscriptions(schema),
    failing: failing(schema),
    failed: failed(schema),
    held: { inbox: held(schema, 'inbox'), outbox: held(schema, 'outbox') },
    aside: { inbox: aside(schema, 'inbox'), outbox: aside(schema, 'outbox') },
    operations: operations(schema),
    pauses: pauses(schema),
    samples: samples(schema),
    clock: clock(schema),
    admin: admin(schema),
    status: status(schema),
    traces: traces(schema),
    lists: lists(schema),
    waiting: waiting(schema),
    news: listen ? news(schema) : undefined,
    ...local(schema),
    look: (query, shares) => query(looked(shares)),
  }
}

/** A channel for each schema. Said outside of transactions: one that notifies takes a lock at its commit, which all of them share. */
function news(schema: string): Dialect['news'] {
  const name = `hapax ${schema.slice(1, -1)}`
  const channel = name.length < 64 ? name : `hapax ${hash('sha256', schema).slice(0, 32)}`
  return { channel, tell: prepared('select pg_notify($1::text, $2::text)::text', (text) => [channel, text]) }
}

function schemaStatements(schema: string): Dialect['schema'] {
  return {
    probe: plain(probe),
    migrations: migrations(schema),
    delimiter: undefined,
    lock: [
      plain(`set local lock_timeout = '60s'`),
      {
        text: 'select pg_advisory_xact_lock(hashtextextended($1::text, 0))::text',
        params: [`hapax migrate ${schema}`],
      },
    ],
    place: [
      // With `if not exists` it would need the right to make schemas also where there is one.
      plain(`do $$ begin if to_regnamespace('${schema}') is null then create schema ${schema}; end if; end $$`),
    ],
    unlock: [],
    table: plain(`
create table if not exists ${schema}.migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  compatible_from integer not null,
  applied_at timestamptz not null default clock_timestamp()
)`),
    applied: plain(`select version, checksum, compatible_from from ${schema}.migrations`),
    caughtUp: undefined,
    done: statement(
      `
insert into ${schema}.migrations (version, name, checksum, compatible_from) values ($1::integer, $2::text, $3::text, $4::integer)`,
      (version, name, checksum, compatibleFrom) => [version, name, checksum, compatibleFrom],
    ),
    checks: [encodingCheck],
  }
}

function transactions(): Dialect['transactions'] {
  return {
    settings: ({ lockTimeoutMs, idleTimeoutMs }, opening) => {
      const idle = String(Math.ceil(idleTimeoutMs))
      // 0 would mean to wait for ever.
      return [opening === 'plain' ? unhurried(idle) : limited(idle, String(Math.max(1, Math.ceil(lockTimeoutMs))))]
    },
    guard: {
      set: [command('set local lock_timeout to default'), command('savepoint hapax')],
      release: [command('release savepoint hapax')],
      check: [plain('release savepoint hapax;savepoint hapax')],
      rollback: [plain('rollback to savepoint hapax')],
    },
    backend: (answers) => backendOf(answers),
    isEndedBy: () => false,
    // The transaction's id makes sure that it is still this one.
    terminate: statement(
      `
select pg_terminate_backend(pid) from pg_stat_activity
where pid = $1::integer and backend_xid::text = $2::text and ${SERVER}::text = $3::text`,
      ([pid, xid, server]) => [Number(pid), String(xid), String(server)],
    ),
    // A standby that was promoted gives out numbers again which its primary had given to transactions that are lost.
    fate: statement(
      `
select case when ${SERVER}::text = $2::text then pg_xact_status($1::text::xid8) else 'elsewhere' end as fate`,
      ([, xid, server]) => [String(xid), String(server)],
    ),
    // A list, because several publishes may be under way. It goes with the transaction, and with the savepoint that it was set in.
    enter: statement(
      `
select set_config('hapax.entered', coalesce(current_setting('hapax.entered', true), '') || $1::text, true) is not null as entered`,
      (entered) => [entered],
    ),
  }
}

const unhurried = prepared(
  `select set_config('idle_in_transaction_session_timeout', $1::text, true)`,
  (idle: string) => [idle],
)
const limited = prepared(
  `select set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('lock_timeout', $2::text, true)`,
  (idle: string, lock: string) => [idle, lock],
)

const probe = `select '${PROBE.text}'::text as probe_text, ${PROBE.number}::bigint as probe_number,
  ${MS(`timestamptz '${new Date(PROBE.time).toISOString()}'`)} as probe_time, decode('${PROBE.bytes}', 'hex') as probe_bytes,
  '${PROBE.uuid}'::text as probe_uuid, true as probe_true, false as probe_false, null::text as probe_null`

/** Of many rows only one has it. */
function backendOf(answers: readonly Result[]): readonly [number, string, string] | undefined {
  for (const { rows } of answers) {
    for (const row of rows) {
      const backend = row['backend']
      if (backend == null) continue
      const [pid, xid, server] = asText(backend).split(' ')
      return [asNumber(pid), asText(xid), asText(server)]
    }
  }
  return undefined
}
