import { once } from 'node:events'
import { ConsoleLogger, type INestApplicationContext, Module, type ModuleMetadata, type Type } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { HealthCheckService, TerminusModule } from '@nestjs/terminus'
import { createHapax, defineMessage, type HandlerContext, type Hapax, type Logger, silentLogger } from 'hapax'
import { memoryBroker } from 'hapax/memory-broker'
import {
  HAPAX,
  HapaxHealth,
  HapaxModule,
  type HapaxModuleOptions,
  type HapaxOptionsFactory,
  HapaxRunner,
  OnMessage,
} from 'hapax/nestjs'
import { postgres } from 'hapax/postgres'
import { type SqliteTx, sqlite } from 'hapax/sqlite'
import { Pool } from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { durableStores, makePlace } from '../support/databases.ts'
import { provided } from '../support/nest.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')
type Shop = Hapax<SqliteTx>

function shop(logger: Logger = silentLogger): HapaxModuleOptions & { hapax: Shop } {
  const store = sqlite({ path: ':memory:' })
  return { hapax: createHapax({ store, source: '/shop', delivery: 'local', logger }), migrate: true }
}

/** An application of this module, until the end of the test. */
async function started(metadata: ModuleMetadata): Promise<INestApplicationContext> {
  class App {}
  Module(metadata)(App)
  const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false })
  onTestFinished(() => app.close())
  return app
}

/** A worker elsewhere starts, takes a message and stops: whatever else was about to happen has had its time. */
async function elsewhere(): Promise<void> {
  const { hapax } = shop()
  await hapax.migrate()
  const orders = hapax.consumer('orders').on(OrderPlaced, () => {})
  await place(hapax, 'B1')
  expect(await hapax.workOnce({ maxMs: 40_000, consume: [orders] })).toMatchObject({ processed: 1 })
  await hapax.close()
}

const place = (hapax: Shop, orderId: string) => hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId }))

describe('forRootAsync', () => {
  class Config {
    readonly source = '/from-config'
    createHapaxOptions(): HapaxModuleOptions {
      const store = sqlite({ path: ':memory:' })
      return { store, source: this.source, delivery: 'local', migrate: true, logger: silentLogger }
    }
  }
  provided(Config, {}) satisfies new () => HapaxOptionsFactory
  class ConfigModule {}
  Module({ providers: [Config], exports: [Config] })(ConfigModule)
  const imports = [ConfigModule]
  const useFactory = async (config: Config) => config.createHapaxOptions()

  it.for([
    ['useFactory', { imports, inject: [Config], useFactory }],
    ['useClass', { useClass: Config }],
    ['useExisting', { imports, useExisting: Config }],
  ] as const)('takes %s', async ([, options]) => {
    const orders: string[] = []
    class Orders {
      onOrder({ orderId }: { orderId: string }, ctx: HandlerContext<unknown>): void {
        orders.push(`${orderId} of ${ctx.message.source}`)
      }
    }
    provided(Orders, { methods: { onOrder: [OnMessage(OrderPlaced, { consumer: 'orders' })] } })
    const app = await started({ imports: [HapaxModule.forRootAsync(options as never)], providers: [Orders] })
    await place(app.get(HAPAX), 'A1')
    await app.get(HapaxRunner).worker?.drain()
    expect(orders).toEqual(['A1 of /from-config'])
  })
})

describe('the application shuts down', () => {
  /** An application in whose first handler a shutdown begins; what `beforeShutdown` waits for decides when that handler ends. */
  async function shutDown(beforeShutdown: (release: () => void, processed: Promise<unknown>) => unknown) {
    const seen: string[] = []
    const running = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const { hapax, ...options } = shop()
    const processed = new Promise((resolve) => {
      hapax.events.on('processed', resolve)
    })
    class Orders {
      async onOrder(order: { orderId: string }): Promise<void> {
        seen.push(`begins ${order.orderId}`)
        running.resolve()
        await release.promise
        seen.push(`ends ${order.orderId}`)
      }
      onModuleDestroy(): void {
        seen.push('destroy')
      }
      beforeApplicationShutdown(): unknown {
        return beforeShutdown(release.resolve, processed)
      }
      onApplicationShutdown(): void {
        seen.push('shutdown')
      }
    }
    provided(Orders, { methods: { onOrder: [OnMessage(OrderPlaced, { consumer: 'orders' })] } })
    const consumers = { orders: { concurrency: 1, group: { size: 1 } } }
    const app = await started({ imports: [HapaxModule.forRoot({ hapax, ...options, consumers })], providers: [Orders] })
    const both = ['A1', 'A2'].map((orderId) => OrderPlaced.of({ orderId }))
    await hapax.transaction((tx) => hapax.publishMany(tx, both))
    await running.promise
    await app.close()
    await processed
    await expect(hapax.transaction(async () => {})).rejects.toMatchObject({ code: 'closed' })
    return seen
  }

  it('a running handler finishes and commits before anything is closed', async () => {
    const seen = await shutDown((release) => void elsewhere().then(release))
    expect(seen).toEqual(['begins A1', 'destroy', 'ends A1', 'shutdown'])
  })

  it('no other handler begins once modules are destroyed', async () => {
    const seen = await shutDown(async (release, processed) => {
      release()
      await processed
      await elsewhere()
    })
    expect(seen).toEqual(['begins A1', 'destroy', 'ends A1', 'shutdown'])
  })

  it('a handler that takes too long is told to stop, and nothing of it is kept', async () => {
    const running = Promise.withResolvers<void>()
    let reason: unknown
    class Orders {
      async onOrder(_: unknown, ctx: HandlerContext<SqliteTx>): Promise<void> {
        running.resolve()
        await once(ctx.signal, 'abort')
        reason = ctx.signal.reason
        throw reason
      }
    }
    provided(Orders, { methods: { onOrder: [OnMessage(OrderPlaced, { consumer: 'orders' })] } })
    const logged: string[] = []
    const at = (level: string) => (_: object, message: string) => void logged.push(`${level}: ${message}`)
    const logger = { debug: () => {}, info: at('info'), warn: at('warn'), error: at('error') }
    const options = { ...shop(logger), shutdownMs: 1 }
    const app = await started({ imports: [HapaxModule.forRoot(options)], providers: [Orders] })
    await place(options.hapax, 'A1')
    await running.promise
    await app.close()
    expect(reason).toMatchObject({ code: 'transaction-lost' })
    expect(logged).toEqual([
      'info: the worker has started',
      'info: the worker stopped before the handler had finished; the message is put back',
      'info: the worker has stopped',
    ])
  })

  it('before it has started, or twice', async () => {
    const options = shop()
    const app = await started({ imports: [HapaxModule.forRoot({ ...options, worker: false })] })
    await Promise.all([app.close(), app.close()])
    await app.close()
  })
})

describe('health', () => {
  async function checked(options: HapaxModuleOptions, providers: ModuleMetadata['providers'] = []) {
    const app = await started({ imports: [HapaxModule.forRoot(options), TerminusModule], providers: providers ?? [] })
    const [service, health] = [await app.resolve(HealthCheckService), app.get(HapaxHealth)]
    return { app, check: () => service.check([() => health.check('hapax')]) }
  }

  class Orders {
    onOrder(): void {}
  }
  provided(Orders, { methods: { onOrder: [OnMessage(OrderPlaced, { consumer: 'orders' })] } })

  it('is that of the worker, as terminus takes it', async () => {
    const { app, check } = await checked(shop(), [Orders])
    await until(async () => app.get(HapaxRunner).worker?.ready === true)
    const up = { status: 'up', consumers: ['orders'], relays: [] }
    expect(await check()).toMatchObject({ status: 'ok', details: { hapax: up } })
    await app.get(HapaxRunner).worker?.stop()
    await expect(check()).rejects.toMatchObject({
      response: { status: 'error', error: { hapax: { status: 'down', message: 'the worker is not ready' } } },
    })
  })

  it('is that of the database without a worker', async () => {
    const options = shop()
    const { check, app } = await checked({ ...options, worker: false }, [Orders])
    expect(app.get(HapaxRunner).worker).toBeUndefined()
    expect(await check()).toMatchObject({ status: 'ok', details: { hapax: { status: 'up' } } })
    await options.hapax.close()
    await expect(check()).rejects.toMatchObject({ response: { status: 'error' } })
  })
})

describe('a second application of one module class', () => {
  class Orders {
    onOrder(): void {}
  }
  provided(Orders, { methods: { onOrder: [OnMessage(OrderPlaced, { consumer: 'orders' })] } })
  const opened = async (App: Type): Promise<INestApplicationContext> =>
    NestFactory.createApplicationContext(App, { logger: false, abortOnError: false })

  it('has what a factory makes, as in the tests that a new project begins with', async () => {
    class App {}
    const broker = memoryBroker()
    const useFactory = () => ({
      store: sqlite({ path: ':memory:' }),
      source: '/shop',
      migrate: true,
      logger: silentLogger,
      worker: { relay: broker.topic('shop') },
      consumers: { orders: { from: broker.queue('orders', { topic: 'shop' }) } },
    })
    Module({ imports: [HapaxModule.forRootAsync({ useFactory })], providers: [Orders] })(App)
    for (const orderId of ['A1', 'A2', 'A3']) {
      const app = await opened(App)
      const hapax = app.get<Shop>(HAPAX)
      const processed = new Promise((resolve) => void hapax.events.on('processed', resolve))
      await place(hapax, orderId)
      await processed
      await app.close()
    }
  })

  it('is refused what an earlier one has closed, with what to do', async () => {
    const given = shop()
    const store = sqlite({ path: ':memory:' })
    const relay = memoryBroker().topic('shop')
    const made = () => ({ store: sqlite({ path: ':memory:' }), source: '/shop', migrate: true, logger: silentLogger })
    const constants: [what: string, options: () => HapaxModuleOptions][] = [
      ['hapax', () => given],
      ['store', () => ({ ...made(), store })],
      ['the relay', () => ({ ...made(), worker: { relay } })],
      ['the relay', () => ({ ...made(), worker: { relays: { shop: relay } } })],
    ]
    for (const [what, options] of constants) {
      class App {}
      Module({ imports: [HapaxModule.forRootAsync({ useFactory: options })] })(App)
      const first = await opened(App).catch(() => undefined)
      await first?.close()
      await expect(opened(App)).rejects.toMatchObject({
        code: 'invalid-option',
        message: expect.stringContaining(`expected ${what} to be new for each application`),
      })
    }
  })
})

describe.each(durableStores().filter((name) => name === 'postgres'))('a second application on %s', (name) => {
  /** What opens applications of one module class, each with this store. */
  const opener = (store: ReturnType<typeof postgres>): (() => Promise<INestApplicationContext>) => {
    class App {}
    const useFactory = () => ({ store, source: '/shop', migrate: true, logger: silentLogger })
    Module({ imports: [HapaxModule.forRootAsync({ useFactory })] })(App)
    return () => NestFactory.createApplicationContext(App, { logger: false, abortOnError: false })
  }

  it('is refused a store that an earlier one has closed', async () => {
    await using checker = await makePlace(name)
    const { url, schema } = checker.place
    const open = opener(postgres({ url, schema }))
    await (await open()).close()
    await expect(open()).rejects.toMatchObject({
      code: 'invalid-option',
      message: expect.stringContaining('expected store to be new for each application'),
    })
  })

  it('may have a store on a pool that is not its own, and migrates a database that was emptied', async () => {
    await using checker = await makePlace(name)
    const { url, schema } = checker.place
    const pool = new Pool({ connectionString: url })
    onTestFinished(() => pool.end())
    const open = opener(postgres({ pool, schema }))
    await (await open()).close()
    await checker.query(`drop schema ${schema} cascade; create schema ${schema}`)
    const app = await open()
    expect((await app.get<Hapax<unknown>>(HAPAX).status()).consumers).toEqual([])
    await app.close()
  })

  it('reports a database that is down as such', async () => {
    await using checker = await makePlace(name)
    const { url, schema } = checker.place
    await using proxy = await TcpProxy.open(name, url)
    const pool = new Pool({ connectionString: proxy.url })
    pool.on('error', () => {})
    onTestFinished(() => pool.end())
    const open = opener(postgres({ pool, schema }))
    await (await open()).close()
    await proxy.refuse()
    await expect(open()).rejects.toMatchObject({ code: 'store-unavailable' })
  })
})

it('logs through Nest, unless a logger is given', async () => {
  const lines: string[] = []
  class Kept extends ConsoleLogger {
    protected override printMessages(messages: unknown[], context?: string): void {
      lines.push(...messages.map((each) => `${context}: ${String(each)}`))
    }
  }
  class Orders {
    onOrder(): void {
      throw new Error('no')
    }
  }
  provided(Orders, { methods: { onOrder: [OnMessage(OrderPlaced, { consumer: 'orders' })] } })
  class App {}
  const options = { store: sqlite({ path: ':memory:' }), source: '/shop', delivery: 'local', migrate: true } as const
  Module({ imports: [HapaxModule.forRoot(options)], providers: [Orders] })(App)
  const app = await NestFactory.createApplicationContext(App, { logger: new Kept() })
  onTestFinished(() => app.close())
  await place(app.get(HAPAX), 'A1')
  await until(async () => lines.some((line) => line.startsWith('Hapax: ') && line.includes('"error":"no"')))
})
