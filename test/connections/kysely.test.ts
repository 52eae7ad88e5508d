import Sqlite from 'better-sqlite3'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { fromKysely } from 'hapax/kysely'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import {
  CompiledQuery,
  type Dialect,
  Kysely,
  MysqlDialect,
  PostgresDialect,
  SqliteDialect,
  type Transaction,
} from 'kysely'
import { createPool } from 'mysql2'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { countEffects, insertEffect, makePlace } from '../support/databases.ts'
import { type Reached, runPair } from '../support/pairs.ts'
import { requireServer, testStores } from '../support/servers.ts'

type Tx = Transaction<unknown>

const cannot = {
  'watched statements': `Kysely runs the handler's statements itself: a swallowed deadlock costs an attempt`,
}

const reached = (dialect: Dialect, pool?: object): Reached<Tx> => {
  const db = new Kysely<unknown>({ dialect })
  return {
    from: fromKysely(db, pool === undefined ? {} : { pool }),
    own: (work) => db.transaction().execute(work),
    notBegun: (work) => work(db as unknown as Tx),
    close: () => db.destroy(),
  }
}

const client = (tx: Tx) => ({
  query: (text: string, values: unknown[] = []) => tx.executeQuery(CompiledQuery.raw(text, values)),
})

const left = (text: string) => (tx: Tx) => tx.executeQuery(CompiledQuery.raw(text)).catch(() => {})

await runPair<Tx>({
  orm: 'kysely',
  driver: 'pg',
  database: 'postgres',
  cannot,
  open: ({ url, max }) => {
    const pool = new pg.Pool({ connectionString: url, max })
    return reached(new PostgresDialect({ pool }), pool)
  },
  client,
  leaveOpen: left('select pg_sleep(300)'),
})

await runPair<Tx>({
  orm: 'kysely',
  driver: 'mysql2',
  database: 'mysql',
  cannot,
  open: ({ url, max }) => {
    const pool = createPool({ uri: url, connectionLimit: max })
    return reached(new MysqlDialect({ pool }), pool)
  },
  client,
  leaveOpen: left('do sleep(300)'),
})

await runPair<Tx>({
  orm: 'kysely',
  driver: 'better-sqlite3',
  database: 'sqlite',
  cannot: { ...cannot, 'something left open': 'a statement is over when it returns' },
  open: ({ url }) => {
    // A wait for the lock would block the process, and with it the store that holds the lock.
    const database = new Sqlite(url, { timeout: 0 })
    database.pragma('synchronous = normal')
    return reached(new SqliteDialect({ database }))
  },
  client,
  leaveOpen: () => {},
})

describe.skipIf(!testStores().includes('postgres'))('kysely on pg alone', () => {
  it('K7: a role that a handler leaves behind is not that of the next one, nor of control statements', async () => {
    const pool = new pg.Pool({ connectionString: requireServer('postgres'), max: 2 })
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) })
    const schema = `kysely_role_${process.pid}`
    const hapax = createHapax({
      store: postgres(fromKysely(db, { pool }), { schema }),
      source: '/test',
      logger: silentLogger,
    })
    onTestFinished(async () => {
      await hapax.close()
      await pool.query(`drop schema ${schema} cascade`)
      await db.destroy()
    })
    await hapax.migrate()
    const consumer = hapax.consumer('careless')
    consumer.on(defineMessage('ping'), async (_, ctx) => {
      await ctx.tx.executeQuery(CompiledQuery.raw('set role pg_monitor'))
    })
    for (const id of ['a', 'b', 'c', 'd']) {
      expect(await consumer.handle({ id, source: '/test', type: 'ping', data: {} })).toMatchObject({
        status: 'processed',
      })
      expect(await hapax.receipts.list({ consumer: 'careless' })).not.toEqual([])
    }
  })
})

describe.skipIf(!testStores().includes('mysql'))('kysely on mysql2 without its pool', () => {
  it('A4: a handler that loses its session after a statement that commits fails as broken atomicity', async () => {
    await using checker = await makePlace('mysql')
    const { place } = checker
    const db = new Kysely<unknown>({
      dialect: new MysqlDialect({ pool: createPool({ uri: place.url, connectionLimit: 3 }) }),
    })
    const store = mysql(fromKysely(db), { database: new URL(place.url).pathname.slice(1) })
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    onTestFinished(() => db.destroy())
    const consumer = hapax.consumer('careless', { receive: 'store' }).on(defineMessage('ping'), async (_, { tx }) => {
      const query = (text: string) => tx.executeQuery<{ id: number }>(CompiledQuery.raw(text))
      await query(insertEffect(place, 'careless', 'a'))
      await query('create table ended (id integer)')
      const { rows } = await query('select connection_id() as id')
      await checker.query(`kill ${rows[0]?.id}`)
      await query(insertEffect(place, 'careless', 'b'))
    })
    await consumer.handle({ id: 'a', source: '/test', type: 'ping', data: {} })
    const worker = hapax.worker({ consume: [consumer], pollMs: 20 })
    await worker.start()
    await worker.drain()
    await worker.stop()
    expect(await countEffects(checker)).toEqual(new Map([['careless a', 1]]))
    expect((await hapax.failed.list()).map(({ reason }) => reason)).toEqual(['broken-atomicity'])
    await hapax.close()
  })
})
