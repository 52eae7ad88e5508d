import { once } from 'node:events'
import type { Socket } from 'node:net'
import { sql } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { createHapax } from 'hapax'
import { fromDrizzle } from 'hapax/drizzle'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { pgPool } from '../support/pg-pool.ts'
import { postgresHarness } from '../support/postgres-harness.ts'
import { inThisRun } from '../support/runs.ts'
import { requireServer } from '../support/servers.ts'
import { connectionTopics, runStoreCases } from '../support/store-suite.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

type Tx = Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0]

const admin = pgPool({ connectionString: requireServer('postgres'), max: 4 })
afterAll(() => admin.end())

const param = (text: string, values: readonly unknown[] = []) =>
  sql.join(
    text.split('$1').flatMap((part, index) => (index === 0 ? [sql.raw(part)] : [sql.param(values[0]), sql.raw(part)])),
  )

runStoreCases(
  postgresHarness<Tx, Tx>(admin, {
    cannot: {
      'watched statements': `Drizzle runs the handler's statements itself: a swallowed deadlock costs an attempt`,
    },
    storeOn: (pool, schema) => postgres(fromDrizzle(drizzle(pool), sql), { schema }),
    client: (tx) => ({ query: async (text, values) => tx.execute(param(text, values)) }),
    leaveOpen: (tx) => tx.execute(sql`select pg_sleep(300)`).catch(() => {}),
    own: (pool, work) => drizzle(pool).transaction(work),
    notBegun: (pool, work) => work(drizzle(pool) as unknown as Tx),
  }),
  (cases) => inThisRun(cases, ({ topic }) => connectionTopics.includes(topic)),
)

it('E8: a link that breaks before BEGIN is answered ends no process', async () => {
  const pool = new pg.Pool({ connectionString: requireServer('postgres'), max: 2 })
  onTestFinished(() => pool.end())
  const client = await pool.connect()
  client.release()
  const uncaught = uncaughtErrors()
  const hapax = createHapax({ store: postgres(fromDrizzle(drizzle(pool), sql)), source: '/test' })
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
  const broken = once(stream, 'close')
  pool.once('acquire', () => stream.destroy())
  const failure = await hapax.transaction(async () => {}).catch((error: unknown) => error)
  await broken
  // Drizzle does not give a client back on which BEGIN failed.
  client.release()
  expect(failure).toMatchObject({ code: 'store-unavailable' })
  expect(uncaught).toEqual([])
})

it('E8: a link that breaks while nobody uses it ends no process', async () => {
  const pool = new pg.Pool({ connectionString: requireServer('postgres'), max: 1 })
  onTestFinished(() => pool.end())
  const client = await pool.connect()
  const uncaught = uncaughtErrors()
  fromDrizzle(drizzle(pool), sql)
  client.release()
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
  const broken = once(stream, 'close')
  stream.destroy()
  await broken
  expect(uncaught).toEqual([])
})
