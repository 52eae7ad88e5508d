import type pg from 'pg'
import { loadClient } from '../../base/index.ts'
import { type PgClient, type PgPoolClient, type PgTx, postgres } from '../../stores/postgres/index.ts'
import type { Way } from './way.ts'

/** The way of `pg` itself: the user's own transactions are clients that have begun one. */
export const pgWay: Way<PgTx<pg.PoolClient & PgPoolClient>, PgClient> = {
  cannot: {},
  open: async ({ url, name: schema, max, control }) => {
    const { default: client } = await loadClient('conformance of PostgreSQL', ['pg'], () => import('pg'))
    const pool = new client.Pool({ connectionString: url, max })
    // The suite ends sessions. The next statement says so.
    pool.on('connect', (session) => session.on('error', () => {}))
    const withClient = async <T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> => {
      const client = await pool.connect()
      return work(client).finally(() => client.release())
    }
    return {
      store: postgres({ pool, schema, ...(control && { control: { url } }) }),
      own: (work) =>
        withClient(async (client) => {
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
      close: () => pool.end(),
    }
  },
  client: (tx) => tx,
  leaveOpen: (tx) => tx.client.query('select pg_sleep(300)', () => {}),
}
