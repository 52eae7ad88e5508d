import type { Store } from 'hapax'
import type { HarnessFeatures, StoreHarness } from 'hapax/testing'
import pg from 'pg'
import { afterAll } from 'vitest'
import { Shelf } from './shelf.ts'
import { businessTables, type Client, sqlBusiness } from './sql-business.ts'

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

/** No case writes into them, except by what makes a schema unfit for another case. */
const KEPT_TABLES = ['migrations', 'counters']

/** The name of a business table; the journal is called `effects` already. */
function tableIn(schema: string, name: string): string {
  return `${schema}.${name === 'effects' ? 'business' : name}`
}

async function makeSchema(admin: pg.Pool): Promise<string> {
  const schema = `suite_${process.pid}_${++opened}`
  const tables = businessTables((name) => tableIn(schema, name), 'text')
  // Without a number, rows come in the order of the heap, which reuses the space of rows that earlier cases left.
  const numbered = `alter table ${tableIn(schema, 'effects')} add column at bigint generated always as identity`
  await admin.query([`create schema ${schema}`, ...tables, numbered].join(';'))
  return schema
}

/** Schemas with all tables, which cases use one after another. */
function migratedSchemas<Tx, Own>(admin: pg.Pool, way: PostgresWay<Tx, Own>): Shelf {
  const shelf = new Shelf({
    make: async () => {
      const schema = await makeSchema(admin)
      await way.storeOn(admin, schema).schema.migrate()
      return schema
    },
    empty: async (schema) => {
      const tables = (await tablesIn(admin, schema)).filter((name) => !KEPT_TABLES.includes(name))
      const names = tables.map((name) => `${schema}.${name}`)
      await admin.query([`lock table ${names.join(', ')}`, ...names.map((name) => `delete from ${name}`)].join(';'))
    },
    drop: (schema) => admin.query(`drop schema ${schema} cascade`),
  })
  afterAll(() => shelf.clear())
  return shelf
}

async function tablesIn(admin: pg.Pool, schema: string): Promise<string[]> {
  const text = 'select tablename as name from pg_tables where schemaname = $1'
  return (await admin.query<{ name: string }>(text, [schema])).rows.map(({ name }) => name)
}

/** The conformance harness of PostgreSQL: a schema for each case. */
export function postgresHarness<Tx, Own>(admin: pg.Pool, way: PostgresWay<Tx, Own>): StoreHarness<Tx, Own> {
  const shelf = migratedSchemas(admin, way)
  return {
    features: { ...way.storeOn(admin, 'hapax').features, errorsAbort: true, cannot: way.cannot },
    async open({ migrated, connections }) {
      const schema = migrated ? await shelf.take() : await makeSchema(admin)
      let isReusable = migrated
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
      const column = async (text: string): Promise<string[]> =>
        (await admin.query<{ value: string }>(text)).rows.map(({ value }) => value)
      return {
        ...sqlBusiness<Tx, Own>(way.client, (name) => tableIn(schema, name), '$1'),
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
        effects: () => column(`select label as value from ${schema}.business order by at`),
        own: (work) => way.own(admin, work),
        notBegun: (work) => way.notBegun(admin, work),
        outbox: () => column(`select id as value from ${schema}.outbox order by seq`),
        setSeq: (seq) => {
          isReusable = false
          const restart = (name: string): string => `alter table ${schema}.${name} alter seq restart ${seq}`
          return admin.query(`${restart('inbox')}; ${restart('failed')}`)
        },
        drift: () => {
          isReusable = false
          return admin.query(`update ${schema}.migrations set checksum = 'other' where version = 1`)
        },
        close: async () => {
          for (const each of givenBack) each()
          for (const each of stores) await each.close()
          for (const pool of pools) await pool.end()
          await (isReusable ? shelf.giveBack(schema) : shelf.drop(schema))
        },
      }
    },
  }
}
