import type { Store } from 'hapax'
import { type PgClient, type PgPoolClient, type PgTx, postgres } from 'hapax/postgres'
import type { StoreHarness } from 'hapax/testing'
import pg from 'pg'
import { afterAll } from 'vitest'
import { requireServer } from '../support/servers.ts'
import { businessTables, runStoreCases, sqlBusiness } from '../support/store-suite.ts'

type Tx = PgTx<PgPoolClient>
type Own = Tx | PgClient

const connectionString = requireServer('postgres')
const admin = new pg.Pool({ connectionString, max: 4 })
afterAll(() => admin.end())

let opened = 0

const harness: StoreHarness<Tx, Own> = {
  features: { ...postgres({ pool: admin }).features, errorsAbort: true, cannot: {} },

  async open({ migrated, connections }) {
    const schema = `suite_${process.pid}_${++opened}`
    const table = (name: string): string => `${schema}.${name}`
    await admin.query([`create schema ${schema}`, ...businessTables(table, 'text')].join(';'))
    const pools: pg.Pool[] = []
    const another = async () => {
      const pool = new pg.Pool({ connectionString, max: connections })
      pools.push(pool)
      return postgres({ pool, schema }) as Store<Tx, Own>
    }
    const store = await another()
    if (migrated) await store.migrate()
    const column = async (text: string): Promise<string[]> =>
      (await admin.query<{ value: string }>(text)).rows.map(({ value }) => value)
    const withClient = async <T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> => {
      const client = await admin.connect()
      return work(client).finally(() => client.release())
    }
    return {
      ...sqlBusiness<Tx, Own>(table, '$1'),
      store,
      another,
      effects: () => column(`select label as value from ${schema}.effects`),
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
      outbox: () => column(`select id as value from ${schema}.outbox order by seq`),
      setSeq: (seq) =>
        admin.query(
          `alter table ${schema}.inbox alter seq restart ${seq}; alter table ${schema}.failed alter seq restart ${seq}`,
        ),
      drift: () => admin.query(`update ${schema}.migrations set checksum = 'other' where version = 1`),
      close: async () => {
        for (const pool of pools) await pool.end()
        await admin.query(`drop schema ${schema} cascade`)
      },
    }
  },
}

runStoreCases(harness)
