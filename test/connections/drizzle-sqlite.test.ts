import { createClient } from '@libsql/client'
import Database from 'better-sqlite3'
import { relations, sql } from 'drizzle-orm'
import { type BetterSQLite3Database, drizzle as onBetterSqlite3 } from 'drizzle-orm/better-sqlite3'
import { type LibSQLDatabase, drizzle as onLibsql } from 'drizzle-orm/libsql'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { fromDrizzle } from 'hapax/drizzle'
import { sqlite } from 'hapax/sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runPair } from '../support/pairs.ts'
import { temporaryFile } from '../support/sqlite-file.ts'

type BetterTx = Parameters<Parameters<BetterSQLite3Database['transaction']>[0]>[0]
type LibsqlTx = Parameters<Parameters<LibSQLDatabase['transaction']>[0]>[0]

const none = () => Promise.reject(new Error('ruled out by the features'))
const cannot = { 'something left open': 'a statement is over when it returns' }

const param = (text: string, values: readonly unknown[] = []) =>
  sql.join(
    text.split('?').flatMap((part, index) => (index === 0 ? [sql.raw(part)] : [sql.param(values[0]), sql.raw(part)])),
  )

await runPair<BetterTx>({
  orm: 'drizzle',
  driver: 'better-sqlite3',
  database: 'sqlite',
  cannot,
  open: ({ url }) => {
    const client = new Database(url)
    const from = fromDrizzle(onBetterSqlite3(client), sql)
    return { from, own: none, notBegun: none, close: async () => client.close() }
  },
  client: (tx) => ({ query: async (text, values) => tx.run(param(text, values)) }),
  leaveOpen: () => {},
})

await runPair<LibsqlTx>({
  orm: 'drizzle',
  driver: '@libsql/client',
  database: 'sqlite',
  cannot,
  open: ({ url }) => {
    const client = createClient({ url: `file:${url}` })
    const db = onLibsql(client)
    return {
      from: fromDrizzle(db, sql),
      own: (work) => db.transaction(work),
      notBegun: (work) => work(db as unknown as LibsqlTx),
      close: async () => client.close(),
    }
  },
  client: (tx) => ({ query: async (text, values) => tx.run(param(text, values)) }),
  leaveOpen: () => {},
  nested: (tx, work) => tx.transaction(work),
})

const orders = sqliteTable('orders', { name: text().primaryKey() })
const items = sqliteTable('items', { order: text().notNull(), count: integer().notNull() })
const ofOrders = relations(orders, ({ many }) => ({ items: many(items) }))
const ofItems = relations(items, ({ one }) => ({
  order: one(orders, { fields: [items.order], references: [orders.name] }),
}))
const schema = { orders, items, ofOrders, ofItems }
const Placed = defineMessage<{ n: number }>('placed')
const TABLES =
  'create table orders (name text primary key); create table items ("order" text not null, count integer not null)'

describe('drizzle on SQLite', () => {
  it('has the schema, relations and nested transactions of better-sqlite3 inside hapax', async () => {
    const client = new Database(temporaryFile(), { timeout: 1 })
    client.exec(TABLES)
    const db = onBetterSqlite3(client, { schema })
    const hapax = createHapax({ store: sqlite(fromDrizzle(db, sql)), source: '/test', logger: silentLogger })
    onTestFinished(async () => {
      await hapax.close()
      client.close()
    })
    await hapax.migrate()
    await hapax.transaction(async (tx) => {
      await tx.insert(orders).values({ name: 'a' })
      tx.insert(items).values({ order: 'a', count: 2 }).run()
      expect(tx.query.orders.findMany({ with: { items: true } }).sync()).toEqual([
        { name: 'a', items: [{ order: 'a', count: 2 }] },
      ])
      expect(db.select().from(orders).all()).toEqual([])
      const undo = () =>
        tx.transaction((nested) => {
          nested.insert(orders).values({ name: 'b' }).run()
          nested.rollback()
        })
      expect(undo).toThrow('Rollback')
      tx.transaction((nested) => void nested.insert(orders).values({ name: 'c' }).run())
      await hapax.publish(tx, Placed, { n: 1 })
    })
    expect(db.select().from(orders).all()).toEqual([{ name: 'a' }, { name: 'c' }])
    expect(client.prepare('select count(*) from hapax_outbox').pluck().get()).toBe(1)
    await expect(
      hapax.publish(db as unknown as Parameters<Parameters<typeof db.transaction>[0]>[0], Placed, { n: 1 }),
    ).rejects.toMatchObject({ code: 'not-in-transaction' })
  })

  it('A13: publish takes transactions of Drizzle on libsql, nested ones too, and refuses them once they have ended', async () => {
    const client = createClient({ url: `file:${temporaryFile()}` })
    await client.executeMultiple(TABLES)
    const db = onLibsql(client, { schema })
    const hapax = createHapax({ store: sqlite(fromDrizzle(db, sql)), source: '/test', logger: silentLogger })
    onTestFinished(async () => {
      await hapax.close()
      client.close()
    })
    await hapax.migrate()
    const outbox = async () => (await client.execute('select count(*) as n from hapax_outbox')).rows[0]?.['n']
    const kept = await db.transaction(async (tx) => {
      await tx.insert(orders).values({ name: 'a' })
      await hapax.publish(tx, Placed, { n: 1 })
      await tx.transaction((nested) => hapax.publish(nested, Placed, { n: 2 }))
      return { tx }
    })
    expect(await outbox()).toBe(2)
    const undone = db.transaction(async (tx) => {
      await hapax.publish(tx, Placed, { n: 3 })
      tx.rollback()
    })
    await expect(undone).rejects.toThrow('Rollback')
    await expect(hapax.publish(kept.tx, Placed, { n: 4 })).rejects.toMatchObject({ code: 'not-in-transaction' })
    await hapax.transaction(async (tx) => {
      expect(await tx.query.orders.findFirst({ with: { items: true } })).toEqual({ name: 'a', items: [] })
      await tx.transaction((nested) => hapax.publish(nested, Placed, { n: 5 }))
    })
    expect(await outbox()).toBe(3)
  })

  it('refuses a database on another driver', () => {
    expect(() => sqlite(fromDrizzle({ transaction: async () => {} } as never, sql))).toThrow(
      'expected db to be a Drizzle database on better-sqlite3 or libsql',
    )
  })
})
