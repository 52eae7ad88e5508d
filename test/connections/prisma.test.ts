import { setImmediate as immediate } from 'node:timers/promises'
import { PrismaBetterSqlite3 } from '@prisma/adapter-better-sqlite3'
import { PrismaMariaDb } from '@prisma/adapter-mariadb'
import { PrismaPg } from '@prisma/adapter-pg'
import { createHapax, defineMessage } from 'hapax'
import { postgres } from 'hapax/postgres'
import { fromPrisma } from 'hapax/prisma'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Client } from '../../src/conformance/stores/sql-business.ts'
import { runPair } from '../support/pairs.ts'
import { pgPool } from '../support/pg-pool.ts'
import { onMysql, onPostgres, onSqlite } from '../support/prisma/clients.ts'
import type { Prisma } from '../support/prisma/generated/postgresql/client.ts'
import { requireServer, testStores } from '../support/servers.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

/** The three generated types of transactions differ only in what models can do. */
type Tx = Prisma.TransactionClient

/** Longer than anything takes on a busy machine. */
const PATIENT = { timeout: 60_000, maxWait: 60_000 }

const client = (tx: Pick<Tx, '$executeRawUnsafe'>): Client => ({
  query: async (text, values = []) => tx.$executeRawUnsafe(text, ...values),
})

interface Nesting<Tx> {
  $transaction<T>(work: (inner: Tx) => Promise<T>): Promise<T>
}

/** The oldest release that is tested has none. */
const nesting = process.env['HAPAX_TEST_PEERS']
  ? {}
  : {
      nested: <Tx extends Nesting<Tx>, T>(tx: Tx, work: (inner: Tx) => Promise<T>): Promise<T> => tx.$transaction(work),
    }

await runPair<Tx>({
  orm: 'prisma',
  driver: 'pg',
  database: 'postgres',
  open: ({ url, max }) => {
    const prisma = new onPostgres.PrismaClient({ adapter: new PrismaPg({ connectionString: url, max }) })
    return {
      from: fromPrisma(prisma),
      own: (work) => prisma.$transaction(work, PATIENT),
      notBegun: (work) => work(prisma),
      close: () => prisma.$disconnect(),
    }
  },
  client,
  ...nesting,
  leaveOpen: (tx) => tx.$executeRawUnsafe('select pg_sleep(300)').catch(() => {}),
})

type MysqlTx = import('../support/prisma/generated/mysql/client.ts').Prisma.TransactionClient

await runPair<MysqlTx>({
  orm: 'prisma',
  driver: 'mariadb',
  database: 'mysql',
  open: ({ url, max }) => {
    const { hostname: host, port, username: user, password, pathname } = new URL(url)
    const adapter = new PrismaMariaDb({
      host,
      port: Number(port),
      user,
      password,
      database: pathname.slice(1),
      connectionLimit: max,
      // Ten seconds and one, unless others are set: this pool gives up those who wait even while the queue in front of it moves.
      acquireTimeout: PATIENT.maxWait,
      connectTimeout: PATIENT.maxWait,
    })
    const prisma = new onMysql.PrismaClient({ adapter })
    return {
      from: fromPrisma(prisma),
      own: (work) => prisma.$transaction(work, PATIENT),
      notBegun: (work) => work(prisma),
      close: () => prisma.$disconnect(),
    }
  },
  client,
  ...nesting,
  leaveOpen: (tx) => tx.$executeRawUnsafe('do sleep(300)').catch(() => {}),
})

type SqliteTx = import('../support/prisma/generated/sqlite/client.ts').Prisma.TransactionClient

await runPair<SqliteTx>({
  orm: 'prisma',
  driver: 'better-sqlite3',
  database: 'sqlite',
  cannot: { 'something left open': 'a statement is over when it returns' },
  open: ({ url }) => {
    const prisma = new onSqlite.PrismaClient({ adapter: new PrismaBetterSqlite3({ url }) })
    return {
      from: fromPrisma(prisma),
      own: (work) => prisma.$transaction(work, PATIENT),
      notBegun: (work) => work(prisma),
      close: () => prisma.$disconnect(),
    }
  },
  client,
  ...nesting,
  leaveOpen: () => {},
})

const pgUrl = testStores().includes('postgres') ? requireServer('postgres') : undefined

describe.skipIf(pgUrl === undefined)('prisma on pg alone', () => {
  const url = pgUrl ?? ''
  const schema = `prisma_${process.pid}`
  const admin = pgPool({ connectionString: url, max: 1 })
  const prisma = new onPostgres.PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 2 }, { schema }) })
  const hapax = createHapax({ store: postgres(fromPrisma(prisma), { schema }), source: '/test' })
  const Placed = defineMessage<{ id: string }>('order.placed')

  beforeAll(async () => {
    await admin.query(`create schema ${schema};
      create table ${schema}.prisma_orders (id text primary key, total bigint not null default 0);
      create table ${schema}.prisma_order_lines (id text primary key, "orderId" text not null)`)
    await hapax.migrate()
  })
  afterAll(async () => {
    await prisma.$disconnect()
    await admin.query(`drop schema ${schema} cascade`)
    await admin.end()
  })

  const count = (): Promise<number> => prisma.order.count().then(Number)

  it('A9: a nested write that the handler does not await is not committed, not even its second half', async () => {
    const before = await count()
    const transaction = hapax.transaction(async (tx) => {
      const lines = { create: Array.from({ length: 20 }, (_, index) => ({ id: `nested ${index}` })) }
      tx.order.create({ data: { id: 'nested', lines } }).catch(() => {})
      // Prisma begins a moment after somebody waits for it.
      await immediate()
    })
    await expect(transaction).rejects.toMatchObject({ code: 'unawaited-query' })
    expect(await count()).toBe(before)
    expect(await prisma.orderLine.count()).toBe(0)
  })

  it('A3: a statement that Prisma drops because another one failed rejects', async () => {
    const outcomes = await hapax
      .transaction(async (tx) => {
        await tx.$executeRawUnsafe('savepoint before')
        const settled = await Promise.allSettled([
          tx.$executeRawUnsafe('select 1 / 0'),
          tx.$executeRawUnsafe(`insert into ${schema}.prisma_orders (id) values ('dropped')`),
        ])
        await tx.$executeRawUnsafe('rollback to savepoint before')
        return settled
      })
      .then((settled) => settled.map(({ status }) => status))
    expect(outcomes).toEqual(['rejected', 'rejected'])
  })

  it('A11: a call on an ended transaction, or on one of its models, rejects and does not throw', async () => {
    const { tx, order } = await hapax.transaction(async (tx) => {
      expect(tx.order).toBe(tx.order)
      await tx.order.count()
      return { tx, order: tx.order }
    })
    const calls = [
      () => tx.order.create({ data: { id: 'too late' } }),
      () => tx.order.findMany(),
      () => order.create({ data: { id: 'too late' } }),
      () => tx.$queryRaw`select 1`,
      () => tx.$executeRawUnsafe('select 1'),
    ]
    for (const call of calls) {
      // Not `rejects`, which a synchronous throw would satisfy as well.
      const error = await call().catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'transaction-closed' })
    }
    expect(await prisma.order.count({ where: { id: 'too late' } })).toBe(0)
  })

  it('A11: a publish in a transaction that Prisma has ended after its own time-out is refused', async () => {
    const published = await prisma
      .$transaction(
        async (tx) => {
          await expect.poll(() => tx.order.count().catch(() => 'ended')).toBe('ended')
          return hapax.publish(tx, Placed, { id: 'late' }).catch((error: unknown) => error)
        },
        { timeout: 100 },
      )
      .catch((error: unknown) => error)
    expect(published).toMatchObject({ code: 'P2028' })
    expect((await admin.query(`select id from ${schema}.outbox`)).rows).toEqual([])
  })

  it('E8: a backend that is terminated inside a handler costs its transaction, and its connection is replaced', async () => {
    const uncaught = uncaughtErrors()
    for (let round = 0; round < 4; round++) {
      const lost = hapax.transaction(async (tx) => {
        await tx.$queryRawUnsafe('select pg_terminate_backend(pg_backend_pid())')
      })
      await expect(lost).rejects.toMatchObject({ code: 'transaction-lost' })
    }
    await hapax.transaction((tx) => tx.order.create({ data: { id: 'after' } }))
    expect(uncaught).toEqual([])
  })
})
