import assert from 'node:assert/strict'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { postgres } from 'hapax/postgres'
import {
  crashAt,
  crashable,
  deliverTwice,
  safeToRepeat,
  type TestPostgres,
  testHapax,
  testPostgres,
  waitFor,
} from 'hapax/testing'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer, testStores } from '../support/servers.ts'

const Ordered = defineMessage<{ orderId: string }>('ordered')
const Invoiced = defineMessage<{ orderId: string }>('invoiced')
const order = { id: 'evt_1', source: '/shop', type: 'ordered', data: { orderId: 'A1' } }

describe('on a memory store', () => {
  it('a handler that writes in its transaction is safe to repeat', async () => {
    const { hapax, rows, published, reset } = testHapax()
    const billing = hapax.consumer('billing').on(Ordered, async ({ orderId }, ctx) => {
      ctx.tx.insert('invoices', { orderId })
      ctx.tx.insert('lines', { orderId })
      await ctx.publish(Invoiced, { orderId })
    })
    const snapshot = () => [rows('invoices'), rows('lines'), published.map(({ type, data }) => ({ type, data }))]
    expect(await safeToRepeat(billing, order, { snapshot, reset })).toEqual([
      'delivered twice',
      'delivered twice at once',
      'a crash before-handler',
      'a crash before-commit',
      'a crash in-commit',
      'a crash after-commit',
      'a crash before-ack',
      'a crash after call 1 of the handler',
      'a crash after call 2 of the handler',
    ])
  })

  it('a handler that writes beside its transaction is caught, with the points at which it doubles', async () => {
    const { hapax, reset } = testHapax()
    const sent: string[] = []
    const mails = hapax.consumer('mails').on(Ordered, ({ orderId }, ctx) => {
      sent.push(orderId)
      ctx.tx.insert('mails', { orderId })
    })
    const check = safeToRepeat(mails, order, {
      snapshot: () => [...sent],
      reset: async () => {
        await reset()
        sent.length = 0
      },
    })
    const error = await check.catch((thrown: unknown) => thrown)
    assert.ok(error instanceof assert.AssertionError)
    expect(error.message).toContain(
      'not safe to repeat, with a crash before-commit; a crash in-commit; a crash after call 1',
    )
    expect([error.actual, error.expected]).toEqual([['A1', 'A1'], ['A1']])
  })

  it('a handler that swallows the crash and goes on is not committed', async () => {
    const { hapax, rows, reset } = testHapax()
    const billing = hapax.consumer('billing').on(Ordered, ({ orderId }, ctx) => {
      try {
        ctx.tx.insert('invoices', { orderId })
      } catch {}
    })
    const tried = await safeToRepeat(billing, order, { snapshot: () => rows('invoices'), reset })
    expect(tried).toContain('a crash after call 1 of the handler')
  })

  it('one that depends on how often it was called is caught', async () => {
    const { hapax, rows, reset } = testHapax()
    let calls = 0
    const billing = hapax.consumer('billing').on(Ordered, (_, ctx) => ctx.tx.insert('invoices', { number: ++calls }))
    const options = {
      snapshot: () => rows('invoices'),
      reset: async () => {
        await reset()
        calls = 0
      },
    }
    await expect(safeToRepeat(billing, order, options)).rejects.toThrow('not safe to repeat')
  })

  it('one delivery that fails says why', async () => {
    const { hapax, reset } = testHapax()
    const billing = hapax.consumer('billing').on(Ordered, () => {
      throw new Error('no such customer')
    })
    await expect(deliverTwice(billing, order)).rejects.toThrow('got retrying: no such customer')
    await reset()
    await expect(crashAt('in-handler', billing, order)).rejects.toThrow(
      'its handler makes fewer than 1 calls on ctx.tx',
    )
    await expect(crashAt('before-commit', billing, order)).rejects.toThrow('was it delivered before?')
    await expect(crashAt('before-handler', billing, { ...order, id: '2' })).rejects.toThrow('got retrying')
  })

  it.for(['before-handler', 'before-commit', 'in-commit', 'after-commit', 'before-ack'] as const)(
    'crashes %s, and the message takes effect once',
    async (point) => {
      const { hapax, rows } = testHapax()
      let calls = 0
      const billing = hapax.consumer('billing').on(Ordered, ({ orderId }, ctx) => {
        calls += 1
        ctx.tx.insert('invoices', { orderId })
      })
      await crashAt(point, billing, order)
      expect(rows('invoices')).toEqual([{ orderId: 'A1' }])
      expect(calls).toBe(point === 'before-commit' || point === 'in-commit' ? 2 : 1)
    },
  )

  it('refuses a point that it does not know', async () => {
    const { hapax, rows } = testHapax()
    const billing = hapax.consumer('billing').on(Ordered, (_, ctx) => ctx.tx.insert('invoices', {}))
    await expect(crashAt('nope' as never, billing, order)).rejects.toMatchObject({
      code: 'invalid-option',
      message: expect.stringMatching(/^expected point to be 'before-handler' or 'in-handler' or .*, got "nope"$/),
    })
    expect(rows('invoices')).toEqual([])
  })

  it('needs a store that can crash', async () => {
    const plain = createHapax({ store: memory(), source: '/test', logger: silentLogger })
    const billing = plain.consumer('billing').on(Ordered, () => {})
    await expect(crashAt('before-ack', billing, order)).rejects.toThrow('testHapax, or with crashable(store)')
    const own = createHapax({ store: crashable(memory()), source: '/test', logger: silentLogger })
    await crashAt(
      'before-ack',
      own.consumer('billing').on(Ordered, () => {}),
      order,
    )
  })

  it('says that a consumer is of another kind, and not that its handler is unsafe', async () => {
    const { hapax, rows, reset } = testHapax()
    const safe = { snapshot: () => rows('invoices'), reset }
    const sms = hapax.leased('sms').on(Ordered, () => {})
    await expect(safeToRepeat(sms, order, safe)).rejects.toThrow('made by hapax.consumer, got a leased one')
    await expect(crashAt('before-ack', sms, order)).rejects.toThrow('made by hapax.consumer, got a leased one')
    const storing = hapax.consumer('storing', { receive: 'store' }).on(Ordered, () => {})
    const ordered = hapax.consumer('ordered', { order: 'wait' }).on(Ordered, () => {})
    for (const [index, consumer] of [storing, ordered].entries()) {
      const fresh = (part: string) => ({ ...order, key: 'k', id: `${part} ${index}` })
      await expect(safeToRepeat(consumer, fresh('a'), safe)).rejects.toThrow('stored for a worker')
      await expect(deliverTwice(consumer, fresh('b'))).rejects.toThrow('stored for a worker')
      await expect(crashAt('before-ack', consumer, fresh('c'))).rejects.toThrow('stored for a worker')
    }
  })

  it('sees what was published and committed, and nothing else', async () => {
    const { hapax, published, expectPublished } = testHapax()
    await hapax.transaction((tx) => hapax.publish(tx, Invoiced, { orderId: 'A1' }, { key: 'A1' }))
    await hapax
      .transaction(async (tx) => {
        await hapax.publish(tx, Invoiced, { orderId: 'A2' })
        throw new Error('undone')
      })
      .catch(() => {})
    expect(published).toMatchObject([{ type: 'invoiced', source: '/test', key: 'A1', data: { orderId: 'A1' } }])
    expect(expectPublished(Invoiced, { orderId: 'A1' }).key).toBe('A1')
    expect(() => expectPublished('invoiced', { orderId: 'A2' })).toThrow(/invoiced \{"orderId":"A1"\}/)
    expect(() => expectPublished(Ordered)).toThrow('expected a message ordered to be published and committed, got')
  })

  it('leaps over the minutes between attempts', async () => {
    const { hapax, rows, drain, close } = testHapax()
    const billing = hapax.consumer('billing', { retry: { minDelayMs: 600_000, maxDelayMs: 600_000 } })
    billing.on(Ordered, ({ orderId }, ctx) => {
      if (ctx.attempt < 4) throw new Error('not yet')
      ctx.tx.insert('invoices', { orderId, attempt: ctx.attempt })
    })
    expect((await billing.handle(order)).status).toBe('retrying')
    const worker = hapax.worker({ consume: [billing] })
    await worker.start()
    await drain(worker)
    expect(rows('invoices')).toEqual([])
    await drain(worker, { leap: true })
    expect(rows('invoices')).toEqual([{ orderId: 'A1', attempt: 4 }])
    await close()
  })

  it('drains a broker', async () => {
    const { hapax, broker, rows, drain, close } = testHapax()
    const stock = hapax.consumer('stock').on(Ordered, ({ orderId }, ctx) => ctx.tx.insert('parcels', { orderId }))
    const worker = hapax.worker({
      consume: [stock.from(broker.queue('stock', { topic: 'shop' }))],
      relay: broker.topic('shop'),
    })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Ordered, { orderId: 'A1' }))
    await drain(worker)
    expect(rows('parcels')).toEqual([{ orderId: 'A1' }])
    await close()
  })

  it('waits for a condition, and says what was wrong at the end', async () => {
    let n = 0
    expect(await waitFor(() => (++n > 3 ? n : undefined))).toBe(4)
    await expect(waitFor(() => false, { timeoutMs: 20 })).rejects.toThrow('did not hold within 20 ms')
    await expect(waitFor(() => assert.equal(n, 1), { timeoutMs: 20 })).rejects.toThrow('Expected values')
  })
})

describe('on a PostgreSQL in the process', () => {
  let pg: TestPostgres
  beforeAll(async () => {
    pg = await testPostgres({
      setup:
        'create table customers (id text primary key); create table invoices (n bigserial, customer text references customers, order_id text)',
      seed: `insert into customers values ('c1')`,
    })
    // The compilation of PGlite competes with everything else.
  }, 300_000)
  afterAll(() => pg.close())
  beforeEach(() => pg.reset())

  const insert = `insert into invoices (customer, order_id) values ('c1', $1)`

  it('a handler with SQL is safe to repeat', async () => {
    const { hapax, reset } = testHapax({ store: pg.store })
    const billing = hapax.consumer('billing').on(Ordered, async ({ orderId }, ctx) => {
      const { rowCount } = await ctx.tx.query(insert, [orderId])
      expect(rowCount).toBe(1)
      await ctx.tx.client.query('select count(*) from invoices')
      await ctx.publish(Invoiced, { orderId })
    })
    const snapshot = async () => [
      await pg.query('select order_id from invoices order by n'),
      await pg.query('select type from hapax.outbox'),
    ]
    const tried = await safeToRepeat(billing, order, { snapshot, reset })
    expect(tried).toContain('a crash after call 2 of the handler')
    expect(await snapshot()).toEqual([[{ order_id: 'A1' }], [{ type: 'invoiced' }]])
  })

  it('a handler that uses the database in place of its transaction is told at once', async () => {
    const { hapax } = testHapax({ store: pg.store })
    const billing = hapax.consumer('billing').on(Ordered, ({ orderId }) => pg.query(insert, [orderId]))
    await expect(deliverTwice(billing, order)).rejects.toThrow('db.query was called inside a handler')
  })

  it('begins every test with the seed, and with the shapes of pg', async () => {
    await pg.db.query(insert, ['A1'])
    expect(await pg.query('select n, customer from invoices')).toEqual([{ n: '1', customer: 'c1' }])
    await pg.reset()
    expect(await pg.query('select * from invoices')).toEqual([])
    expect(await pg.query('select id from customers')).toEqual([{ id: 'c1' }])
  })

  it('leaps over the minutes between attempts', async () => {
    const { hapax, drain } = testHapax({ store: pg.store })
    const billing = hapax.consumer('billing', { retry: { minDelayMs: 600_000, maxDelayMs: 600_000 } })
    billing.on(Ordered, async ({ orderId }, ctx) => {
      if (ctx.attempt < 3) throw new Error('not yet')
      await ctx.tx.query(insert, [orderId])
    })
    expect((await billing.handle(order)).status).toBe('retrying')
    await using worker = hapax.worker({ consume: [billing] })
    await worker.start()
    await drain(worker, { leap: true, timeoutMs: 50_000 })
    expect(await pg.query('select order_id from invoices')).toEqual([{ order_id: 'A1' }])
  })
})

const hasServer = testStores().includes('postgres')

describe.skipIf(!hasServer)('on a pool', () => {
  const schema = `testkit_${process.pid}`
  const pool = pgPool({ connectionString: hasServer ? requireServer('postgres') : '', max: 4 })
  const store = crashable(postgres({ pool, schema }))
  const hapax = createHapax({ store, source: '/test', logger: silentLogger })
  const options = {
    snapshot: async () => (await pool.query(`select order_id from ${schema}.invoices`)).rows,
    reset: () => pool.query(`truncate ${schema}.invoices, ${schema}.receipts, ${schema}.inbox`),
  }
  const insert = `insert into ${schema}.invoices values ($1)`

  beforeAll(async () => {
    await hapax.migrate()
    await pool.query(`create table ${schema}.invoices (order_id text)`)
  })
  afterAll(async () => {
    await pool.query(`drop schema ${schema} cascade`)
    await pool.end()
  })

  it('a handler that writes with ctx.tx is safe to repeat', async () => {
    const billing = hapax.consumer('billing').on(Ordered, ({ orderId }, ctx) => ctx.tx.query(insert, [orderId]))
    expect(await safeToRepeat(billing, order, options)).toContain('a crash after call 1 of the handler')
  })

  it('one that writes with the pool doubles, and is caught', async () => {
    const careless = hapax.consumer('careless').on(Ordered, async ({ orderId }, ctx) => {
      await pool.query(insert, [orderId])
      await ctx.tx.query('select 1')
    })
    const doubled = 'a crash before-commit; a crash in-commit; a crash after call 1 of the handler'
    await expect(safeToRepeat(careless, order, options)).rejects.toThrow(`not safe to repeat, with ${doubled}`)
  })
})
