import { once } from 'node:events'
import type { Socket } from 'node:net'
import { sql } from 'drizzle-orm'
import { type MySql2Database, drizzle as onMysql } from 'drizzle-orm/mysql2'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { createHapax } from 'hapax'
import { fromDrizzle } from 'hapax/drizzle'
import { postgres } from 'hapax/postgres'
import mysql2 from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runPair } from '../support/pairs.ts'
import { requireServer, testStores } from '../support/servers.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

const param = (text: string, place: '$1' | '?', values: readonly unknown[] = []) =>
  sql.join(
    text.split(place).flatMap((part, index) => (index === 0 ? [sql.raw(part)] : [sql.param(values[0]), sql.raw(part)])),
  )

const cannot = {
  'watched statements': `Drizzle runs the handler's statements itself: a swallowed deadlock costs an attempt`,
}

type PgTx = Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0]

await runPair<PgTx>({
  orm: 'drizzle',
  driver: 'pg',
  database: 'postgres',
  cannot,
  open: ({ url, max }) => {
    const pool = new pg.Pool({ connectionString: url, max })
    const db = drizzle(pool)
    return {
      from: fromDrizzle(db, sql),
      own: (work) => db.transaction(work),
      notBegun: (work) => work(db as unknown as PgTx),
      close: () => pool.end(),
    }
  },
  client: (tx) => ({ query: async (text, values) => tx.execute(param(text, '$1', values)) }),
  leaveOpen: (tx) => tx.execute(sql`select pg_sleep(300)`).catch(() => {}),
  nested: (tx, work) => tx.transaction(work),
})

type MysqlTx = Parameters<Parameters<MySql2Database['transaction']>[0]>[0]

await runPair<MysqlTx>({
  orm: 'drizzle',
  driver: 'mysql2',
  database: 'mysql',
  cannot,
  open: ({ url, max }) => {
    const pool = mysql2.createPool({ uri: url, connectionLimit: max })
    const db = onMysql({ client: pool })
    return {
      from: fromDrizzle(db, sql),
      own: (work) => db.transaction(work),
      notBegun: (work) => work(db as unknown as MysqlTx),
      close: () => pool.end(),
    }
  },
  client: (tx) => ({ query: async (text, values) => tx.execute(param(text, '?', values)) }),
  leaveOpen: (tx) => tx.execute(sql`do sleep(300)`).catch(() => {}),
  nested: (tx, work) => tx.transaction(work),
})

describe.skipIf(!testStores().includes('postgres'))('drizzle on pg alone', () => {
  it('E8: a link that breaks before BEGIN is answered ends no process, and its connection is replaced', async () => {
    const pool = new pg.Pool({ connectionString: requireServer('postgres'), max: 2 })
    onTestFinished(() => pool.end())
    const client = await pool.connect()
    client.release()
    const uncaught = uncaughtErrors()
    const hapax = createHapax({ store: postgres(fromDrizzle(drizzle(pool), sql)), source: '/test' })
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
    const broken = once(stream, 'close')
    pool.once('acquire', () => stream.destroy())
    const failure = await hapax.transaction(async () => {}).catch((error: unknown) => error)
    await broken
    expect(failure).toMatchObject({ code: 'store-unavailable' })
    expect({ total: pool.totalCount, idle: pool.idleCount }).toEqual({ total: 0, idle: 0 })
    expect(uncaught).toEqual([])
  })

  it('E8: a link that breaks while nobody uses it ends no process', async () => {
    const pool = new pg.Pool({ connectionString: requireServer('postgres'), max: 1 })
    onTestFinished(() => pool.end())
    const client = await pool.connect()
    const uncaught = uncaughtErrors()
    postgres(fromDrizzle(drizzle(pool), sql))
    client.release()
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
    const broken = once(stream, 'close')
    stream.destroy()
    await broken
    expect(uncaught).toEqual([])
  })
})
