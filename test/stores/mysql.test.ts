import type { Store } from 'hapax'
import { type MysqlTx, mysql } from 'hapax/mysql'
import type { StoreHarness } from 'hapax/testing'
import type { Connection as Callbacks } from 'mysql2'
import mysql2 from 'mysql2/promise'
import { afterAll } from 'vitest'
import { requireServer } from '../support/servers.ts'
import { Shelf } from '../support/shelf.ts'
import { businessTables, sqlBusiness } from '../support/sql-business.ts'
import { runStoreCases } from '../support/store-suite.ts'

type Tx = MysqlTx<mysql2.PoolConnection>
type Own = Tx | mysql2.PoolConnection

const uri = requireServer('mysql')
const admin = mysql2.createPool({ uri, connectionLimit: 4, multipleStatements: true })
afterAll(() => admin.end())

let opened = 0

async function makeDatabase(): Promise<string> {
  const database = `suite_${process.pid}_${++opened}`
  const tables = businessTables((name) => `${database}.${name}`, 'varchar(255)')
  await admin.query([`create database ${database}`, ...tables].join(';'))
  return database
}

/** No case writes into them, except by what makes a database unfit for another case. */
const KEPT_TABLES = ['hapax_migrations', 'counters']

/** Databases with all tables, which cases use one after another. */
const shelf = new Shelf({
  make: async () => {
    const database = await makeDatabase()
    const pool = mysql2.createPool({ uri, database, connectionLimit: 1 })
    await mysql({ pool }).schema.migrate()
    await pool.end()
    return database
  },
  empty: async (database) => {
    const names = (await tablesIn(database)).filter((name) => !KEPT_TABLES.includes(name))
    const locked = names.map((name) => `${database}.${name} write`).join(', ')
    const emptied = names.map((name) => `delete from ${database}.${name}`)
    await admin.query([`lock tables ${locked}`, ...emptied, 'unlock tables'].join(';'))
  },
  drop: (database) => admin.query(`drop database ${database}`),
})
afterAll(() => shelf.clear())

async function tablesIn(database: string): Promise<string[]> {
  return column(`select table_name as value from information_schema.tables where table_schema = '${database}'`)
}

async function column(text: string): Promise<string[]> {
  const [rows] = await admin.query<mysql2.RowDataPacket[]>(text)
  return rows.map(({ value }) => String(value))
}

const harness: StoreHarness<Tx, Own> = {
  features: { ...mysql({ pool: admin }).features, errorsAbort: false, cannot: {} },

  async open({ migrated, connections }) {
    const database = migrated ? await shelf.take() : await makeDatabase()
    let isReusable = migrated
    const pools: mysql2.Pool[] = []
    const stores: Store<Tx, Own>[] = []
    const givenBack: (() => void)[] = []
    const another = async () => {
      const pool = mysql2.createPool({ uri, database, connectionLimit: connections })
      pools.push(pool)
      return mysql({ pool }) as Store<Tx, Own>
    }
    const store = await another()
    const withClient = async <T>(work: (client: mysql2.PoolConnection) => Promise<T>): Promise<T> => {
      const client = await (pools[0] as mysql2.Pool).getConnection()
      return work(client).finally(() => client.release())
    }
    return {
      ...sqlBusiness<Tx, Own>(
        (tx) => tx,
        (name) => `${database}.${name}`,
        '?',
      ),
      store,
      another,
      pooled: async (max) => {
        const pool = mysql2.createPool({ uri, database, connectionLimit: max })
        pools.push(pool)
        const url = new URL(uri)
        url.pathname = database
        const own = mysql({ pool, control: { url: url.href } }) as Store<Tx, Own>
        stores.push(own)
        const useUp = async () => {
          const clients = await Promise.all(Array.from({ length: max }, () => pool.getConnection()))
          const giveBack = () => clients.splice(0).forEach((client) => void client.release())
          givenBack.push(giveBack)
          return giveBack
        }
        return { store: own, useUp }
      },
      leaveOpen: (tx) => (tx.client as unknown as { connection: Callbacks }).connection.query('do sleep(300)'),
      effects: () => column(`select label as value from ${database}.effects`),
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
      outbox: () => column(`select id as value from ${database}.hapax_outbox order by seq`),
      setSeq: (seq) => {
        isReusable = false
        const restart = (name: string): string => `alter table ${database}.hapax_${name} auto_increment = ${seq}`
        return admin.query(`${restart('inbox')}; ${restart('failed')}`)
      },
      drift: () => {
        isReusable = false
        return admin.query(`update ${database}.hapax_migrations set checksum = 'other' where version = 1`)
      },
      close: async () => {
        for (const each of givenBack) each()
        for (const each of stores) await each.close()
        for (const pool of pools) await pool.end()
        await (isReusable ? shelf.giveBack(database) : shelf.drop(database))
      },
    }
  },
}

runStoreCases(harness)
