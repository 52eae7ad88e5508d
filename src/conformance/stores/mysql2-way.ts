import type { Connection as Callbacks } from 'mysql2'
import type mysql2 from 'mysql2/promise'
import { loadClient } from '../../base/index.ts'
import { type MysqlTx, mysql } from '../../stores/mysql/index.ts'
import type { Way } from './way.ts'

type Tx = MysqlTx<mysql2.PoolConnection>
type Own = Tx | mysql2.PoolConnection

/** The way of `mysql2` itself: the user's own transactions are connections that have begun one. */
export const mysql2Way: Way<Tx, Own> = {
  cannot: {},
  open: async ({ url, name: database, max, control }) => {
    const client = await loadClient('conformance of MySQL', ['mysql2'], () => import('mysql2/promise'))
    const pool = client.createPool({ uri: url, connectionLimit: max })
    const withClient = async <T>(work: (client: mysql2.PoolConnection) => Promise<T>): Promise<T> => {
      const client = await pool.getConnection()
      return work(client).finally(() => client.release())
    }
    return {
      store: mysql<mysql2.PoolConnection, Tx, Own>({ pool, database, ...(control && { control: { url } }) }),
      own: (work) =>
        withClient(async (client) => {
          await client.beginTransaction()
          try {
            const value = await work(client)
            await client.commit()
            return value
          } catch (error) {
            await client.rollback()
            throw error
          }
        }),
      notBegun: withClient,
      close: () => pool.end(),
    }
  },
  client: (tx) => tx,
  leaveOpen: (tx) => (tx.client as unknown as { connection: Callbacks }).connection.query('do sleep(300)'),
}
