import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { createHapax, defineMessage, type FailedMessage, type Store, silentLogger } from 'hapax'
import { fromKysely } from 'hapax/kysely'
import { type MysqlTx, mysql } from 'hapax/mysql'
import { Kysely, MysqlDialect, type Transaction } from 'kysely'
import callbacks from 'mysql2'
import mysql2 from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { altered } from '../../src/testing/altered.ts'
import { LeapingClock } from '../../src/testing/clock.ts'
import { requireServer } from '../support/servers.ts'

const Thing = defineMessage<object>('thing.done')
const database = `link_${randomBytes(6).toString('hex')}`
const other = `${database}_other`
const uri = requireServer('mysql')
let admin: mysql2.Connection

beforeAll(async () => {
  admin = await mysql2.createConnection({ uri, multipleStatements: true })
  admin.on('error', () => {})
  await admin.query(`create database ${database};create database ${other};use ${database}`)
  await admin.query('create table effects (note varchar(100))')
  await migrate(database)
})

afterAll(async () => {
  await admin.query(`drop database ${database};drop database ${other}`)
  await admin.end()
})

async function migrate(into: string): Promise<void> {
  const pool = mysql2.createPool({ uri, database: into })
  await mysql({ pool }).schema.migrate()
  await pool.end()
}

function poolWith(settings: mysql2.PoolOptions = {}): mysql2.Pool {
  const pool = mysql2.createPool({ uri, database, connectionLimit: 4, ...settings })
  onTestFinished(() => pool.end())
  return pool
}

const hapaxOn = (pool: mysql2.Pool) => createHapax({ store: mysql({ pool }), source: '/test', logger: silentLogger })

const arrived = (id: string) => ({ id, source: '/test', type: 'thing.done', data: {} })

async function column(text: string): Promise<unknown[]> {
  const [rows] = await admin.query<mysql2.RowDataPacket[]>(text)
  return rows.map((row) => Object.values(row)[0])
}

/** Calls `then` when a connection of the pool has sent the ROLLBACK that `isChosen` chooses, whose answer does not arrive. */
function afterRollback(pool: mysql2.Pool, isChosen: () => boolean, then: () => void): void {
  pool.on('connection', (connection: object) => {
    const link = connection as { addCommand(command: { readonly sql?: unknown }): unknown; stream: Readable }
    const { addCommand } = link
    link.addCommand = (command) => {
      const added = addCommand.call(link, command)
      if (command.sql === 'rollback' && isChosen()) {
        link.stream.pause()
        then()
      }
      return added
    }
  })
}

type Open<Store> = (isChosen: () => boolean, then: () => void) => Store

const onMysql2: Open<Store<MysqlTx>> = (isChosen, then) => {
  const pool = poolWith()
  afterRollback(pool, isChosen, then)
  return mysql({ pool })
}

/** Through an ORM, which sends ROLLBACK itself. */
const onKysely: Open<Store<Transaction<object>>> = (isChosen, then) => {
  const pool = callbacks.createPool({ uri, database, connectionLimit: 4 })
  const db = new Kysely<object>({ dialect: new MysqlDialect({ pool }) })
  onTestFinished(() => db.destroy())
  afterRollback(pool.promise(), isChosen, then)
  return mysql(fromKysely(db, { pool }), { database })
}

/** Its process stands still from its ROLLBACK to its time-out; another worker settles the message meanwhile. */
async function failedAfterStandstill<Tx>(name: string, open: Open<Store<Tx>>): Promise<readonly FailedMessage[]> {
  const clock = new LeapingClock()
  const timeoutMs = 60_000
  let calls = 0
  let stopped = 0
  const store = open(
    () => calls === 1 && stopped === 0,
    () => {
      stopped += 1
      clock.leap(timeoutMs)
    },
  )
  const overtaken = altered(store, {
    inbox: {
      reschedule: async (row) => {
        await admin.query(`delete from hapax_inbox where consumer = '${name}'`)
        return store.inbox.reschedule(row)
      },
    },
  })
  const hapax = createHapax({ store: overtaken, source: '/test', logger: silentLogger, clock })
  const consumer = hapax.consumer(name, { receive: 'store', timeoutMs }).on(Thing, () => {
    calls += 1
    throw new Error('once')
  })
  await consumer.handle(arrived('still'))
  const worker = hapax.worker({ consume: [consumer], pollMs: 20 })
  await worker.start()
  await worker.drain()
  await worker.stop()
  expect([calls, stopped]).toEqual([1, 1])
  const failed = await hapax.failed.list()
  await hapax.close()
  return failed
}

describe('a handler that fails, and whose process stands still during ROLLBACK until another worker has settled its message', () => {
  it('A13: is not suspected of a commit', async () => {
    expect(await failedAfterStandstill('mysql2', onMysql2)).toEqual([])
  })

  it('A13: is not suspected of a commit through an ORM', async () => {
    expect(await failedAfterStandstill('kysely', onKysely)).toEqual([])
  })
})

describe('the database', () => {
  it('K3: stays the same for the receipts of a handler that says USE', async () => {
    // The tables of another application, or of a copy.
    await migrate(other)
    const consumer = hapaxOn(poolWith({ connectionLimit: 1 })).consumer('users')
    consumer.on(Thing, async (_, { tx }) => {
      await tx.query(`insert into ${database}.effects values ('use')`)
      await tx.query(`use ${other}`)
    })
    expect((await consumer.handle(arrived('use'))).status).toBe('processed')
    expect((await consumer.handle(arrived('use'))).status).toBe('duplicate')
    expect(await column(`select count(*) from effects where note = 'use'`)).toEqual([1])
    expect(await column(`select count(*) from ${other}.hapax_receipts`)).toEqual([0])
  })

  it('K3: has to be known', async () => {
    const pool = poolWith({ uri: uri.replace(/\/[^/]*$/, '/'), database: '' })
    expect(() => mysql({ pool })).toThrow('expected database to be the name of the database')
    expect(() => mysql({ pool, database: 'a`b' })).toThrow('expected database to be')
    await mysql({ pool, database }).schema.ready()
  })
})

/** More than fits into the buffers between here and there. */
const MANY = `
with recursive n as (select 1 as i union all select i + 1 from n where i < 1000) select i, repeat('x', 10000) from n`

describe('a connection', () => {
  it('K10: that has become read-only is not used again', async () => {
    const pool = poolWith({ connectionLimit: 1 })
    const consumer = hapaxOn(pool).consumer('read-only')
    consumer.on(Thing, async (_, { tx }) => void (await tx.query(`insert into effects values ('read-only')`)))
    expect((await consumer.handle(arrived('first'))).status).toBe('processed')
    // What a client sees of a primary that has become a replica.
    await pool.query('set session transaction read only')
    expect((await consumer.handle(arrived('a'))).status).toBe('processed')
    expect(await column(`select count(*) from effects where note = 'read-only'`)).toEqual([2])
  })

  it('K10: that became read-only under a handler is not used again', async () => {
    const consumer = hapaxOn(poolWith({ connectionLimit: 1 })).consumer('under')
    const ids: unknown[] = []
    consumer.on(Thing, async (_, { tx }) => {
      ids.push((await tx.query<{ id: number }>('select connection_id() as id')).rows[0]?.id)
      // ER_READ_ONLY_MODE, as a server that has just become a replica says it.
      if (ids.length === 1) await tx.query(`signal sqlstate 'HY000' set mysql_errno = 1836`)
    })
    expect(await consumer.handle(arrived('a'))).toMatchObject({ ack: false })
    expect((await consumer.handle(arrived('a'))).status).toBe('processed')
    expect(new Set(ids).size).toBe(2)
  })

  it('K11: with a paused stream is an attempt', async () => {
    const consumer = hapaxOn(poolWith()).consumer('streams')
    consumer.on(Thing, async (_, { tx }) => {
      const { connection } = tx.client as unknown as { connection: callbacks.Connection }
      const rows = connection.query(MANY).stream()
      await once(rows, 'data')
      rows.pause()
    })
    expect(await consumer.handle(arrived('a'))).toMatchObject({
      status: 'retrying',
      error: { code: 'unawaited-query' },
    })
  })

  it('K12: without room for a handler’s own SQL is an attempt', async () => {
    const consumer = hapaxOn(poolWith()).consumer('attempts')
    consumer.on(Thing, async (_, { tx }) => {
      await tx.query(`signal sqlstate 'HY000' set mysql_errno = 1114, message_text = 'the table is full'`)
    })
    expect((await consumer.handle(arrived('a'))).status).toBe('retrying')
  })
})

describe('what a handler leaves behind', () => {
  it.each([
    `set time_zone = '+09:00'`,
    `set @tenant = 'one'`,
    `use ${other}`,
    'create temporary table left_behind (id int)',
  ])('K10: does not reach the next message: %s', async (leave) => {
    const consumer = hapaxOn(poolWith({ connectionLimit: 1 })).consumer(`left ${leave}`)
    const seen: unknown[] = []
    consumer.on(Thing, async (_, { tx }) => {
      const look = 'select @@time_zone as zone, @tenant as tenant, database() as here'
      const there = await tx.query('select 1 from left_behind').then(Boolean, () => false)
      seen.push([(await tx.query(look)).rows[0], there])
      await tx.query(leave)
    })
    for (const id of ['a', 'b']) expect((await consumer.handle(arrived(id))).status).toBe('processed')
    expect(seen[1]).toEqual(seen[0])
  })
})

describe('results', () => {
  it.each<mysql2.PoolOptions>([
    { rowsAsArray: true },
    { nestTables: true },
    { typeCast: () => 'anything' },
    { namedPlaceholders: true },
    { supportBigNumbers: true, bigNumberStrings: true, decimalNumbers: true, dateStrings: true },
  ])('K3: are what was asked for on a pool with %j', async (settings) => {
    const pool = poolWith(settings)
    await mysql({ pool }).schema.ready()
    const consumer = hapaxOn(pool).consumer(`settings ${Object.keys(settings)[0]}`)
    consumer.on(Thing, async (_, { tx }) => void (await tx.query(`insert into effects values (?)`, ['settings'])))
    expect((await consumer.handle(arrived('a'))).status).toBe('processed')
    expect((await consumer.handle(arrived('a'))).status).toBe('duplicate')
  })

  it('K3: under other names are refused', async () => {
    const pool = poolWith()
    const renamed = {
      getConnection: async () => {
        const client = await pool.getConnection()
        const query = client.query.bind(client) as unknown as (sql: unknown) => Promise<[unknown, unknown]>
        client.query = (async (text: unknown) => {
          const [rows, fields] = await query(text)
          if (!Array.isArray(rows)) return [rows, fields]
          return [rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [`${key}_`, value])))]
        }) as never
        return client
      },
    }
    await expect(mysql({ pool: renamed, database }).schema.ready()).rejects.toMatchObject({
      code: 'unrecognised-result',
    })
  })
})
