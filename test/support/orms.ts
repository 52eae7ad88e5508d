// Applications on ORMs whose pool of `pg` is in the test's own hand, so that it can be used up and counted.

import { PrismaPg } from '@prisma/adapter-pg'
import { sql } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { pgSchema, text } from 'drizzle-orm/pg-core'
import type { Store } from 'hapax'
import { fromDrizzle } from 'hapax/drizzle'
import { fromKysely } from 'hapax/kysely'
import { postgres } from 'hapax/postgres'
import { fromPrisma } from 'hapax/prisma'
import { fromTypeorm } from 'hapax/typeorm'
import { Kysely, sql as kyselySql, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import { DataSource, type EntityManager, EntitySchema } from 'typeorm'
import { onPostgres } from './prisma/clients.ts'
import type { Prisma } from './prisma/generated/postgresql/client.ts'

/** Where an application connects to, and as whom. */
export interface OrmTarget {
  readonly url: string
  readonly schema: string
  /** As `pg_stat_activity` names it. */
  readonly application: string
  /** The most connections of its pool. */
  readonly max: number
}

/** The business table of every application: that of a model of the Prisma clients. */
export const ORDERS = 'prisma_orders'

/** An application of one ORM on PostgreSQL. */
export interface OrmApplication<Tx extends object> {
  readonly store: Store<Tx, Tx>
  readonly pool: pg.Pool
  /** Writes one row of business, in the ORM's own way. */
  order(tx: Tx, id: string): Promise<unknown>
  /** A statement that takes minutes. */
  hang(tx: Tx): Promise<unknown>
  /** A transaction of the user's, in the ORM's own way. */
  own<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  close(): Promise<unknown>
}

/** Longer than anything takes on a busy machine. */
const PATIENT = { timeout: 120_000, maxWait: 120_000 }

const SLEEP = 'select pg_sleep(300)'

function poolOf({ url, application, max }: OrmTarget): pg.Pool {
  return new pg.Pool({ connectionString: url, application_name: application, max })
}

/** Prisma ends the pools that it makes itself only. */
export async function openPrisma(target: OrmTarget): Promise<OrmApplication<Prisma.TransactionClient>> {
  const { schema } = target
  const pool = poolOf(target)
  const prisma = new onPostgres.PrismaClient({ adapter: new PrismaPg(pool, { schema }) })
  return {
    store: postgres(fromPrisma(prisma), { schema }),
    pool,
    order: (tx, id) => tx.order.create({ data: { id } }),
    hang: (tx) => tx.$executeRawUnsafe(SLEEP),
    own: (work) => prisma.$transaction(work, PATIENT),
    close: async () => {
      await prisma.$disconnect()
      await pool.end()
    },
  }
}

type DrizzleTx = Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0]

export async function openDrizzle(target: OrmTarget): Promise<OrmApplication<DrizzleTx>> {
  const { schema } = target
  const pool = poolOf(target)
  const db = drizzle(pool)
  const orders = pgSchema(schema).table(ORDERS, { id: text('id') })
  return {
    store: postgres(fromDrizzle(db, sql), { schema }),
    pool,
    order: (tx, id) => tx.insert(orders).values({ id }),
    hang: (tx) => tx.execute(sql.raw(SLEEP)),
    own: (work) => db.transaction(work),
    close: () => pool.end(),
  }
}

type KyselyTx = Transaction<{ [ORDERS]: { id: string } }>

export async function openKysely(target: OrmTarget): Promise<OrmApplication<KyselyTx>> {
  const { schema } = target
  const pool = poolOf(target)
  const db = new Kysely<{ [ORDERS]: { id: string } }>({ dialect: new PostgresDialect({ pool }) })
  return {
    store: postgres(fromKysely(db, { pool }), { schema }),
    pool,
    order: (tx, id) => tx.withSchema(schema).insertInto(ORDERS).values({ id }).execute(),
    hang: (tx) => kyselySql.raw(SLEEP).execute(tx),
    own: (work) => db.transaction().execute(work),
    close: () => db.destroy(),
  }
}

export async function openTypeorm(target: OrmTarget): Promise<OrmApplication<EntityManager>> {
  const { url, schema, application: applicationName, max: poolSize } = target
  const Order = new EntitySchema<{ id: string }>({
    name: 'Order',
    tableName: ORDERS,
    schema,
    columns: { id: { type: 'text', primary: true } },
  })
  const dataSource = new DataSource({ type: 'postgres', url, applicationName, poolSize, entities: [Order] })
  await dataSource.initialize()
  const { master } = dataSource.driver as unknown as { master: pg.Pool }
  return {
    store: postgres(fromTypeorm(dataSource), { schema }),
    pool: master,
    order: (tx, id) => tx.insert(Order, { id }),
    hang: (tx) => tx.query(SLEEP),
    own: (work) => dataSource.transaction(work),
    close: () => dataSource.destroy(),
  }
}
