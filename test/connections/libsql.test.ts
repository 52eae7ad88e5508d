import { type Config, createClient, type InValue, type Transaction } from '@libsql/client'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { fromLibsql } from 'hapax/libsql'
import { sqlite } from 'hapax/sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runPair } from '../support/pairs.ts'
import { holding, temporaryFile } from '../support/sqlite-file.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

await runPair<Transaction>({
  orm: 'libsql',
  driver: '@libsql/client',
  database: 'sqlite',
  cannot: { 'something left open': 'a statement is over when it returns' },
  open: ({ url }) => {
    const client = createClient({ url: `file:${url}` })
    return {
      from: fromLibsql(client),
      own: async (work) => {
        const tx = await client.transaction('write')
        try {
          const result = await work(tx)
          await tx.commit()
          return result
        } finally {
          tx.close()
        }
      },
      notBegun: (work) => work(client as unknown as Transaction),
      close: async () => client.close(),
    }
  },
  client: (tx) => ({ query: (sql, args = []) => tx.execute({ sql, args: args as InValue[] }) }),
  leaveOpen: () => {},
})

const Placed = defineMessage<{ n: number }>('placed')

/** A file with a table, a client of the application's, and a hapax on it. */
async function shop(config: Omit<Config, 'url'> = {}) {
  const path = temporaryFile()
  const client = createClient({ url: `file:${path}`, ...config })
  await client.execute('create table orders (name text primary key)')
  const hapax = createHapax({ store: sqlite(fromLibsql(client)), source: '/test', logger: silentLogger })
  onTestFinished(async () => {
    await hapax.close()
    client.close()
  })
  await hapax.migrate()
  const orders = async (): Promise<unknown[]> =>
    (await client.execute('select name from orders order by name')).rows.map(({ name }) => name)
  return { path, client, hapax, orders }
}

const insert = (name: string) => ({ sql: 'insert into orders values (?)', args: [name] })

describe('libsql', () => {
  it('A29: many transactions at once take turns, and one of the application is waited for', async () => {
    const { client, hapax, orders } = await shop()
    const own = await client.transaction('write')
    const waiting = Array.from({ length: 20 }, (_, n) => hapax.transaction((tx) => tx.execute(insert(`${n}`))))
    await own.execute(insert('own'))
    await own.commit()
    await Promise.all(waiting)
    expect(await orders()).toHaveLength(21)
  })

  it('A29: waits for another process', async () => {
    const { path, client, hapax, orders } = await shop()
    const holder = holding(path)
    await holder.holds
    // The driver leaves a connection behind on which nothing can be committed.
    await expect(client.execute(insert('refused'))).rejects.toMatchObject({ code: 'SQLITE_BUSY' })
    const waiting = hapax.transaction((tx) => tx.execute(insert('after')))
    expect(await orders()).toEqual([])
    holder.release()
    await waiting
    expect(await orders()).toEqual(['after'])
  })

  it('A2: a client with a single connection is enough, and is waited for', async () => {
    const { client, hapax, orders } = await shop({ concurrency: 1 })
    const own = await client.transaction('write')
    const waiting = hapax.transaction((tx) => tx.execute(insert('second')))
    const consumer = hapax.consumer('one')
    consumer.on(Placed, (_, ctx) => ctx.tx.execute(insert('third')))
    const handled = consumer.handle({ type: 'placed', id: '1', source: '/other', data: { n: 1 } })
    await own.execute(insert('first'))
    await own.commit()
    await waiting
    expect(await handled).toMatchObject({ status: 'processed' })
    expect(await orders()).toEqual(['first', 'second', 'third'])
  })

  it('A1: a duplicate is known by its rows: the count of what returns rows is always 0', async () => {
    const { hapax, orders } = await shop()
    const consumer = hapax.consumer('once')
    let called = 0
    consumer.on(Placed, (_, ctx) => {
      called += 1
      return ctx.tx.execute(insert(`${called}`))
    })
    const message = { type: 'placed', id: '1', source: '/other', data: { n: 1 } }
    const outcomes = await Promise.all(Array.from({ length: 5 }, () => consumer.handle(message)))
    expect(outcomes.map(({ status }) => status).sort()).toEqual([...Array(4).fill('duplicate'), 'processed'])
    expect(await orders()).toEqual(['1'])
  })

  it('A13: publish takes a transaction of the application, and refuses one that has ended', async () => {
    const { client, hapax } = await shop()
    const outbox = async () => (await client.execute('select count(*) as n from hapax_outbox')).rows[0]?.['n']
    const undone = await client.transaction('write')
    await hapax.publish(undone, Placed, { n: 1 })
    await undone.rollback()
    expect(await outbox()).toBe(0)
    const kept = await client.transaction('write')
    await hapax.publish(kept, Placed, { n: 1 })
    const late = hapax.publish(kept, Placed, { n: 2 })
    await Promise.all([kept.commit(), expect(late).rejects.toMatchObject({ code: 'not-in-transaction' })])
    await expect(hapax.publish(kept, Placed, { n: 3 })).rejects.toMatchObject({ code: 'not-in-transaction' })
    expect(await outbox()).toBe(1)
  })

  it('A4: only hapax ends its transactions, and a statement that does is noticed', async () => {
    const { hapax, orders } = await shop()
    await hapax.transaction(async (tx) => {
      expect(() => tx.commit()).toThrow('commit is not for handlers')
      expect(() => tx.close()).toThrow('close is not for handlers')
    })
    const ended = hapax.transaction(async (tx) => {
      await tx.execute('rollback')
      await tx.execute(insert('outside')).catch(() => {})
    })
    await expect(ended).rejects.toMatchObject({ code: 'broken-atomicity' })
    expect(await orders()).toEqual([])
  })

  it('does not commit when a failed statement was not awaited, and no process ends', async () => {
    const { hapax, orders } = await shop()
    const uncaught = uncaughtErrors()
    const careless = hapax.transaction(async (tx) => {
      await tx.execute(insert('a'))
      void tx.execute(insert('a'))
    })
    await expect(careless).rejects.toMatchObject({ code: 'unawaited-query' })
    await hapax.transaction(async (tx) => {
      await tx.execute(insert('a'))
      await tx.execute(insert('a')).catch(() => {})
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(uncaught).toEqual([])
    expect(await orders()).toEqual(['a'])
  })

  it('A11: a handler that throws after its time is up ends no process', async () => {
    const { hapax, orders } = await shop()
    const uncaught = uncaughtErrors()
    const [late, over] = [Promise.withResolvers<void>(), Promise.withResolvers<unknown>()]
    const consumer = hapax.consumer('late', { timeoutMs: 50, retry: { attempts: 1 } })
    consumer.on(Placed, async (_, { tx }) => {
      await late.promise
      await tx.execute(insert('late')).catch((error: unknown) => {
        over.resolve(error)
        throw error
      })
    })
    const outcome = await consumer.handle({ type: 'placed', id: '1', source: '/other', data: { n: 1 } })
    expect(outcome).toMatchObject({ status: 'failed' })
    late.resolve()
    expect(await over.promise).toMatchObject({ code: 'transaction-closed' })
    await new Promise((resolve) => setImmediate(resolve))
    expect(uncaught).toEqual([])
    expect(await orders()).toEqual([])
  })

  it('K2: a whole number of hapax is an integer in the database, also inside a text', async () => {
    const { client } = await shop()
    const text = `select typeof(?1) as type, ?1 || '' as text`
    const { rows } = await fromLibsql(client).query({ text, params: [1] }, 1_000)
    expect(rows).toEqual([{ type: 'integer', text: '1' }])
  })

  it('A22: commits wait for the disk', async () => {
    const { client } = await shop()
    expect((await client.execute('pragma journal_mode')).rows[0]).toMatchObject({ journal_mode: 'wal' })
    expect(() => fromLibsql({} as never)).toThrow('expected client to be a client of @libsql/client')
  })
})
