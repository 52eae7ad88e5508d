import { PGlite, type Transaction } from '@electric-sql/pglite'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { fromPglite } from 'hapax/pglite'
import { postgres } from 'hapax/postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { LeapingClock } from '../../src/testing/clock.ts'
import { pgliteHarness } from '../support/pglite-harness.ts'
import { inThisRun } from '../support/runs.ts'
import { connectionTopics, runStoreCases } from '../support/store-suite.ts'

runStoreCases(pgliteHarness(), (cases) =>
  inThisRun(
    cases.filter(({ topic, connection }) => connection || connectionTopics.includes(topic)),
    // The others take minutes on a small machine.
    ({ topic }) => topic === 'connections',
  ),
)

describe('on one connection', () => {
  const Ordered = defineMessage<{ n: number }>('ordered')
  const Invoiced = defineMessage<{ n: number }>('invoiced')
  const message = (id: string) => ({ id, source: '/shop', type: 'ordered', data: { n: 1 } })
  let db: PGlite
  const hapaxOn = () => createHapax({ store: postgres(fromPglite(db)), source: '/test', logger: silentLogger })
  let hapax: ReturnType<typeof hapaxOn>

  beforeAll(async () => {
    db = await PGlite.create()
    await hapaxOn().migrate()
    await db.exec('create table invoices (n integer, big bigint, bytes bytea, data jsonb)')
    // The compilation of PGlite competes with everything else.
  }, 300_000)
  afterAll(() => db.close())
  beforeEach(async () => {
    await db.exec('delete from invoices; delete from hapax.receipts; delete from hapax.outbox; delete from hapax.inbox')
    hapax = hapaxOn()
  })

  const count = async (table: string) => (await db.query(`select 1 from ${table}`)).rows.length

  it(`takes PGlite's own transactions, and refuses the database and one that has ended`, async () => {
    const ended = await db.transaction(async (tx) => {
      await tx.query('insert into invoices (n) values (1)')
      await hapax.publish(tx, Invoiced, { n: 1 })
      return tx
    })
    expect([await count('invoices'), await count('hapax.outbox')]).toEqual([1, 1])
    await expect(hapax.publish(db as unknown as Transaction, Invoiced, { n: 1 })).rejects.toMatchObject({
      code: 'not-in-transaction',
    })
    await expect(hapax.publish(ended, Invoiced, { n: 1 })).rejects.toMatchObject({ code: 'not-in-transaction' })
    await expect(
      db.transaction(async (tx) => {
        await tx.exec('commit')
        await hapax.publish(tx, Invoiced, { n: 2 })
      }),
    ).rejects.toMatchObject({ code: 'not-in-transaction' })
    expect(await count('hapax.outbox')).toBe(1)
  })

  it('K2: refuses whatever a handler does with its transaction afterwards', async () => {
    const late = await hapax.transaction(async (tx) => ({ tx }))
    expect(late.tx.closed).toBe(true)
    const insert = 'insert into invoices (n) values (1)'
    expect(() => late.tx.sql`insert into invoices (n) values (1)`).toThrow(/settled/)
    expect(() => late.tx.query(insert)).toThrow(/settled/)
    expect(() => late.tx.exec(insert)).toThrow(/settled/)
    expect(await count('invoices')).toBe(0)
  })

  it('rolls back a handler that hangs at its deadline, and serves the next one', async () => {
    let hangs = true
    const clock = new LeapingClock()
    const timeoutMs = 60_000
    const billing = createHapax({ store: postgres(fromPglite(db)), source: '/test', logger: silentLogger, clock })
      .consumer('billing', { timeoutMs, onError: 'rollback' })
      .on(Ordered, async ({ n }, ctx) => {
        await ctx.tx.query('insert into invoices (n) values ($1)', [n])
        if (!hangs) return
        clock.leap(timeoutMs)
        await new Promise(() => {})
      })
    expect(await billing.handle(message('a'))).toMatchObject({
      status: 'rolled-back',
      error: { code: 'handler-timeout' },
    })
    expect(await count('invoices')).toBe(0)
    hangs = false
    expect((await billing.handle(message('a'))).status).toBe('processed')
    expect(await count('invoices')).toBe(1)
  })

  it('a handler that uses the database instead of its transaction waits for itself until its deadline', async () => {
    const writes: Promise<unknown>[] = []
    const billing = hapax.consumer('billing', { timeoutMs: 200, onError: 'rollback' }).on(Ordered, async ({ n }) => {
      const write = db.query('insert into invoices (n) values ($1)', [n])
      writes.push(write)
      await write
    })
    expect((await billing.handle(message('a'))).error).toMatchObject({ code: 'handler-timeout' })
    await Promise.all(writes)
  })

  it('refuses a transaction inside a handler, which would wait for itself', async () => {
    const billing = hapax
      .consumer('billing', { onError: 'rollback' })
      .on(Ordered, () => hapax.transaction(async () => {}))
    expect((await billing.handle(message('a'))).error).toMatchObject({ code: 'nested-transaction' })
  })

  it(`is busy while the user's own transaction takes too long`, async () => {
    const billing = hapax.consumer('billing', { lockTimeoutMs: 50 }).on(Ordered, () => {})
    const begun = Promise.withResolvers<void>()
    const end = Promise.withResolvers<void>()
    const own = db.transaction(async () => {
      begun.resolve()
      await end.promise
    })
    await begun.promise
    expect((await billing.handle(message('a'))).status).toBe('busy')
    end.resolve()
    await own
    expect((await billing.handle(message('a'))).status).toBe('processed')
  })

  it('gives results in the shapes of PGlite, with the count that pg has', async () => {
    await hapax.transaction(async (tx) => {
      const text = 'insert into invoices (n, big, bytes, data) values ($1, $2, $3, $4)'
      const inserted = await tx.query(text, [1, 2n ** 60n, new Uint8Array([0, 255]), { a: [1] }])
      expect([inserted.rowCount, inserted.affectedRows]).toEqual([1, 1])
      const { rows, rowCount } = await tx.client.query('select n, big, bytes, data from invoices')
      expect(rows).toEqual([{ n: 1, big: 2n ** 60n, bytes: new Uint8Array([0, 255]), data: { a: [1] } }])
      expect(rowCount).toBe(1)
      expect((await tx.sql<{ n: number }>`select n from invoices where n = ${1}`).rows).toEqual([{ n: 1 }])
    })
  })

  it('counts what a handler swallowed: a rollback of its own is noticed', async () => {
    const billing = hapax.consumer('billing', { onError: 'rollback' }).on(Ordered, async ({ n }, ctx) => {
      await ctx.tx.rollback()
      await ctx.tx.query('insert into invoices (n) values ($1)', [n]).catch(() => {})
    })
    expect((await billing.handle(message('a'))).error).toMatchObject({ code: 'broken-atomicity' })
  })

  it('a database that was closed is a store that is not there', async () => {
    const own = await PGlite.create()
    const closed = createHapax({ store: postgres(fromPglite(own)), source: '/test', logger: silentLogger })
    await closed.migrate()
    await own.close()
    await expect(closed.transaction(async () => {})).rejects.toMatchObject({ code: 'store-unavailable' })
    // The compilation of PGlite competes with everything else.
  }, 300_000)
})
