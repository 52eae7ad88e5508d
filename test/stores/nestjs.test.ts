import {
  BadRequestException,
  type CallHandler,
  type ExecutionContext,
  Injectable,
  Module,
  type ModuleMetadata,
  Scope,
  SetMetadata,
  type Type,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common'
import { APP_GUARD, NestFactory, Reflector } from '@nestjs/core'
import { createHapax, defineMessage, type HandlerContext, type Hapax, type Item, silentLogger } from 'hapax'
import { memoryBroker } from 'hapax/memory-broker'
import {
  getHapaxToken,
  HAPAX,
  HAPAX_CONTEXT,
  HapaxModule,
  type HapaxModuleOptions,
  HapaxRunner,
  OnLeasedMessage,
  OnMessage,
  OnMessages,
} from 'hapax/nestjs'
import { type SqliteTx, sqlite } from 'hapax/sqlite'
import { catchError, concat, defer, from, NEVER, of, race, repeat, retry, tap } from 'rxjs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { provided } from '../support/nest.ts'

interface Order {
  readonly orderId: string
}
const OrderPlaced = defineMessage<Order>('order.placed')
const Shipped = defineMessage<Order>('order.shipped')
const billing = { consumer: 'billing' }

type Tx = SqliteTx
type Shop = Hapax<Tx>

function shop(): HapaxModuleOptions {
  const hapax = createHapax({
    store: sqlite({ path: ':memory:' }),
    source: '/shop',
    delivery: 'local',
    logger: silentLogger,
  })
  return { hapax, migrate: true }
}

/** An application with these providers, until the end of the test. */
async function started(options: HapaxModuleOptions, metadata: ModuleMetadata, others: ModuleMetadata['imports'] = []) {
  class App {}
  Module({ ...metadata, imports: [HapaxModule.forRoot(options), ...others] })(App)
  const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false })
  onTestFinished(() => app.close())
  const hapax = app.get<Shop>(HAPAX)
  await hapax.transaction((tx) => tx.query('create table if not exists invoices (order_id text)'))
  const invoices = async (): Promise<unknown[]> => {
    const { rows } = await hapax.transaction((tx) => tx.query('select order_id from invoices order by rowid'))
    return rows.map(({ order_id }) => order_id)
  }
  const place = (orderId: string) => hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId }))
  const drained = () => app.get(HapaxRunner).worker?.drain()
  return { app, hapax, runner: app.get(HapaxRunner), invoices, place, drained }
}

const insert = (ctx: HandlerContext<Tx>, order: Order) =>
  ctx.tx.query('insert into invoices values (?)', [order.orderId])

/** A provider that writes an invoice for every order. */
function biller(decorators: readonly unknown[] = [], consumer = billing): Type {
  class Billing {
    async onOrder(order: Order, ctx: HandlerContext<Tx>): Promise<void> {
      await insert(ctx, order)
    }
  }
  return provided(Billing, { methods: { onOrder: [OnMessage(OrderPlaced, consumer), ...decorators] } })
}

describe('a method with @OnMessage', () => {
  it('takes the messages of its type, once each, with what was injected', async () => {
    class Numbers {
      next(id: string): string {
        return `no. ${id}`
      }
    }
    class Billing {
      readonly #numbers: Numbers
      readonly #hapax: Shop
      constructor(numbers: Numbers, hapax: Shop) {
        this.#numbers = numbers
        this.#hapax = hapax
      }
      async onOrder({ orderId }: Order, ctx: HandlerContext<Tx>): Promise<void> {
        await insert(ctx, { orderId: this.#numbers.next(orderId) })
        // It finds the transaction by itself, as it does in a service that knows nothing of messages.
        await this.#hapax.publish(Shipped, { orderId })
      }
      async onShipped(order: Order, ctx: HandlerContext<Tx>): Promise<void> {
        await insert(ctx, { orderId: `shipped ${order.orderId}` })
      }
    }
    const methods = { onOrder: [OnMessage(OrderPlaced, billing)], onShipped: [OnMessage(Shipped, billing)] }
    const providers = [provided(Numbers, {}), provided(Billing, { inject: [Numbers, HAPAX], methods })]
    const { place, drained, invoices, runner } = await started(shop(), { providers })
    await place('A1')
    await drained()
    expect(await invoices()).toEqual(['no. A1', 'shipped A1'])
    const again = { id: 'evt_1', source: '/other', type: 'order.placed', data: { orderId: 'A2' } }
    expect((await runner.consumer('billing').handle(again)).status).toBe('processed')
    expect((await runner.consumer('billing').handle(again)).status).toBe('duplicate')
    await drained()
    expect(await invoices()).toEqual(['no. A1', 'shipped A1', 'no. A2', 'shipped A2'])
  })

  it('reads from the subscription of its consumer, and the worker relays', async () => {
    const broker = memoryBroker()
    const hapax = createHapax({ store: sqlite({ path: ':memory:' }), source: '/shop', logger: silentLogger })
    const from = broker.queue('billing', { topic: 'shop' })
    const worker = { relay: broker.topic('shop') }
    const options = { hapax, migrate: true, worker, consumers: { billing: { from, concurrency: 1 } } }
    const { place, invoices } = await started(options, { providers: [biller()] })
    await place('A1')
    await until(async () => (await invoices()).length === 1)
  })

  it('may be in several providers and controllers, and take groups, and work under a lease', async () => {
    class Stock {
      async onMany(items: readonly Item<Order>[], ctx: Pick<HandlerContext<Tx>, 'tx'>): Promise<void> {
        for (const { data } of items) await ctx.tx.query('insert into invoices values (?)', [`stock ${data.orderId}`])
      }
    }
    const sent: string[] = []
    class Sms {
      async send(
        order: Order,
        ctx: { effect: (name: string, call: () => unknown) => Promise<unknown> },
      ): Promise<void> {
        await ctx.effect('send', () => sent.push(order.orderId))
      }
    }
    const stock = provided(Stock, { methods: { onMany: [OnMessages(OrderPlaced, { consumer: 'stock' })] } })
    const sms = provided(Sms, { methods: { send: [OnLeasedMessage(OrderPlaced, { consumer: 'sms' })] } })
    const all = { controllers: [biller()], providers: [stock, sms] }
    const { place, drained, invoices, runner } = await started(shop(), all)
    await place('A1')
    await drained()
    expect((await invoices()).toSorted()).toEqual(['A1', 'stock A1'])
    expect(sent).toEqual(['A1'])
    expect(runner.consumers.toSorted()).toEqual(['billing', 'sms', 'stock'])
    expect(runner.consumer('sms').kind).toBe('leased')
  })

  it('is looked for on objects of any kind', async () => {
    const odd: object = Object.create(Object.assign(Object.create(null), { method() {} }))
    const { place, drained, invoices } = await started(shop(), {
      providers: [biller(), { provide: 'odd', useValue: odd }],
    })
    await place('A1')
    await drained()
    expect(await invoices()).toEqual(['A1'])
  })

  it('belongs to the hapax of its name, so that two databases work', async () => {
    const audit = { consumer: 'billing', hapax: 'audit' }
    const others = [HapaxModule.forRootAsync({ name: 'audit', useFactory: async () => shop() })]
    const { app, hapax, invoices } = await started(shop(), { providers: [biller(), biller([], audit)] }, others)
    const second = app.get<Shop>(getHapaxToken('audit'))
    expect(second).not.toBe(hapax)
    await second.transaction((tx) => tx.query('create table invoices (order_id text)'))
    await second.transaction((tx) => second.publish(tx, OrderPlaced, { orderId: 'B1' }))
    await until(async () => (await second.transaction((tx) => tx.query('select * from invoices'))).rows.length === 1)
    expect(await invoices()).toEqual([])
  })
})

describe('Nest around a method', () => {
  it('lets guards decide: a refused message has failed for good', async () => {
    const seen: unknown[] = []
    class Guard {
      readonly #reflector: Reflector
      constructor(reflector: Reflector) {
        this.#reflector = reflector
      }
      canActivate(context: ExecutionContext): boolean {
        const [order, ctx] = context.getArgs()
        const role = this.#reflector.get('role', context.getHandler())
        seen.push([context.getType(), role, context.getClass().name, context.getHandler().name, ctx.message.type])
        return order.orderId !== 'bad'
      }
    }
    provided(Guard, { inject: [Reflector] })
    const Billing = biller([SetMetadata('role', 'clerk'), UseGuards(Guard)])
    const { hapax, place, drained, invoices } = await started(shop(), { providers: [Billing] })
    await place('bad')
    await place('A1')
    await drained()
    expect(await invoices()).toEqual(['A1'])
    expect(seen).toContainEqual([HAPAX_CONTEXT, 'clerk', 'Billing', 'onOrder', 'order.placed'])
    const items = await hapax.failed.list({})
    expect(items).toMatchObject([{ reason: 'permanent', attempts: 1 }])
  })

  it('lets global guards decide too, unless they are switched off', async () => {
    const guard = { canActivate: (context: ExecutionContext) => context.getType<string>() !== HAPAX_CONTEXT }
    const providers = [biller(), { provide: APP_GUARD, useValue: guard }]
    const refused = await started(shop(), { providers })
    await refused.place('A1')
    await refused.drained()
    expect(await refused.invoices()).toEqual([])
    const taken = await started({ ...shop(), enhancers: { guards: false } }, { providers })
    await taken.place('A1')
    await taken.drained()
    expect(await taken.invoices()).toEqual(['A1'])
  })

  it('gives the data to pipes, never the context; what they refuse has failed for good', async () => {
    const pipe = {
      transform: (order: Order) => {
        if (order.orderId === undefined) throw new Error('a pipe was given the context')
        if (order.orderId === 'bad') throw new BadRequestException('no such order')
        return { orderId: order.orderId.toUpperCase() }
      },
    }
    const { hapax, place, drained, invoices } = await started(shop(), { providers: [biller([UsePipes(pipe)])] })
    await place('bad')
    await place('a1')
    await drained()
    expect(await invoices()).toEqual(['A1'])
    const items = await hapax.failed.list({})
    expect(items).toMatchObject([{ reason: 'permanent', error: { message: 'no such order' } }])
  })

  it('runs interceptors in the transaction; what the method throws stays a failure', async () => {
    const around: string[] = []
    const interceptor = {
      intercept: async (context: ExecutionContext, next: CallHandler) => {
        const [order, ctx] = context.getArgs()
        await insert(ctx, { orderId: `before ${order.orderId}` })
        around.push(order.orderId)
        return next.handle().pipe(catchError(() => of('it is fine')))
      },
    }
    class Billing {
      async onOrder(order: Order, ctx: HandlerContext<Tx>): Promise<void> {
        await insert(ctx, order)
        if (order.orderId === 'bad') throw new Error('no')
      }
    }
    provided(Billing, { methods: { onOrder: [OnMessage(OrderPlaced, billing), UseInterceptors(interceptor)] } })
    const consumers = { billing: { retry: { attempts: 1 } } }
    const { hapax, place, drained, invoices } = await started({ ...shop(), consumers }, { providers: [Billing] })
    await place('bad')
    await drained()
    await place('A1')
    await drained()
    expect(await invoices()).toEqual(['before A1', 'A1'])
    expect(around).toEqual(expect.arrayContaining(['bad', 'A1']))
    const items = await hapax.failed.list({})
    expect(items).toMatchObject([{ error: { message: 'no' } }])
  })

  it('does not commit what a method wrote before it failed, if an interceptor calls it again', async () => {
    let calls = 0
    const interceptor = { intercept: (_: ExecutionContext, next: CallHandler) => next.handle().pipe(retry(2)) }
    class Billing {
      async onOrder(order: Order, ctx: HandlerContext<Tx>): Promise<void> {
        await insert(ctx, order)
        if (++calls === 1) throw new Error('no')
      }
    }
    provided(Billing, { methods: { onOrder: [OnMessage(OrderPlaced, billing), UseInterceptors(interceptor)] } })
    const consumers = { billing: { retry: { minDelayMs: 0, maxDelayMs: 0 } } }
    const { place, invoices } = await started({ ...shop(), consumers }, { providers: [Billing] })
    await place('A1')
    await until(async () => (await invoices()).length > 0)
    expect(await invoices()).toEqual(['A1'])
    expect(calls).toBe(2)
  })

  describe('a method that returns an Observable', () => {
    /** The outcome of a message whose method writes its invoice when it is subscribed to, and then does this. */
    async function handled(then: () => unknown, intercept: (next: CallHandler) => unknown) {
      let subscribed = 0
      class Billing {
        onOrder(order: Order, ctx: HandlerContext<Tx>): unknown {
          return defer(() => {
            subscribed += 1
            return concat(
              from(insert(ctx, order)),
              defer(() => then() as never),
            )
          })
        }
      }
      const interceptor = { intercept: (_: ExecutionContext, next: CallHandler) => intercept(next) as never }
      provided(Billing, { methods: { onOrder: [OnMessage(OrderPlaced, billing), UseInterceptors(interceptor)] } })
      const { runner, invoices } = await started(shop(), { providers: [Billing] })
      const message = { id: 'evt_1', source: '/other', type: 'order.placed', data: { orderId: 'A1' } }
      const outcome = await runner.consumer('billing').handle(message)
      return { outcome, invoices: await invoices(), subscribed }
    }
    const fails = (): never => {
      throw new Error('no')
    }

    it.for([
      ['swallows its error', (next: CallHandler) => next.handle().pipe(catchError(() => of('fine')))],
      ['subscribes to it again', (next: CallHandler) => next.handle().pipe(retry(2))],
    ] as const)('has failed with it, also if an interceptor %s', async ([, intercept]) => {
      const { outcome, invoices, subscribed } = await handled(fails, intercept)
      expect(outcome).toMatchObject({ status: 'retrying', error: { message: 'no' } })
      expect({ invoices, subscribed }).toEqual({ invoices: [], subscribed: 1 })
    })

    it('gives interceptors its last value, and commits', async () => {
      const results: unknown[] = []
      const { outcome, invoices } = await handled(
        () => of('first', 'last'),
        (next) => next.handle().pipe(tap((result) => results.push(result))),
      )
      expect(outcome).toMatchObject({ status: 'processed' })
      expect({ invoices, results }).toEqual({ invoices: ['A1'], results: ['last'] })
    })

    it('does not commit before it has completed', async () => {
      const inserted = Promise.withResolvers<string>()
      const running = () => {
        inserted.resolve('early')
        return NEVER
      }
      const { outcome, invoices } = await handled(running, (next) => race(next.handle(), from(inserted.promise)))
      expect(outcome).toMatchObject({ status: 'retrying', error: { code: 'unawaited-query' } })
      expect(invoices).toEqual([])
    })
  })

  it('calls a method once per attempt, however often an interceptor asks for it', async () => {
    const results: unknown[] = []
    const interceptor = {
      intercept: (_: ExecutionContext, next: CallHandler) =>
        next.handle().pipe(
          repeat(2),
          tap((result) => results.push(result)),
        ),
    }
    class Billing {
      async onOrder(order: Order, ctx: HandlerContext<Tx>): Promise<string> {
        await insert(ctx, order)
        return order.orderId
      }
    }
    provided(Billing, { methods: { onOrder: [OnMessage(OrderPlaced, billing), UseInterceptors(interceptor)] } })
    const { place, drained, invoices } = await started(shop(), { providers: [Billing] })
    await place('A1')
    await drained()
    expect(await invoices()).toEqual(['A1'])
    expect(results).toEqual(['A1', 'A1'])
  })

  it('does not commit while a method is running whose interceptor answered first', async () => {
    const [inserted, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const early = from(inserted.promise.then(() => 'early'))
    const interceptor = { intercept: (_: ExecutionContext, next: CallHandler) => race(next.handle(), early) }
    class Billing {
      async onOrder(order: Order, ctx: HandlerContext<Tx>): Promise<void> {
        await insert(ctx, order)
        inserted.resolve()
        await answered.promise
        await insert(ctx, order)
      }
    }
    provided(Billing, { methods: { onOrder: [OnMessage(OrderPlaced, billing), UseInterceptors(interceptor)] } })
    const { runner, invoices } = await started(shop(), { providers: [Billing] })
    const message = { id: 'evt_1', source: '/other', type: 'order.placed', data: { orderId: 'A1' } }
    const { status, error } = await runner.consumer('billing').handle(message)
    answered.resolve()
    expect(status).toBe('retrying')
    expect(error).toMatchObject({
      code: 'unawaited-query',
      message: 'an interceptor did not wait for onOrder, which is still running',
    })
    expect(await invoices()).toEqual([])
  })

  it('retries what a guard throws because of an outage', async () => {
    let down = true
    const guard = {
      canActivate: () => {
        if (down) {
          down = false
          throw new Error('the directory is down')
        }
        return true
      },
    }
    const consumers = { billing: { retry: { minDelayMs: 0, maxDelayMs: 0 } } }
    const options = { ...shop(), consumers }
    const { place, invoices } = await started(options, { providers: [biller([UseGuards(guard)])] })
    await place('A1')
    await until(async () => (await invoices()).length === 1)
  })
})

describe('mistakes are refused when the application starts', () => {
  const refused = async (options: object, metadata: ModuleMetadata, others: ModuleMetadata['imports'] = []) => {
    const error = await started(options as HapaxModuleOptions, metadata, others).catch((thrown: unknown) => thrown)
    return `${(error as { code?: string }).code}: ${(error as Error).message}`
  }

  it('two handlers of one type in a consumer', async () => {
    expect(await refused(shop(), { providers: [biller(), { provide: 'other', useClass: biller() }] })).toBe(
      'duplicate-handler: expected one handler of order.placed in consumer billing, got Billing.onOrder of App and Billing.onOrder of App',
    )
  })

  it('a provider of requests, or a transient one', async () => {
    for (const scope of [Scope.REQUEST, Scope.TRANSIENT]) {
      const Billing = biller()
      expect(await refused(shop(), { providers: [{ provide: Billing, useClass: Billing, scope }] })).toBe(
        'invalid-option: expected the provider of Billing.onOrder of App to be a singleton, got one that is transient or depends on a request: a message has no request',
      )
    }
  })

  it('a guard of requests', async () => {
    class Guard {
      canActivate(): boolean {
        return false
      }
    }
    Injectable({ scope: Scope.REQUEST })(Guard)
    expect(await refused(shop(), { providers: [biller([UseGuards(Guard)])] })).toMatch(/to be a singleton/)
  })

  it('a hapax that is not there, and two of one name', async () => {
    expect(await refused(shop(), { providers: [biller([], { consumer: 'a', hapax: 'audit' } as never)] })).toBe(
      'invalid-option: expected a HapaxModule of the name audit for Billing.onOrder of App, got none',
    )
    expect(await refused(shop(), {}, [HapaxModule.forRoot(shop())])).toBe(
      'invalid-option: expected one HapaxModule of the name default, got a second one: give it another name',
    )
  })

  it('options of consumers that have no handlers, and handlers of two kinds', async () => {
    expect(await refused({ ...shop(), consumers: { biling: {} } }, { providers: [biller()] })).toBe(
      'invalid-option: expected consumers to be options of consumers with handlers (billing), got "biling"',
    )
    class Sms {
      send(): void {}
    }
    provided(Sms, { methods: { send: [OnLeasedMessage(Shipped, billing)] } })
    expect(await refused(shop(), { providers: [biller(), Sms] })).toBe(
      'invalid-option: expected all handlers of consumer billing to be leased or none, got Sms.send of App and Billing.onOrder of App',
    )
  })

  it('options that do not exist', async () => {
    expect(await refused({ ...shop(), migrations: true }, {})).toMatch(
      /^invalid-option: expected options of HapaxModule/,
    )
    expect(await refused({ store: sqlite({ path: ':memory:' }), source: '/shop', sauce: 1 }, {})).toMatch(
      /^invalid-option: expected options of createHapax to be an object with the options/,
    )
    expect(await refused({ hapax: {} }, {})).toBe(
      'invalid-option: expected hapax to be what createHapax returned, got an object',
    )
    expect(await refused({ ...shop(), shutdownMs: 0 }, {})).toBe(
      'invalid-option: expected shutdownMs to be a positive integer, got 0',
    )
  })
})
