// Queries that a handler, or a service it calls, sends outside of the handler's transaction.

import { createHapax, defineMessage, type Hapax, type HapaxOptions, type Logger, type Store } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import mysql2 from 'mysql2/promise'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { type Checker, makePlace } from '../support/databases.ts'
import { testStores } from '../support/servers.ts'

interface Tx {
  query(text: string): Promise<unknown>
}

interface Order {
  readonly id: string
}
const Placed = defineMessage<Order>('order.placed')

/** A line of the log. */
interface Line {
  readonly fields: Readonly<Record<string, unknown>>
  readonly text: string
}

function recording(lines: Line[]): Logger {
  const add = (fields: object, text: string) => void lines.push({ fields: { ...fields }, text })
  return { debug: () => {}, info: () => {}, warn: add, error: () => {} } as unknown as Logger
}

/** A pool as the application has it: its services send queries through it that know nothing of a transaction. */
interface Pooled {
  readonly store: Store<Tx, never>
  /** A module-level `pool.query`. */
  query(text: string): Promise<unknown>
  /** A connection taken and given back, as a service does for several statements. */
  connected(text: string): Promise<unknown>
  end(): Promise<unknown>
}

const pools: Record<'postgres' | 'mysql', (checker: Checker, max: number) => Pooled> = {
  postgres: ({ place: { url, schema } }, max) => {
    const pool = new pg.Pool({ connectionString: url, max })
    return {
      store: postgres({ pool, schema, control: { url } }) as unknown as Store<Tx, never>,
      query: (text) => pool.query(text),
      connected: async (text) => {
        const client = await pool.connect()
        await client.query(text).finally(() => client.release())
      },
      end: () => pool.end(),
    }
  },
  mysql: ({ place: { url } }, max) => {
    const pool = mysql2.createPool({ uri: url, connectionLimit: max })
    return {
      store: mysql({ pool, control: { url } }) as unknown as Store<Tx, never>,
      query: (text) => pool.query(text),
      connected: async (text) => {
        const connection = await pool.getConnection()
        await connection.query(text).finally(() => connection.release())
      },
      end: () => pool.end(),
    }
  },
}

const names = (['postgres', 'mysql'] as const).filter((name) => testStores().includes(name))

describe.each(names)('an outside query on a pool for %s', (name) => {
  let checker: Checker
  beforeAll(async () => {
    checker = await makePlace(name)
  })
  afterAll(() => checker[Symbol.asyncDispose]())
  const effects = (): string => (name === 'postgres' ? `${checker.place.schema}.business` : 'effects')
  beforeEach(async () => {
    await checker.query(`delete from ${effects()}`)
  })

  let next = 0
  const message = () => ({ id: `m${next++}`, source: '/test', type: 'order.placed', data: { id: 'o1' } })
  const insert = (consumer: string) => `insert into ${effects()} values ('${consumer}', 'o1', 1)`
  const written = async (): Promise<unknown[]> =>
    (await checker.query(`select consumer from ${effects()} order by consumer`)).map((row) => row['consumer'])

  function application(options: Partial<HapaxOptions<Tx, never>> = {}, max = 5) {
    const pool = pools[name](checker, max)
    const warnings: Line[] = []
    const { store } = pool
    const hapax: Hapax<Tx, never> = createHapax({
      store,
      source: '/test',
      delivery: 'local',
      logger: recording(warnings),
      ...options,
    } as HapaxOptions<Tx, never>)
    onTestFinished(async () => {
      await hapax.close()
      await pool.end()
    })
    const outside = () => warnings.filter(({ fields }) => fields['code'] === 'outside-query')
    return { hapax, pool, outside }
  }

  it('is warned of once in each consumer, with the stack of the query', async () => {
    const { hapax, pool, outside } = application()
    const consumers = ['billing', 'audit'].map((consumer) => {
      const made = hapax.consumer(consumer)
      made.on(Placed, async () => void (await pool.query(insert(consumer))))
      return made
    })
    for (const consumer of [...consumers, ...consumers]) {
      expect((await consumer.handle(message())).status).toBe('processed')
    }
    expect(outside().map(({ fields }) => fields['consumer'])).toEqual(['billing', 'audit'])
    expect(outside()[0]?.fields['stack']).toMatch(/outside-queries\.test\.ts/)
    expect(await written()).toEqual(['audit', 'audit', 'billing', 'billing'])
  })

  it('is noticed wherever a handler has a transaction', async () => {
    const { hapax, pool, outside } = application()
    const many = hapax.consumer('many')
    many.onMany(Placed, async () => void (await pool.query('select 1')))
    expect((await many.handle(message())).status).toBe('processed')
    const leased = hapax.leased('leased')
    leased.on(Placed, (_order, ctx) => ctx.complete(async () => void (await pool.connected('select 1'))))
    const http = hapax.http('orders', { principal: () => 'somebody' })
    const place = http.handler(async () => {
      await pool.query('select 1')
      return Response.json({})
    })
    const worker = hapax.worker({ consume: [leased] })
    await worker.start()
    onTestFinished(() => worker.stop())
    await leased.handle(message())
    await worker.drain()
    const request = new Request('http://localhost/orders', { method: 'POST', headers: { 'idempotency-key': 'a' } })
    expect((await place(request)).status).toBe(200)
    expect(outside().map(({ fields }) => fields['consumer'])).toEqual(['many', 'leased', 'http:orders'])
  })

  it('that waits for a connection is noticed, and nobody who waits beside it', async () => {
    const { hapax, pool, outside } = application({}, 2)
    const consumer = hapax.consumer('billing')
    const gate = Promise.withResolvers<void>()
    const full = Promise.withResolvers<void>()
    consumer.on(Placed, async ({ id }, ctx) => {
      if (id === 'quiet') {
        full.resolve()
        await gate.promise
      } else await pool.query('select 1')
      await ctx.tx.query('select 1')
    })
    const order = (id: string) => consumer.handle({ ...message(), data: { id } })
    const quiet = [order('quiet'), order('quiet')]
    await full.promise
    // They wait for what the handlers give back.
    const others = [1, 2, 3].map(() => pool.query('select 1'))
    gate.resolve()
    await Promise.all([...quiet, ...others])
    expect(outside()).toEqual([])
    // Its transaction holds one of two connections; somebody else holds the other.
    const slow = pool.query(name === 'postgres' ? 'select pg_sleep(0.3)' : 'select sleep(0.3)')
    expect((await order('loud')).status).toBe('processed')
    await slow
    expect(outside()).toHaveLength(1)
  })

  it('is none: what hapax does, what a leased handler does, and what a handler does with its transaction', async () => {
    const { hapax, pool, outside } = application()
    const inner = hapax.consumer('inner')
    inner.on(Placed, async (_order, ctx) => void (await ctx.tx.query(insert('inner'))))
    const outer = hapax.consumer('outer')
    const Shipped = defineMessage('order.shipped')
    outer.on(Placed, async (_order, ctx) => {
      await ctx.tx.query(insert('outer'))
      expect((await inner.handle(message())).status).toBe('processed')
      await hapax.transaction(async (tx) => tx.query(insert('own')))
      await hapax.publish(Shipped, {}, { relay: 'nowhere' })
      await hapax.status()
    })
    const leased = hapax.leased('leased')
    leased.on(Placed, async () => void (await pool.query(insert('leased'))))
    const worker = hapax.worker({ consume: [leased] })
    await worker.start()
    onTestFinished(() => worker.stop())
    expect((await outer.handle(message())).status).toBe('processed')
    await leased.handle(message())
    await worker.drain()
    expect(outside()).toEqual([])
    expect(await written()).toEqual(['inner', 'leased', 'outer', 'own'])
  })

  it('is none after the handler has ended, or on a pool that the store was not given', async () => {
    const { hapax, pool, outside } = application()
    const other = pools[name](checker, 2)
    onTestFinished(async () => void (await other.end()))
    const late = Promise.withResolvers<unknown>()
    const ended = Promise.withResolvers<void>()
    const consumer = hapax.consumer('billing')
    consumer.on(Placed, async () => {
      await other.query(insert('other'))
      void ended.promise.then(() => pool.query(insert('late'))).then(late.resolve, late.reject)
    })
    expect((await consumer.handle(message())).status).toBe('processed')
    ended.resolve()
    await late.promise
    expect(outside()).toEqual([])
    expect(await written()).toEqual(['late', 'other'])
  })

  describe("with outsideQueries: 'error'", () => {
    it.each(['query', 'connected'] as const)(
      'is refused and fails the attempt, also if it is swallowed (%s)',
      async (how) => {
        const { hapax, pool } = application({ outsideQueries: 'error' })
        const consumer = hapax.consumer('billing', { onError: 'rollback' })
        const errors: unknown[] = []
        consumer.on(Placed, async (_order, ctx) => {
          await ctx.tx.query(insert('inside'))
          await pool[how](insert('outside')).catch((error: unknown) => errors.push(error))
        })
        const outcome = await consumer.handle(message())
        expect(outcome).toMatchObject({ status: 'rolled-back', error: { code: 'outside-query' } })
        expect(errors).toMatchObject([{ code: 'outside-query' }])
        expect(await written()).toEqual([])
      },
    )

    it('is retried, so that a handler that was mended takes the message', async () => {
      const { hapax, pool } = application({ outsideQueries: 'error' })
      const consumer = hapax.consumer('billing', { retry: { minDelayMs: 1 } })
      let mended = false
      consumer.on(Placed, async (_order, ctx) => {
        await (mended ? ctx.tx : pool).query(insert('billing'))
      })
      expect(await consumer.handle(message())).toMatchObject({ status: 'retrying', error: { code: 'outside-query' } })
      mended = true
      const worker = hapax.worker({ consume: [consumer] })
      await worker.start()
      onTestFinished(() => worker.stop())
      await worker.drain()
      expect(await written()).toEqual(['billing'])
    })

    it('fails alone in a group', async () => {
      const { hapax, pool } = application({ outsideQueries: 'error' })
      const consumer = hapax.consumer('billing', { onError: 'rollback' })
      consumer.on(Placed, async ({ id }, ctx) => {
        await ctx.tx.query(insert(id))
        if (id === 'bad') await pool.query(insert('outside')).catch(() => {})
      })
      const group = ['a', 'bad', 'b'].map((id) => ({ ...message(), data: { id } }))
      const outcomes = await consumer.handleMany(group)
      expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'rolled-back', 'processed'])
      expect(await written()).toEqual(['a', 'b'])
    })
  })

  it("is not judged with outsideQueries: 'ignore'", async () => {
    const { hapax, pool, outside } = application({ outsideQueries: 'ignore' })
    const consumer = hapax.consumer('billing')
    consumer.on(Placed, async () => void (await pool.query(insert('billing'))))
    expect((await consumer.handle(message())).status).toBe('processed')
    expect(outside()).toEqual([])
  })
})
