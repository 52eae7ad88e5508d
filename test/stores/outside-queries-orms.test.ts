// A service that a handler calls writes through the ORM itself, and not through the handler's transaction.

import { MikroORM as OnMariadb } from '@mikro-orm/mariadb'
import { MikroORM as OnPostgres } from '@mikro-orm/postgresql'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { getDataSourceToken, getRepositoryToken, TypeOrmModule } from '@nestjs/typeorm'
import { sql } from 'drizzle-orm'
import { drizzle as onMysql2 } from 'drizzle-orm/mysql2'
import { drizzle as onPg } from 'drizzle-orm/node-postgres'
import { createHapax, defineMessage, type HapaxOptions, type Logger } from 'hapax'
import type { Connection, ConnectionSource } from 'hapax/contracts'
import { fromDrizzle } from 'hapax/drizzle'
import { fromKnex } from 'hapax/knex'
import { fromKysely } from 'hapax/kysely'
import { fromMikroOrm } from 'hapax/mikro-orm'
import { mysql } from 'hapax/mysql'
import { HapaxModule, HapaxRunner, OnMessage } from 'hapax/nestjs'
import { postgres } from 'hapax/postgres'
import { fromSequelize } from 'hapax/sequelize'
import { fromTypeorm } from 'hapax/typeorm'
import knex from 'knex'
import { Kysely, sql as kyselySql, MysqlDialect, PostgresDialect } from 'kysely'
import { createPool } from 'mysql2'
import pg from 'pg'
import { Sequelize } from 'sequelize'
import { DataSource, EntitySchema, type Repository } from 'typeorm'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { present } from '../../src/base/index.ts'
import { type Checker, makePlace } from '../support/databases.ts'
import { provided } from '../support/nest.ts'
import { openPrisma } from '../support/orms.ts'
import { testStores } from '../support/servers.ts'

type Database = 'postgres' | 'mysql'

/** An ORM as the application has it. */
interface Opened {
  readonly from: Connection<object> | ConnectionSource<object>
  /** What a service does that knows nothing of the transaction. */
  outside(text: string): Promise<unknown>
  /** The same in a transaction of its own. */
  apart(text: string): Promise<unknown>
  inside(tx: object, text: string): Promise<unknown>
  close(): Promise<unknown>
}

/** What every ORM of this test has in common, whatever its types. */
// biome-ignore lint/suspicious/noExplicitAny: the ORMs are called as JavaScript calls them.
type Any = any

async function mikroOrm(orm: Any): Promise<Opened> {
  return {
    from: fromMikroOrm(orm) as Any,
    outside: (text) => orm.em.getConnection().execute(text),
    apart: (text) =>
      orm.em
        .fork({ useContext: false })
        .getConnection()
        .transactional((trx: Any) => orm.em.getConnection().execute(text, [], 'run', trx)),
    inside: (tx: Any, text) => tx.execute(text),
    close: () => orm.close(),
  }
}

async function typeorm(options: Any): Promise<Opened> {
  const dataSource = await new DataSource(options).initialize()
  return {
    from: fromTypeorm(dataSource) as Any,
    outside: (text) => dataSource.query(text),
    apart: (text) => dataSource.transaction((tx) => tx.query(text)),
    inside: (tx: Any, text) => tx.query(text),
    close: () => dataSource.destroy(),
  }
}

async function sequelize(url: string, options: object): Promise<Opened> {
  const db = new Sequelize(url, { logging: false, ...options })
  return {
    from: fromSequelize(db) as Any,
    outside: (text) => db.query(text),
    apart: (text) => db.transaction((transaction) => db.query(text, { transaction })),
    inside: (transaction: Any, text) => db.query(text, { transaction }),
    close: () => db.close(),
  }
}

async function onKnex(client: string, connection: Any): Promise<Opened> {
  const db = knex({ client, connection })
  return {
    from: fromKnex(db) as Any,
    outside: async (text) => db.raw(text),
    apart: (text) => db.transaction(async (tx) => tx.raw(text)),
    inside: async (tx: Any, text) => tx.raw(text),
    close: () => db.destroy(),
  }
}

async function onKysely(dialect: Any, pool: object): Promise<Opened> {
  const db = new Kysely<object>({ dialect })
  return {
    from: fromKysely(db, { pool }) as Any,
    outside: (text) => kyselySql.raw(text).execute(db),
    apart: (text) => db.transaction().execute((tx) => kyselySql.raw(text).execute(tx)),
    inside: (tx: Any, text) => kyselySql.raw(text).execute(tx),
    close: () => db.destroy(),
  }
}

async function onDrizzle(db: Any, end: () => Promise<unknown>): Promise<Opened> {
  return {
    from: fromDrizzle(db, sql) as Any,
    outside: (text) => db.execute(sql.raw(text)),
    apart: (text) => db.transaction((tx: Any) => tx.execute(sql.raw(text))),
    inside: (tx: Any, text) => tx.execute(sql.raw(text)),
    close: end,
  }
}

const orms: Record<string, Record<Database, (url: string) => Promise<Opened>>> = {
  drizzle: {
    postgres: (connectionString) => {
      const pool = new pg.Pool({ connectionString })
      return onDrizzle(onPg(pool), () => pool.end())
    },
    mysql: (uri) => {
      const pool = createPool({ uri })
      return onDrizzle(onMysql2(pool as Any), () => pool.promise().end())
    },
  },
  kysely: {
    postgres: (connectionString) => {
      const pool = new pg.Pool({ connectionString })
      return onKysely(new PostgresDialect({ pool }), pool)
    },
    mysql: (uri) => {
      const pool = createPool({ uri })
      return onKysely(new MysqlDialect({ pool: pool as Any }), pool)
    },
  },
  knex: {
    postgres: (url) => onKnex('pg', url),
    mysql: (uri) => onKnex('mysql2', { uri }),
  },
  typeorm: {
    postgres: (url) => typeorm({ type: 'postgres', url }),
    mysql: (url) => typeorm({ type: 'mariadb', url }),
  },
  sequelize: {
    postgres: (url) => sequelize(url, {}),
    mysql: (url) => sequelize(url, { dialectOptions: { flags: '+FOUND_ROWS' } }),
  },
  'mikro-orm': {
    postgres: async (clientUrl) =>
      mikroOrm(await OnPostgres.init({ clientUrl, discovery: { warnWhenNoEntities: false } })),
    mysql: async (clientUrl) => mikroOrm(await OnMariadb.init({ clientUrl, discovery: { warnWhenNoEntities: false } })),
  },
}

const Placed = defineMessage('order.placed')

const databases = (['postgres', 'mysql'] as const).filter((name) => testStores().includes(name))

describe.each(databases)('an outside query on %s', (database) => {
  let checker: Checker
  beforeAll(async () => {
    checker = await makePlace(database)
  })
  afterAll(() => checker[Symbol.asyncDispose]())
  const effects = (): string => (database === 'postgres' ? `${checker.place.schema}.business` : 'effects')
  beforeEach(async () => {
    await checker.query(`delete from ${effects()}`)
  })
  let next = 0
  const message = () => ({ id: `m${next++}`, source: '/test', type: 'order.placed', data: {} })
  const insert = (what: string) => `insert into ${effects()} values ('${what}', 'o1', 1)`
  const written = async (): Promise<unknown[]> =>
    (await checker.query(`select consumer from ${effects()} order by consumer`)).map((row) => row['consumer'])

  async function application(orm: string, outsideQueries: 'warn' | 'error') {
    const { url, schema } = checker.place
    const opened = await present(orms[orm], orm)[database](url)
    const store =
      database === 'postgres'
        ? postgres(opened.from, { schema })
        : mysql(opened.from, { database: new URL(url).pathname.slice(1) })
    const warned: unknown[] = []
    const add = (fields: object): void =>
      void ('code' in fields && fields.code === 'outside-query' && warned.push(fields))
    const logger = { debug: () => {}, info: () => {}, warn: add, error: () => {} } as unknown as Logger
    const options: HapaxOptions<object, object> = { store, source: '/test', logger, outsideQueries }
    const hapax = createHapax(options)
    onTestFinished(async () => {
      await hapax.close()
      await opened.close()
    })
    return { hapax, opened, warned }
  }

  const cases = Object.keys(orms).flatMap((orm) => (['outside', 'apart'] as const).map((how) => ({ orm, how })))

  it.each(cases)('of a service on $orm is warned of, and nothing that hapax does ($how)', async ({ orm, how }) => {
    const { hapax, opened, warned } = await application(orm, 'warn')
    const before: number[] = []
    const inner = hapax.consumer('inner')
    inner.on(Placed, async (_, { tx }) => void (await opened.inside(tx, insert('inner'))))
    const outer = hapax.consumer('outer')
    outer.on(Placed, async (_, { tx }) => {
      await opened.inside(tx, insert('outer'))
      expect((await inner.handle(message())).status).toBe('processed')
      await hapax.status()
      before.push(warned.length)
      await opened[how](insert('service'))
    })
    for (let n = 0; n < 2; n++) expect((await outer.handle(message())).status).toBe('processed')
    expect(before).toEqual([0, 1])
    expect(warned).toMatchObject([{ consumer: 'outer' }])
    expect(await written()).toEqual(['inner', 'inner', 'outer', 'outer', 'service', 'service'])
  })

  it.each(cases)("of a service on $orm is refused with outsideQueries: 'error' ($how)", async ({ orm, how }) => {
    const { hapax, opened } = await application(orm, 'error')
    const consumer = hapax.consumer('billing', { onError: 'rollback' })
    consumer.on(Placed, async (_, { tx }) => {
      await opened.inside(tx, insert('inside'))
      await opened[how](insert('service'))
    })
    const outcome = await consumer.handle(message())
    expect(outcome).toMatchObject({ status: 'rolled-back', error: { code: 'outside-query' } })
    expect(await written()).toEqual([])
    // The pool works as before.
    await opened[how](insert('after'))
    expect(await written()).toEqual(['after'])
  })
})

describe.runIf(testStores().includes('postgres'))('an outside query of Prisma', () => {
  it('is refused, and nothing that hapax does', async () => {
    const checker = await makePlace('postgres')
    onTestFinished(() => checker[Symbol.asyncDispose]())
    const { url, schema } = checker.place
    await checker.query(`create table ${schema}.prisma_orders (id text primary key, total bigint not null default 0)`)
    const { store, pool, order, own, close } = await openPrisma({ url, schema, application: 'outside', max: 5 })
    const hapax = createHapax({ store, source: '/test', outsideQueries: 'error' })
    onTestFinished(async () => {
      await hapax.close()
      await close()
    })
    expect(pool.totalCount).toBe(0)
    const consumer = hapax.consumer('billing', { onError: 'rollback' })
    consumer.on(defineMessage<{ outside: boolean }>('order.placed'), async ({ outside }, { tx }) => {
      await order(tx, `inside ${outside}`)
      if (outside) await own((other) => order(other, 'outside'))
    })
    const ends = [false, true].map((outside) =>
      consumer.handle({ ...{ id: `${outside}`, source: '/test' }, type: 'order.placed', data: { outside } }),
    )
    expect(await Promise.all(ends)).toMatchObject([
      { status: 'processed' },
      { status: 'rolled-back', error: { code: 'outside-query' } },
    ])
    expect(await checker.query(`select id from ${schema}.prisma_orders`)).toEqual([{ id: 'inside false' }])
  })
})

describe.runIf(testStores().includes('postgres'))('an outside query of an injected repository in NestJS', () => {
  it.each(['warn', 'error'] as const)("is noticed with outsideQueries: '%s'", async (outsideQueries) => {
    const checker = await makePlace('postgres')
    onTestFinished(() => checker[Symbol.asyncDispose]())
    const { url, schema } = checker.place
    const Effect = new EntitySchema<{ id: string; consumer: string }>({
      name: 'Effect',
      tableName: 'business',
      schema,
      columns: { id: { type: 'text', primary: true }, consumer: { type: 'text' } },
    })
    class Audit {
      readonly #effects: Repository<{ id: string; consumer: string }>
      constructor(effects: Repository<{ id: string; consumer: string }>) {
        this.#effects = effects
      }
      write(): Promise<unknown> {
        return this.#effects.insert({ id: 'a', consumer: 'audit' })
      }
    }
    provided(Audit, { inject: [getRepositoryToken(Effect)] })
    class Billing {
      readonly #audit: Audit
      constructor(audit: Audit) {
        this.#audit = audit
      }
      async onOrder(): Promise<void> {
        await this.#audit.write()
        throw new Error('failed after the service')
      }
    }
    provided(Billing, { inject: [Audit], methods: { onOrder: [OnMessage(Placed, { consumer: 'billing' })] } })
    const warned: unknown[] = []
    const add = (fields: object): void => void ('code' in fields && warned.push(fields.code))
    const logger = { debug: () => {}, info: () => {}, warn: add, error: () => {} } as unknown as Logger
    class App {}
    Module({
      imports: [
        TypeOrmModule.forRoot({ type: 'postgres', url, entities: [Effect] }),
        TypeOrmModule.forFeature([Effect]),
        HapaxModule.forRootAsync({
          inject: [getDataSourceToken()],
          useFactory: (dataSource: DataSource) => ({
            store: postgres(fromTypeorm(dataSource), { schema }),
            source: '/test',
            logger,
            outsideQueries,
            consumers: { billing: { onError: 'rollback' } },
          }),
        }),
      ],
      providers: [Audit, Billing],
    })(App)
    const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false })
    onTestFinished(() => app.close())
    const outcome = await app
      .get(HapaxRunner)
      .consumer('billing')
      .handle({ id: 'a', source: '/test', type: 'order.placed', data: {} })
    const rows = await checker.query(`select consumer from ${schema}.business`)
    if (outsideQueries === 'warn') {
      expect(warned).toContain('outside-query')
      expect(rows).toEqual([{ consumer: 'audit' }])
    } else {
      expect(outcome).toMatchObject({ status: 'rolled-back', error: { code: 'outside-query' } })
      expect(rows).toEqual([])
    }
  })
})
