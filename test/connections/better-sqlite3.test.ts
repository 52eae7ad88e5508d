import Database from 'better-sqlite3'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { fromBetterSqlite3 } from 'hapax/better-sqlite3'
import { sqlite } from 'hapax/sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { runPair } from '../support/pairs.ts'
import { holding, temporaryFile } from '../support/sqlite-file.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

const none = () => Promise.reject(new Error('ruled out by the features'))

await runPair<Database.Database>({
  orm: 'better-sqlite3',
  driver: 'better-sqlite3',
  database: 'sqlite',
  cannot: { 'something left open': 'a statement is over when it returns' },
  open: ({ url }) => {
    const db = new Database(url)
    return { from: fromBetterSqlite3(db), own: none, notBegun: none, close: async () => db.close() }
  },
  client: (tx) => ({
    query: async (text, params = []) => {
      const statement = tx.prepare(text)
      return statement.reader ? statement.all(...params) : statement.run(...params)
    },
  }),
  leaveOpen: () => {},
})

const Placed = defineMessage<{ n: number }>('placed')

/** A file with a table, a handle of the application's, and a hapax on it. */
async function shop(options: Database.Options = {}) {
  const path = temporaryFile()
  const db = new Database(path, { timeout: 1, ...options })
  db.exec('create table orders (name text primary key)')
  const hapax = createHapax({ store: sqlite(fromBetterSqlite3(db)), source: '/test', logger: silentLogger })
  onTestFinished(async () => {
    await hapax.close()
    db.close()
  })
  await hapax.migrate()
  const orders = (): unknown[] => db.prepare('select name from orders order by name').pluck().all()
  return { path, db, hapax, orders }
}

describe('better-sqlite3', () => {
  it('A1: what the application runs on its own handle is no part of a transaction of hapax', async () => {
    const { db, hapax, orders } = await shop()
    const insert = db.prepare('insert into orders values (?)')
    const failed = hapax.transaction(async (tx) => {
      tx.prepare('insert into orders values (?)').run('of the handler')
      expect(orders()).toEqual([])
      expect(() => insert.run('of the application')).toThrow(expect.objectContaining({ code: 'SQLITE_BUSY' }))
      throw new Error('undo')
    })
    await expect(failed).rejects.toThrow('undo')
    insert.run('of the application')
    expect(orders()).toEqual(['of the application'])
  })

  it('A13: publish refuses the handle of the application, whether a transaction is open on it or not', async () => {
    const { db, hapax } = await shop()
    const refused = { code: 'not-in-transaction', message: expect.stringContaining('publish inside hapax.transaction') }
    await expect(hapax.publish(db, Placed, { n: 1 })).rejects.toMatchObject(refused)
    db.exec('begin immediate')
    await expect(hapax.publish(db, Placed, { n: 1 })).rejects.toMatchObject(refused)
    db.exec('commit')
    expect(db.prepare('select count(*) from hapax_outbox').pluck().get()).toBe(0)
  })

  it('tx.transaction is a savepoint', async () => {
    const { hapax, orders } = await shop()
    await hapax.transaction(async (tx) => {
      const insert = tx.transaction((name: string) => {
        tx.prepare('insert into orders values (?)').run(name)
        if (name === 'bad') throw new Error('undo')
      })
      insert('good')
      insert.immediate('as good')
      expect(() => insert('bad')).toThrow('undo')
    })
    expect(orders()).toEqual(['as good', 'good'])
  })

  it('tx.transaction does not call an asynchronous function, and one that returns a promise ends no process', async () => {
    const { hapax, orders } = await shop()
    const uncaught = uncaughtErrors()
    let called = false
    await hapax.transaction(async (tx) => {
      const asynchronous = async (): Promise<void> => {
        called = true
      }
      expect(() => tx.transaction(asynchronous)).toThrow('to be synchronous')
      const late = Promise.withResolvers<void>()
      expect(() => tx.transaction(() => late.promise.then(() => {}))()).toThrow('cannot return a promise')
      late.reject(new Error('late'))
      await late.promise.catch(() => {})
      tx.prepare('insert into orders values (?)').run('after')
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(called).toBe(false)
    expect(uncaught).toEqual([])
    expect(orders()).toEqual(['after'])
  })

  it('A9: everything that comes from tx ends with it', async () => {
    const { hapax, orders } = await shop()
    const insert = `insert into orders values ('late')`
    const kept = await hapax.transaction(async (tx) => {
      const statement = tx.prepare(insert)
      expect(tx).toBeInstanceOf(Database)
      expect([...tx.prepare('select 1 as one').iterate()]).toEqual([{ one: 1 }])
      expect(() => tx.close()).toThrow('belongs to hapax')
      return {
        exec: () => tx.exec(insert),
        prepare: () => tx.prepare(insert),
        run: () => statement.run(),
        bound: statement.bind().run.bind(statement),
        database: statement.database,
        transaction: tx.transaction(() => statement.run()),
      }
    })
    const refused = expect.objectContaining({ code: 'transaction-closed' })
    for (const late of [kept.exec, kept.prepare, kept.run, kept.bound, kept.transaction, kept.transaction.immediate])
      expect(() => late()).toThrow(refused)
    expect(() => kept.database.exec(insert)).toThrow(refused)
    expect(orders()).toEqual([])
  })

  it('A11: a handler that throws after its time is up ends no process', async () => {
    const { hapax, orders } = await shop()
    const uncaught = uncaughtErrors()
    const [late, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const consumer = hapax.consumer('late', { timeoutMs: 50, retry: { attempts: 1 } })
    consumer.on(Placed, async (_, { tx }) => {
      try {
        await late.promise
        tx.prepare('insert into orders values (?)').run('late')
      } finally {
        over.resolve()
      }
    })
    const { status } = await consumer.handle({ type: 'placed', id: '1', source: '/other', data: { n: 1 } })
    expect(status).toBe('failed')
    late.resolve()
    await over.promise
    await new Promise((resolve) => setImmediate(resolve))
    expect(uncaught).toEqual([])
    expect(orders()).toEqual([])
  })

  it('K2: a whole number of hapax is an integer in the database, also inside a text', async () => {
    const { db } = await shop()
    const connection = fromBetterSqlite3(db)
    onTestFinished(() => connection.close())
    const { rows } = await connection.query({ text: `select typeof(?1) as type, ?1 || '' as text`, params: [1] }, 1_000)
    expect(rows).toEqual([{ type: 'integer', text: '1' }])
  })

  it('A22: commits of hapax wait for the disk, whatever the handle of the application does', async () => {
    const { db, hapax } = await shop()
    db.pragma('synchronous = off')
    db.pragma('foreign_keys = off')
    const other = createHapax({ store: sqlite(fromBetterSqlite3(db)), source: '/test', logger: silentLogger })
    onTestFinished(() => other.close())
    await hapax.transaction(async (tx) => {
      expect(tx.pragma('journal_mode', { simple: true })).toBe('wal')
      expect(tx.pragma('synchronous', { simple: true })).toBe(2)
      expect(tx.pragma('busy_timeout', { simple: true })).toBeLessThan(10)
    })
    await other.transaction(async (tx) => expect(tx.pragma('foreign_keys', { simple: true })).toBe(0))
  })

  it('A29: waits for another process without blocking, and ends with the lock timeout', async () => {
    const { path, hapax, orders } = await shop()
    const holder = holding(path)
    await holder.holds
    const waiting = hapax.transaction(async (tx) => tx.prepare('insert into orders values (?)').run('after'))
    let ticks = 0
    const ticking = setInterval(() => {
      ticks += 1
    }, 1)
    await until(() => ticks > 20)
    clearInterval(ticking)
    expect(orders()).toEqual([])
    holder.release()
    await waiting
    expect(orders()).toEqual(['after'])
  })

  it('gives hapax the connection that `open` returns, with its functions', async () => {
    const { path, db } = await shop()
    const open = (): Database.Database => new Database(path).function('shout', (text: string) => text.toUpperCase())
    const hapax = createHapax({
      store: sqlite(fromBetterSqlite3(db, { open })),
      source: '/test',
      logger: silentLogger,
    })
    onTestFinished(() => hapax.close())
    const shouted = await hapax.transaction(async (tx) => tx.prepare(`select shout('a') as a`).get())
    expect(shouted).toEqual({ a: 'A' })
    const same = sqlite(fromBetterSqlite3(db, { open: () => db }))
    await expect(same.schema.migrate()).rejects.toThrow('expected open to be a function that returns a new connection')
  })

  it('refuses what has no file to be opened, and what cannot be written', async () => {
    const { path, db } = await shop()
    expect(() => fromBetterSqlite3(new Database(':memory:'))).toThrow('expected db to be a database in a file')
    expect(() => fromBetterSqlite3(new Database(path, { readonly: true }))).toThrow('that can be written')
    expect(() => fromBetterSqlite3({} as never)).toThrow('expected db to be an open database of better-sqlite3')
    expect(() => fromBetterSqlite3(db, { open: 1 } as never)).toThrow('expected open to be a function')
  })
})
