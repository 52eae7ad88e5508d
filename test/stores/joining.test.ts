// Services that find the transaction of the handler that calls them, by what their ORM or framework has for that.

import { AsyncLocalStorage } from 'node:async_hooks'
import { EntitySchema } from '@mikro-orm/core'
import { MikroORM as OnMariadb } from '@mikro-orm/mariadb'
import { MikroORM as OnPostgres } from '@mikro-orm/postgresql'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { getDataSourceToken, TypeOrmModule } from '@nestjs/typeorm'
import { ClsPluginTransactional, Propagation, Transactional, TransactionHost } from '@nestjs-cls/transactional'
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm'
import { createHapax, defineMessage, type HandlerContext, type Hapax, type HapaxOptions, type Store } from 'hapax'
import { fromMikroOrm } from 'hapax/mikro-orm'
import { mysql } from 'hapax/mysql'
import { HapaxModule, HapaxRunner, inTransactionHost, OnMessage } from 'hapax/nestjs'
import { type PgTx, postgres } from 'hapax/postgres'
import { fromSequelize } from 'hapax/sequelize'
import { fromTypeorm } from 'hapax/typeorm'
import { ClsModule, ClsService } from 'nestjs-cls'
import pg from 'pg'
import { Sequelize } from 'sequelize'
import type { DataSource, EntityManager } from 'typeorm'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { type Checker, makePlace } from '../support/databases.ts'
import { provided } from '../support/nest.ts'
import { testStores } from '../support/servers.ts'

const Placed = defineMessage<{ fails: boolean }>('order.placed')

let next = 0
const message = (fails: boolean) => ({ id: `m${next++}`, source: '/test', type: 'order.placed', data: { fails } })

const databases = (['postgres', 'mysql'] as const).filter((name) => testStores().includes(name))

describe.each(databases)('on %s, a service joins the transaction of the handler', (database) => {
  let checker: Checker
  beforeAll(async () => {
    checker = await makePlace(database)
  })
  afterAll(() => checker[Symbol.asyncDispose]())
  const effects = (): string => (database === 'postgres' ? `${checker.place.schema}.business` : 'effects')
  beforeEach(async () => {
    await checker.query(`delete from ${effects()}`)
  })
  const insert = (what: string) => `insert into ${effects()} values ('${what}', 'o1', 1)`
  const written = async (): Promise<unknown[]> =>
    (await checker.query(`select consumer from ${effects()} order by consumer`)).map((row) => row['consumer'])

  /** What a handler writes that calls this service, and then returns or fails. Queries outside of its transaction are refused. */
  async function handled<Tx extends object>(
    store: Store<Tx, Tx>,
    service: (what: string) => Promise<unknown>,
  ): Promise<void> {
    const options: HapaxOptions<Tx, Tx> = { store, source: '/test', outsideQueries: 'error' }
    const hapax = createHapax(options)
    onTestFinished(() => hapax.close())
    const inner = hapax.consumer('inner', { onError: 'rollback' })
    inner.on(Placed, () => service('inner'))
    const outer = hapax.consumer('outer', { onError: 'rollback' })
    outer.on(Placed, async ({ fails }) => {
      await service('before')
      await inner.handle(message(false))
      await hapax.transaction(() => service('own'))
      await service('after')
      if (fails) throw new Error('failed after the service')
    })
    expect((await outer.handle(message(true))).status).toBe('rolled-back')
    expect(await written()).toEqual(['inner', 'own'])
    expect((await outer.handle(message(false))).status).toBe('processed')
    expect(await written()).toEqual(['after', 'before', 'inner', 'inner', 'own', 'own'])
  }

  const storeOn = (from: never): Store<object, object> => {
    const { url, schema } = checker.place
    return database === 'postgres'
      ? postgres(from, { schema })
      : mysql(from, { database: new URL(url).pathname.slice(1) })
  }

  it('by the CLS of Sequelize', async () => {
    const { useCLS } = Sequelize
    useCLS.call(Sequelize, namespace())
    onTestFinished(() => void Reflect.deleteProperty(Sequelize, '_cls'))
    const flags = database === 'mysql' ? { dialectOptions: { flags: '+FOUND_ROWS' } } : {}
    const db = new Sequelize(checker.place.url, { logging: false, ...flags })
    onTestFinished(() => db.close())
    await handled(storeOn(fromSequelize(db) as never), (what) => db.query(insert(what)))
  })

  it('by the context of MikroORM, with what it persists', async () => {
    class Effect {
      id!: string
      consumer!: string
    }
    const entity = new EntitySchema({
      class: Effect,
      tableName: database === 'postgres' ? 'business' : 'effects',
      ...(database === 'postgres' && { schema: checker.place.schema }),
      properties: { id: { type: 'string', primary: true }, consumer: { type: 'string' } },
    })
    const options = { entities: [entity], clientUrl: checker.place.url }
    const orm = database === 'postgres' ? await OnPostgres.init(options) : await OnMariadb.init(options)
    onTestFinished(() => orm.close())
    const { em } = orm as OnPostgres
    await handled(storeOn(fromMikroOrm(orm as OnPostgres) as never), async (what) => {
      em.persist(em.create(Effect, { id: `${what} ${next++}`, consumer: what }))
    })
  })
})

/** A namespace as Sequelize wants it, such as `cls-hooked` makes. */
function namespace(): object {
  const storage = new AsyncLocalStorage<Map<string, unknown>>()
  return {
    bind: (call: unknown) => call,
    run: (call: (context: unknown) => unknown) => storage.run(new Map(storage.getStore()), () => call({})),
    get: (key: string) => storage.getStore()?.get(key),
    set: (key: string, value: unknown) => storage.getStore()?.set(key, value),
  }
}

describe.runIf(testStores().includes('postgres'))('around', () => {
  let checker: Checker
  beforeAll(async () => {
    checker = await makePlace('postgres')
  })
  afterAll(() => checker[Symbol.asyncDispose]())
  beforeEach(async () => {
    await checker.query(`delete from ${checker.place.schema}.business`)
  })
  const insert = (what: string) => `insert into ${checker.place.schema}.business values ('${what}', 'o1', 1)`
  const written = async (): Promise<unknown[]> => {
    const rows = await checker.query(`select consumer from ${checker.place.schema}.business order by consumer`)
    return rows.map(({ consumer }) => consumer)
  }

  describe('with a storage of the application', () => {
    function application() {
      const { url, schema } = checker.place
      const pool = new pg.Pool({ connectionString: url, max: 5 })
      const storage = new AsyncLocalStorage<PgTx>()
      const hapax: Hapax<PgTx> = createHapax({
        store: postgres({ pool, schema }) as unknown as Store<PgTx, PgTx>,
        source: '/test',
        outsideQueries: 'error',
        around: (tx, call) => storage.run(tx, call),
      })
      onTestFinished(async () => {
        await hapax.close()
        await pool.end()
      })
      const service = (what: string): Promise<unknown> =>
        storage.getStore()?.query(insert(what)) ?? pool.query(insert(what))
      return { hapax, service, storage }
    }

    it('calls every kind of handler, and the work of hapax.transaction', async () => {
      const { hapax, service } = application()
      const one = hapax.consumer('one')
      one.on(Placed, () => service('one'))
      const many = hapax.consumer('many')
      many.onMany(Placed, () => service('many'))
      const leased = hapax.leased('leased')
      leased.on(Placed, (_, ctx) => ctx.complete(() => service('leased')))
      const post = hapax.http('orders', { principal: () => 'somebody' }).handler(async () => {
        await service('http')
        return Response.json({})
      })
      const worker = hapax.worker({ consume: [leased] })
      await worker.start()
      onTestFinished(() => worker.stop())
      for (const consumer of [one, many, leased]) await consumer.handle(message(false))
      await worker.drain()
      await post(new Request('http://localhost/orders', { method: 'POST', headers: { 'idempotency-key': 'a' } }))
      await hapax.transaction(() => service('own'))
      expect(await written()).toEqual(['http', 'leased', 'many', 'one', 'own'])
    })

    it.each([{}, { together: true }, { together: false }])('calls each of a group (%j)', async (group) => {
      const { hapax, service, storage } = application()
      const consumer = hapax.consumer('billing', { onError: 'rollback', group: { size: 10, ...group } })
      const seen = new Set<unknown>()
      consumer.on(Placed, async ({ fails }, { tx }) => {
        await service('before')
        expect(storage.getStore()).toBe(tx)
        seen.add(tx)
        if (fails) throw new Error('failed after the service')
      })
      const handled = async (...fail: readonly boolean[]) => {
        const outcomes = await consumer.handleMany(fail.map(message))
        return outcomes.map(({ status }) => status)
      }
      // Once to learn how the handler goes, and again as it goes then.
      for (let n = 0; n < 3; n++) {
        seen.clear()
        expect(await handled(false, false, false)).toEqual(['processed', 'processed', 'processed'])
      }
      expect(seen.size).toBe(1)
      expect(await handled(false, true, false)).toEqual(['processed', 'rolled-back', 'processed'])
      expect(await written()).toHaveLength(11)
    })
  })

  /** What two messages write. */
  const BOTH = ['apart', 'apart', 'handler', 'handler', 'host', 'host', 'required', 'required']

  it('gives the transaction to the TransactionHost of nestjs-cls', async () => {
    const { url, schema } = checker.place
    class Audit {
      readonly #host: TransactionHost<TransactionalAdapterTypeOrm>
      constructor(host: TransactionHost<TransactionalAdapterTypeOrm>) {
        this.#host = host
      }
      write(what: string): Promise<unknown> {
        return this.#host.tx.query(insert(what))
      }
      required(): Promise<unknown> {
        return this.write('required')
      }
      apart(): Promise<unknown> {
        return this.write('apart')
      }
    }
    const methods = { required: [Transactional()], apart: [Transactional(Propagation.RequiresNew)] }
    provided(Audit, { inject: [TransactionHost], methods })
    const users: unknown[] = []
    const txs = new Set<unknown>()
    class Billing {
      readonly #audit: Audit
      readonly #cls: ClsService
      constructor(audit: Audit, cls: ClsService) {
        this.#audit = audit
        this.#cls = cls
      }
      async onOrder({ fails }: { fails: boolean }, ctx: HandlerContext<EntityManager>): Promise<void> {
        users.push(this.#cls.get('user'))
        txs.add(ctx.tx)
        this.#cls.set('user', 'left by another message')
        await ctx.tx.query(insert('handler'))
        await this.#audit.write('host')
        await this.#audit.required()
        await this.#audit.apart()
        if (fails) throw new Error('failed after the service')
      }
    }
    provided(Billing, {
      inject: [Audit, ClsService],
      methods: { onOrder: [OnMessage(Placed, { consumer: 'billing' })] },
    })
    class App {}
    Module({
      imports: [
        TypeOrmModule.forRoot({ type: 'postgres', url }),
        ClsModule.forRoot({
          global: true,
          plugins: [
            new ClsPluginTransactional({
              imports: [TypeOrmModule],
              adapter: new TransactionalAdapterTypeOrm({ dataSourceToken: getDataSourceToken() as string }),
            }),
          ],
        }),
        HapaxModule.forRootAsync({
          inject: [getDataSourceToken(), TransactionHost],
          useFactory: (dataSource: DataSource, host: TransactionHost) => ({
            store: postgres(fromTypeorm(dataSource), { schema }),
            source: '/test',
            around: inTransactionHost(host),
            consumers: { billing: { onError: 'rollback', group: { size: 10 } } },
          }),
        }),
      ],
      providers: [Audit, Billing],
    })(App)
    const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false })
    onTestFinished(() => app.close())
    const billing = app.get(HapaxRunner).consumer('billing')
    const outcomes = await billing.handleMany([message(false), message(false)])
    expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'processed'])
    expect(txs.size).toBe(1)
    expect(await written()).toEqual(BOTH)
    expect(await billing.handle(message(true))).toMatchObject({
      status: 'rolled-back',
      error: { message: 'failed after the service' },
    })
    expect(await written()).toEqual(['apart', ...BOTH])
    expect(users).toEqual([undefined, undefined, undefined])
  })

  it('refuses what is no TransactionHost when the application starts', () => {
    expect(() => inTransactionHost({} as never)).toThrow('expected host to be a TransactionHost')
  })
})
