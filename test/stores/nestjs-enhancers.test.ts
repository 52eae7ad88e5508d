import {
  type ArgumentsHost,
  Body,
  type CallHandler,
  Catch,
  ClassSerializerInterceptor,
  Controller,
  DefaultValuePipe,
  type ExecutionContext,
  HttpException,
  Injectable,
  Module,
  type ModuleMetadata,
  ParseArrayPipe,
  ParseBoolPipe,
  ParseDatePipe,
  ParseEnumPipe,
  ParseFloatPipe,
  ParseIntPipe,
  ParseUUIDPipe,
  type PipeTransform,
  Post,
  RequestTimeoutException,
  type Type,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  ValidationPipe,
} from '@nestjs/common'
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE, BaseExceptionFilter, NestFactory } from '@nestjs/core'
import { Type as TypeOf } from 'class-transformer'
import { IsNumber, IsString, ValidateNested } from 'class-validator'
import { createHapax, defineMessage, type Hapax, type Item, silentLogger } from 'hapax'
import { HAPAX_CONTEXT, HapaxModule, HapaxRunner, OnLeasedMessage, OnMessage, OnMessages } from 'hapax/nestjs'
import { type SqliteTx, sqlite } from 'hapax/sqlite'
import { throwError, timeout } from 'rxjs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { provided } from '../support/nest.ts'

class Line {
  readonly sku!: string
}
IsString()(Line.prototype, 'sku')

class Order {
  readonly amount!: number
  readonly line?: Line
}
IsNumber()(Order.prototype, 'amount')
ValidateNested()(Order.prototype, 'line')
TypeOf(() => Line)(Order.prototype, 'line')

const OrderPlaced = defineMessage<unknown>('order.placed')
const billing = { consumer: 'billing' }

interface Handling {
  readonly decorators?: readonly unknown[]
  readonly ofClass?: readonly unknown[]
  /** What TypeScript emits as the type of the data, with `emitDecoratorMetadata`. */
  readonly type?: unknown
  readonly mark?: unknown
}

/** A provider that takes orders, and what it was given. */
function taking({
  decorators = [],
  ofClass = [],
  type = Order,
  mark = OnMessage(OrderPlaced, billing),
}: Handling = {}) {
  const taken: unknown[] = []
  class Billing {
    onOrder(data: unknown): void {
      taken.push(data)
    }
  }
  provided(Billing, { methods: { onOrder: [mark, ...decorators] } })
  for (const decorate of ofClass) (decorate as ClassDecorator)(Billing)
  if (type !== undefined) Reflect.defineMetadata('design:paramtypes', [type, Object], Billing.prototype, 'onOrder')
  return { Billing, taken }
}

/** An application with this provider, until the end of the test. */
async function started(
  Billing: Type,
  metadata: ModuleMetadata = {},
  configure: (app: Awaited<ReturnType<typeof NestFactory.create>>) => unknown = () => {},
) {
  const store = sqlite({ path: ':memory:' })
  const hapax: Hapax<SqliteTx> = createHapax({ store, source: '/shop', delivery: 'local', logger: silentLogger })
  const consumers = { billing: { retry: { minDelayMs: 3_600_000, maxDelayMs: 3_600_000 } } }
  class App {}
  const imports = [HapaxModule.forRoot({ hapax, migrate: true, worker: false, consumers })]
  Module({
    ...metadata,
    imports,
    providers: [...(metadata.controllers ? [] : [Billing]), ...(metadata.providers ?? [])],
  })(App)
  const app = await NestFactory.create(App, { logger: false })
  await configure(app)
  await app.init()
  onTestFinished(() => app.close())
  let count = 0
  const handle = (data: unknown) => {
    count += 1
    return app
      .get(HapaxRunner)
      .consumer('billing')
      .handle({ id: `evt_${count}`, source: '/s', type: 'order.placed', data })
  }
  const handleMany = (all: readonly unknown[]) =>
    app
      .get(HapaxRunner)
      .consumer('billing')
      .handleMany(all.map((data, index) => ({ id: `evt_${index}`, source: '/s', type: 'order.placed', data })))
  return { app, hapax, handle, handleMany }
}

const REFUSED = 'Bad Request Exception: amount must be a number conforming to the specified constraints'

describe('ValidationPipe', () => {
  const bound: [name: string, where: Parameters<typeof started>[1], handling: Handling, global?: PipeTransform][] = [
    ['by @UsePipes on the method', {}, { decorators: [UsePipes(new ValidationPipe())] }],
    ['by @UsePipes on the method, as a class', {}, { decorators: [UsePipes(ValidationPipe)] }],
    ['by @UsePipes on the class', {}, { ofClass: [UsePipes(new ValidationPipe())] }],
    ['by APP_PIPE', { providers: [{ provide: APP_PIPE, useClass: ValidationPipe }] }, {}],
    ['by app.useGlobalPipes', {}, {}, new ValidationPipe()],
    ['with a class that it is given', {}, { type: undefined }, new ValidationPipe({ expectedType: Order })],
    ['on a method under a lease', {}, { mark: OnLeasedMessage(OrderPlaced, billing) }, new ValidationPipe()],
  ]

  it.for(bound)('%s refuses data that does not fit its class, for good', async ([, where, handling, pipe]) => {
    const { Billing, taken } = taking(handling)
    const { hapax, handle } = await started(Billing, where, (app) => pipe && app.useGlobalPipes(pipe))
    expect(await handle({ amount: 'x' })).toMatchObject({ status: 'failed', ack: true })
    expect(await handle({ amount: 1 })).toMatchObject({ status: 'processed' })
    expect(taken).toEqual([{ amount: 1 }])
    const failed = await hapax.failed.list({})
    expect(failed).toMatchObject([{ reason: 'permanent', attempts: 1, error: { message: REFUSED } }])
  })

  it('on a parameter validates what the parameter takes', async () => {
    const { Billing, taken } = taking()
    Body(new ValidationPipe())(Billing.prototype, 'onOrder', 0)
    const { handle } = await started(Billing)
    expect((await handle({ amount: 'x' })).status).toBe('failed')
    expect((await handle({ amount: 1 })).status).toBe('processed')
    expect(taken).toEqual([{ amount: 1 }])
  })

  it('transforms, and leaves out what its class does not have', async () => {
    const pipe = new ValidationPipe({
      transform: true,
      whitelist: true,
      transformOptions: { enableImplicitConversion: false },
    })
    const { Billing, taken } = taking({ decorators: [UsePipes(pipe)] })
    const { handle } = await started(Billing)
    await handle({ amount: 1, line: { sku: 'a' }, isAdmin: true })
    expect(taken).toEqual([{ amount: 1, line: { sku: 'a' } }])
    expect(taken[0]).toBeInstanceOf(Order)
    expect((taken[0] as Order).line).toBeInstanceOf(Line)
  })

  it('names the fields of all errors, also grouped and without details', async () => {
    const refusals: unknown[] = []
    const options = [
      { forbidNonWhitelisted: true, whitelist: true },
      { errorFormat: 'grouped' },
      { disableErrorMessages: true },
    ] as const
    for (const each of options) {
      const { Billing } = taking({ decorators: [UsePipes(new ValidationPipe(each))] })
      const { handle } = await started(Billing)
      refusals.push((await handle({ amount: 'x', line: { sku: 1 } })).error?.message)
    }
    expect(refusals).toEqual([
      `${REFUSED}; line.sku must be a string`,
      'Bad Request Exception: amount: amount must be a number conforming to the specified constraints; line.sku: sku must be a string',
      'Bad Request',
    ])
  })

  it('validates each message of a group, and refuses only those that do not fit', async () => {
    const seen: unknown[] = []
    class Billing {
      onOrders(items: readonly Item<unknown>[]): void {
        seen.push(...items.map(({ data, message }) => [data, message.id]))
      }
    }
    provided(Billing, { methods: { onOrders: [OnMessages(OrderPlaced, billing)] } })
    Reflect.defineMetadata('design:paramtypes', [Array, Object], Billing.prototype, 'onOrders')
    const pipe = new ValidationPipe({ expectedType: Order, transform: true })
    const { hapax, handleMany } = await started(Billing, {}, (app) => app.useGlobalPipes(pipe))
    const outcomes = await handleMany([{ amount: 1 }, { amount: 'x' }, { amount: 3 }])
    expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'failed', 'processed'])
    expect(seen).toEqual([
      [{ amount: 1 }, 'evt_0'],
      [{ amount: 3 }, 'evt_2'],
    ])
    expect((seen[0] as unknown[])[0]).toBeInstanceOf(Order)
    expect(await hapax.failed.list({})).toMatchObject([{ reason: 'permanent', error: { message: REFUSED } }])
  })
})

describe('a pipe of Nest that parses', () => {
  const uuid = '6b2f4d6e-3c39-4d2f-8a55-2a1a4c8a9c55'
  const pipes: [name: string, pipe: PipeTransform, good: unknown, parsed: unknown, bad: unknown][] = [
    ['ParseIntPipe', new ParseIntPipe(), '7', 7, 'x'],
    ['ParseFloatPipe', new ParseFloatPipe(), '7.5', 7.5, 'x'],
    ['ParseBoolPipe', new ParseBoolPipe(), 'true', true, 'x'],
    ['ParseUUIDPipe', new ParseUUIDPipe(), uuid, uuid, 'x'],
    ['ParseEnumPipe', new ParseEnumPipe({ Red: 'red' }), 'red', 'red', 'blue'],
    ['ParseDatePipe', new ParseDatePipe(), '2026-01-02', new Date('2026-01-02'), 'x'],
    ['ParseArrayPipe', new ParseArrayPipe({ items: Order }), [{ amount: 1 }], [{ amount: 1 }], [{ amount: 'x' }]],
  ]

  it.for(pipes)('%s hands over the result, and refuses other data for good', async ([, pipe, good, parsed, bad]) => {
    const { Billing, taken } = taking({ decorators: [UsePipes(pipe)], type: Object })
    const { hapax, handle } = await started(Billing)
    expect((await handle(good)).status).toBe('processed')
    expect((await handle(bad)).status).toBe('failed')
    expect(taken).toEqual([parsed])
    expect(await hapax.failed.list({})).toMatchObject([{ reason: 'permanent', attempts: 1 }])
  })

  it('DefaultValuePipe stands in for no data', async () => {
    const { Billing, taken } = taking({ decorators: [UsePipes(new DefaultValuePipe('none'))], type: String })
    const { handle } = await started(Billing)
    expect((await handle(undefined)).status).toBe('processed')
    expect(taken).toEqual(['none'])
  })
})

describe('guards', () => {
  const ofClass = (answer: () => boolean) => {
    class Guard {
      canActivate(context: ExecutionContext): boolean {
        return context.getType<string>() === HAPAX_CONTEXT && answer()
      }
    }
    Injectable()(Guard)
    return Guard
  }
  const places: [name: string, place: (guard: Type) => [Handling, ModuleMetadata]][] = [
    ['by APP_GUARD', (guard) => [{}, { providers: [{ provide: APP_GUARD, useClass: guard }] }]],
    ['by @UseGuards on the method', (guard) => [{ decorators: [UseGuards(guard)] }, {}]],
    ['by @UseGuards on the class', (guard) => [{ ofClass: [UseGuards(guard)] }, {}]],
  ]

  it.for(places)('%s decide', async ([, place]) => {
    for (const isAllowed of [true, false]) {
      const [handling, metadata] = place(ofClass(() => isAllowed))
      const { Billing, taken } = taking(handling)
      const { handle } = await started(Billing, metadata)
      expect((await handle({ amount: 1 })).status).toBe(isAllowed ? 'processed' : 'failed')
      expect(taken).toHaveLength(isAllowed ? 1 : 0)
    }
  })

  it('that limit a rate let the message come again', async () => {
    const guard = ofClass(() => {
      throw new HttpException('Too Many Requests', 429)
    })
    const { Billing } = taking({ decorators: [UseGuards(guard)] })
    expect((await (await started(Billing)).handle({ amount: 1 })).status).toBe('retrying')
  })
})

describe('interceptors', () => {
  it('ClassSerializerInterceptor leaves messages alone', async () => {
    const { Billing, taken } = taking()
    const providers = [{ provide: APP_INTERCEPTOR, useClass: ClassSerializerInterceptor }]
    const { handle } = await started(Billing, { providers })
    expect((await handle({ amount: 1 })).status).toBe('processed')
    expect(taken).toEqual([{ amount: 1 }])
  })

  it('that log and that limit the time, as the documentation of Nest has them, see the attempt', async () => {
    const seen: unknown[] = []
    class Logging {
      intercept(context: ExecutionContext, next: CallHandler) {
        seen.push([context.getClass().name, context.getHandler().name, context.getArgByIndex(0)])
        return next.handle()
      }
    }
    Injectable()(Logging)
    const limit = {
      intercept: (_: ExecutionContext, next: CallHandler) =>
        next.handle().pipe(timeout({ each: 60_000, with: () => throwError(() => new RequestTimeoutException()) })),
    }
    const { Billing } = taking({ decorators: [UseInterceptors(limit)] })
    const { handle } = await started(Billing, { providers: [{ provide: APP_INTERCEPTOR, useClass: Logging }] })
    expect((await handle({ amount: 1 })).status).toBe('processed')
    expect(seen).toEqual([['Billing', 'onOrder', { amount: 1 }]])
  })
})

describe('exception filters', () => {
  it('are left out, wherever they are: what a method throws fails the attempt', async () => {
    let caught = 0
    class Everything extends BaseExceptionFilter {
      override catch(_: unknown, __: ArgumentsHost): void {
        caught += 1
      }
    }
    Catch()(Everything)
    class Billing {
      onOrder(): void {
        throw new Error('no')
      }
    }
    provided(Billing, { methods: { onOrder: [OnMessage(OrderPlaced, billing), UseFilters(new Everything())] } })
    const providers = [{ provide: APP_FILTER, useClass: Everything }]
    const { handle } = await started(Billing, { providers }, (app) => app.useGlobalFilters(new Everything()))
    expect(await handle({ amount: 1 })).toMatchObject({ status: 'retrying', error: { message: 'no' } })
    expect(caught).toBe(0)
  })
})

it('a method that is a route as well gets the data, and not a parameter of a request', async () => {
  const taken: unknown[] = []
  class Orders {
    place(order: unknown): void {
      taken.push(order)
    }
  }
  Controller('orders')(Orders)
  Body()(Orders.prototype, 'place', 0)
  Reflect.defineMetadata('design:paramtypes', [Order], Orders.prototype, 'place')
  provided(Orders, { methods: { place: [Post(), OnMessage(OrderPlaced, billing)] } })
  const { handle } = await started(Orders, { controllers: [Orders] }, (app) => app.useGlobalPipes(new ValidationPipe()))
  expect((await handle({ amount: 'x' })).status).toBe('failed')
  expect((await handle({ amount: 1 })).status).toBe('processed')
  expect(taken).toEqual([{ amount: 1 }])
})
