import { type PgClient, type PgPoolClient, type PgTx, postgres } from 'hapax/postgres'
import type pg from 'pg'
import type { PostgresWay } from './postgres-harness.ts'

async function withClient<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  return work(client).finally(() => client.release())
}

/** The way of `pg` itself: the user's own transactions are clients that have begun one. */
export const pgWay: PostgresWay<PgTx<pg.PoolClient & PgPoolClient>, PgClient> = {
  cannot: {},
  storeOn: (pool, schema, control) =>
    postgres({ pool, schema, ...(control !== undefined && { control: { url: control } }) }),
  client: (tx) => tx,
  leaveOpen: (tx) => tx.client.query('select pg_sleep(300)', () => {}),
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
}
