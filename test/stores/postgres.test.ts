import { type PgClient, type PgPoolClient, type PgTx, postgres } from 'hapax/postgres'
import pg from 'pg'
import { afterAll } from 'vitest'
import { postgresHarness } from '../support/postgres-harness.ts'
import { requireServer } from '../support/servers.ts'
import { runStoreCases } from '../support/store-suite.ts'

const admin = new pg.Pool({ connectionString: requireServer('postgres'), max: 4 })
afterAll(() => admin.end())

async function withClient<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  return work(client).finally(() => client.release())
}

runStoreCases(
  postgresHarness<PgTx<pg.PoolClient & PgPoolClient>, PgClient>(admin, {
    cannot: {},
    storeOn: (pool, schema) => postgres({ pool, schema }),
    client: (tx) => tx,
    own: (pool, work) =>
      withClient(pool, async (client) => {
        await client.query('begin')
        try {
          const value = await work(client)
          await client.query('commit')
          return value
        } catch (error) {
          await client.query('rollback')
          throw error
        }
      }),
    notBegun: withClient,
  }),
)
