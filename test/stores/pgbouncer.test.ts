import { randomBytes } from 'node:crypto'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { pgWay } from '../../src/conformance/stores/pg-way.ts'
import { pgPool } from '../support/pg-pool.ts'
import { postgresHarness } from '../support/postgres-harness.ts'
import { inThisRun } from '../support/runs.ts'
import { narrowPgbouncer, requireServer, serverVariables } from '../support/servers.ts'
import { connectionTopics, runStoreCases } from '../support/store-suite.ts'

const url = process.env[serverVariables.pgbouncer]
const harness = await postgresHarness(url ?? 'postgres://none', {
  ...pgWay,
  cannot: { ...pgWay.cannot, sessions: 'PgBouncer shares the sessions among its clients' },
})

describe.skipIf(!url)('through PgBouncer in transaction mode (skipped where it is not installed)', () => {
  runStoreCases(harness, (cases) => inThisRun(cases, ({ topic }) => connectionTopics.includes(topic)))

  it('works with more workers than sessions, and leaves nothing behind in a session', async () => {
    await using narrow = await openNarrow()
    const { hapaxes, schema, pool } = narrow
    const Order = defineMessage<{ id: number }>('order')
    const workers = hapaxes.map((hapax) => {
      const consumer = hapax
        .consumer('billing', { concurrency: 4, retry: { minDelayMs: 1, maxDelayMs: 5 } })
        .on(Order, async ({ id }, { tx, attempt }) => {
          await tx.query(`insert into ${schema}.business (id) values (${id})`)
          if (id % 10 === 0 && attempt === 1) throw new Error('this one fails once')
        })
      return hapax.worker({ consume: [consumer], pollMs: 20 })
    })
    for (const worker of workers) await worker.start()
    const [publisher] = hapaxes
    for (let id = 0; id < 200; id++) {
      await publisher?.transaction((tx) => publisher.publish(tx, Order, { id }, { id: `order-${id}` }))
    }
    const all = Array.from({ length: 200 }, (_, id) => id)
    await expect
      .poll(async () => (await pool.query(`select id from ${schema}.business order by id`)).rows.map(({ id }) => id), {
        timeout: 80_000,
      })
      .toEqual(all)
    for (const worker of workers) await worker.stop()

    const sessions = await bothSessions(pool)
    expect(new Set(sessions.map(({ pid }) => pid)).size).toBe(2)
    const { boot } = narrow
    for (const { pid: _pid, ...state } of sessions) expect(state).toEqual(boot)
  })
})

const STATE = `select pg_backend_pid() as pid,
  (select json_object_agg(name, setting) from pg_settings where source = 'session' and name <> 'application_name') as changed,
  (select count(*)::int from pg_prepared_statements) as prepared,
  (select count(*)::int from pg_listening_channels()) as channels,
  (select count(*)::int from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,
  (select count(*)::int from pg_cursors where is_holdable) as cursors,
  (select count(*)::int from pg_class where pg_my_temp_schema() <> 0 and relnamespace = pg_my_temp_schema()) as temporary`

type SessionState = Readonly<Record<string, unknown>>

/** The state of both sessions: two transactions at once cannot share one. */
async function bothSessions(pool: pg.Pool): Promise<SessionState[]> {
  const clients = [await pool.connect(), await pool.connect()]
  try {
    for (const client of clients) await client.query('begin')
    const states: SessionState[] = []
    for (const client of clients) states.push((await client.query<SessionState>(STATE)).rows[0] as SessionState)
    for (const client of clients) await client.query('commit')
    return states
  } finally {
    for (const client of clients) client.release()
  }
}

/** Three hapaxes in a schema of their own, through a PgBouncer with two sessions. */
async function openNarrow() {
  const schema = `narrow_${randomBytes(5).toString('hex')}`
  const pool = pgPool({ connectionString: narrowPgbouncer(url as string), max: 20 })
  const [first] = await bothSessions(pool)
  const { pid: _pid, ...boot } = first as SessionState
  await pool.query(`create schema ${schema}`)
  await pool.query(`create table ${schema}.business (id integer not null)`)
  const hapaxes = Array.from({ length: 3 }, () =>
    createHapax({ store: postgres({ pool, schema }), source: '/shop', delivery: 'local', logger: silentLogger }),
  )
  await hapaxes[0]?.migrate()
  return {
    schema,
    pool,
    hapaxes,
    boot,
    [Symbol.asyncDispose]: async () => {
      for (const hapax of hapaxes) await hapax.close()
      await pool.end()
      const direct = new pg.Client(requireServer('postgres'))
      await direct.connect()
      await direct.query(`drop schema ${schema} cascade`)
      await direct.end()
    },
  }
}
