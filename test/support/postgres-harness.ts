import type { Store } from 'hapax'
import type { HarnessFeatures, StoreHarness } from 'hapax/testing'
import pg from 'pg'
import { businessTables, type Client, sqlBusiness } from './store-suite.ts'

/** How a way to reach PostgreSQL differs from another one. */
export interface PostgresWay<Tx, Own> {
  readonly cannot: HarnessFeatures['cannot']
  storeOn(pool: pg.Pool, schema: string, control?: string): Store<Tx, Own>
  /** Statements in a transaction of this way. */
  client(tx: Tx | Own): Client
  /** See `TestDatabase`. */
  leaveOpen(tx: Tx): unknown
  /** A transaction that the user opened. */
  own<T>(pool: pg.Pool, work: (tx: Own) => Promise<T>): Promise<T>
  /** What would be one, had it been begun. */
  notBegun<T>(pool: pg.Pool, work: (tx: Own) => Promise<T>): Promise<T>
}

let opened = 0

/** The conformance harness of PostgreSQL: a schema for each case. */
export function postgresHarness<Tx, Own>(admin: pg.Pool, way: PostgresWay<Tx, Own>): StoreHarness<Tx, Own> {
  return {
    features: { ...way.storeOn(admin, 'hapax').features, errorsAbort: true, cannot: way.cannot },
    async open({ migrated, connections }) {
      const schema = `suite_${process.pid}_${++opened}`
      // The journal has the name.
      const table = (name: string): string => `${schema}.${name === 'effects' ? 'business' : name}`
      await admin.query([`create schema ${schema}`, ...businessTables(table, 'text')].join(';'))
      const pools: pg.Pool[] = []
      const stores: Store<Tx, Own>[] = []
      const givenBack: (() => void)[] = []
      const poolOf = (max: number): pg.Pool => {
        const pool = new pg.Pool({ ...admin.options, max })
        pools.push(pool)
        return pool
      }
      const another = async (): Promise<Store<Tx, Own>> => way.storeOn(poolOf(connections), schema)
      const store = await another()
      if (migrated) await store.migrate()
      const column = async (text: string): Promise<string[]> =>
        (await admin.query<{ value: string }>(text)).rows.map(({ value }) => value)
      return {
        ...sqlBusiness<Tx, Own>(way.client, table, '$1'),
        store,
        another,
        pooled: async (max) => {
          const pool = poolOf(max)
          const own = way.storeOn(pool, schema, admin.options.connectionString)
          const useUp = async () => {
            const clients = await Promise.all(Array.from({ length: max }, () => pool.connect()))
            const giveBack = () => clients.splice(0).forEach((client) => void client.release())
            givenBack.push(giveBack)
            return giveBack
          }
          stores.push(own)
          return { store: own, useUp }
        },
        leaveOpen: (tx) => way.leaveOpen(tx),
        effects: () => column(`select label as value from ${schema}.business`),
        own: (work) => way.own(admin, work),
        notBegun: (work) => way.notBegun(admin, work),
        outbox: () => column(`select id as value from ${schema}.outbox order by seq`),
        setSeq: (seq) =>
          admin.query(
            `alter table ${schema}.inbox alter seq restart ${seq}; alter table ${schema}.failed alter seq restart ${seq}`,
          ),
        drift: () => admin.query(`update ${schema}.migrations set checksum = 'other' where version = 1`),
        close: async () => {
          for (const each of givenBack) each()
          for (const each of stores) await each.close()
          for (const pool of pools) await pool.end()
          await admin.query(`drop schema ${schema} cascade`)
        },
      }
    },
  }
}
