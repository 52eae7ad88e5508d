import { Readable } from 'node:stream'
import {
  Body,
  type CallHandler,
  type CanActivate,
  ConflictException,
  Controller,
  type ExecutionContext,
  Header,
  HttpCode,
  Injectable,
  Module,
  type ModuleMetadata,
  Post,
  RequestTimeoutException,
  Res,
  StreamableFile,
  type Type,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { Response as ExpressResponse } from 'express'
import { createHapax, defineMessage, type Hapax, HapaxError, silentLogger } from 'hapax'
import type { HttpContext } from 'hapax/contracts'
import { HapaxModule, Idempotent, IdempotentContext, type IdempotentOptions } from 'hapax/nestjs'
import { type SqliteTx, sqlite } from 'hapax/sqlite'
import { catchError, defer, from, map, merge, of, race, retry, tap } from 'rxjs'
import { describe, expect, it, onTestFinished } from 'vitest'

interface Order {
  readonly item: string
}
type Ctx = HttpContext<SqliteTx>
const OrderPlaced = defineMessage<Order>('order.placed')
const everybody: IdempotentOptions = { principal: 'none' }

type Decorate = (target: object, key: string, descriptor: TypedPropertyDescriptor<never>) => unknown

/** A controller whose method `place` gets the body, the context and the response. */
function orders(
  place: (order: Order, ctx: Ctx, res: ExpressResponse) => unknown,
  {
    options = everybody,
    decorators = [],
    inner = [],
    manual = false,
  }: {
    options?: IdempotentOptions<never>
    decorators?: readonly unknown[]
    /** Above `@Idempotent()`: interceptors there are between it and the method. */
    inner?: readonly unknown[]
    manual?: boolean
  } = {},
): Type {
  class Orders {
    place(order: Order, ctx: Ctx, res: ExpressResponse): unknown {
      return place(order, ctx, res)
    }
  }
  Controller('orders')(Orders)
  Body()(Orders.prototype, 'place', 0)
  IdempotentContext()(Orders.prototype, 'place', 1)
  Res({ passthrough: !manual })(Orders.prototype, 'place', 2)
  const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'place') as TypedPropertyDescriptor<never>
  for (const each of [Post(), ...inner, Idempotent(options), ...decorators].toReversed())
    (each as Decorate)(Orders.prototype, 'place', descriptor)
  return Orders
}

interface Sent {
  readonly status: number
  readonly body: unknown
  readonly headers: Headers
}

/** A server with this controller, until the end of the test. */
async function served(controller: Type, metadata: ModuleMetadata = {}, global: readonly object[] = []) {
  const hapax: Hapax<SqliteTx> = createHapax({
    store: sqlite({ path: ':memory:' }),
    source: '/shop',
    logger: silentLogger,
  })
  class App {}
  Module({ ...metadata, imports: [HapaxModule.forRoot({ hapax, migrate: true })], controllers: [controller] })(App)
  const app = await NestFactory.create(App, { logger: false })
  app.useGlobalInterceptors(...(global as []))
  await app.listen(0, '127.0.0.1')
  onTestFinished(() => app.close())
  await hapax.transaction((tx) => tx.query('create table orders (item text)'))
  const post = async (
    key: string | undefined,
    order: object = { item: 'book' },
    headers: object = {},
    signal: AbortSignal | null = null,
  ): Promise<Sent> => {
    const response = await fetch(`${await app.getUrl()}/orders`, {
      method: 'POST',
      signal,
      body: JSON.stringify(order),
      headers: { 'content-type': 'application/json', ...(key !== undefined && { 'idempotency-key': key }), ...headers },
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json')
    return { status: response.status, body: isJson ? JSON.parse(text) : text, headers: response.headers }
  }
  const rows = async () => (await hapax.transaction((tx) => tx.query('select item from orders'))).rows
  return { hapax, post, rows, app }
}

const insert = (ctx: Ctx, { item }: Order) => ctx.tx.query('insert into orders values (?)', [item])

it('a request that comes again gets the same response, and takes effect once', async () => {
  let calls = 0
  const { hapax, post, rows } = await served(
    orders(async (order, ctx) => {
      await insert(ctx, order)
      await ctx.publish(OrderPlaced, order)
      return { number: ++calls, key: ctx.key }
    }),
  )
  const first = await post('k1')
  expect(first).toMatchObject({ status: 201, body: { number: 1, key: 'k1' } })
  const again = await post('k1')
  expect(again).toMatchObject({ status: 201, body: { number: 1, key: 'k1' } })
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
  expect(first.headers.get('x-powered-by')).toBe(again.headers.get('x-powered-by'))
  expect(await post('k2')).toMatchObject({ status: 201, body: { number: 2 } })
  expect(await rows()).toHaveLength(2)
  expect((await hapax.status()).relays).toMatchObject([{ waiting: 2 }])
})

it('what is published without a transaction, deep inside the application, commits with the response', async () => {
  let shop: Hapax<SqliteTx> | undefined
  const { hapax, post } = await served(
    orders(async (order) => {
      await new Promise((resolve) => setTimeout(resolve, 1))
      await shop?.publish(OrderPlaced, order)
      if (order.item === 'bad') throw new ConflictException()
      return 'ok'
    }),
  )
  shop = hapax
  await post('k1', { item: 'bad' })
  await post('k2')
  await post('k2')
  expect((await hapax.status()).relays).toMatchObject([{ waiting: 1 }])
})

it('a key that comes with another body, none, or while it runs, is refused', async () => {
  const entered = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const { post } = await served(
    orders(async (order) => {
      if (order.item === 'slow') {
        entered.resolve()
        await release.promise
      }
      return 'ok'
    }),
  )
  expect(await post(undefined)).toMatchObject({ status: 400, body: { code: 'missing-key' } })
  await post('k1')
  const reused = await post('k1', { item: 'pen' })
  expect(reused).toMatchObject({ status: 422, body: { code: 'key-reused' } })
  const slow = post('k2', { item: 'slow' })
  await entered.promise
  expect(await post('k2', { item: 'slow' })).toMatchObject({ status: 409, body: { code: 'in-progress' } })
  release.resolve()
  expect(await slow).toMatchObject({ status: 201, body: 'ok' })
})

it('what is thrown is rolled back, reaches exception filters, and leaves the key free', async () => {
  let calls = 0
  const { post, rows } = await served(
    orders(async (order, ctx) => {
      await insert(ctx, order)
      if (++calls === 1) throw new ConflictException('out of stock')
      if (calls === 2) throw new Error('a secret')
      return { calls }
    }),
  )
  expect(await post('k1')).toMatchObject({ status: 409, body: { message: 'out of stock' } })
  expect(await rows()).toEqual([])
  expect(await post('k1')).toMatchObject({ status: 500, body: { message: 'Internal server error' } })
  expect(await rows()).toEqual([])
  expect(await post('k1')).toMatchObject({ status: 201, body: { calls: 3 } })
  expect(await post('k1')).toMatchObject({ status: 201, body: { calls: 3 } })
  expect(await rows()).toHaveLength(1)
})

it('what is kept is what was sent: after global interceptors, with status, headers and cookies of the method', async () => {
  let secret = 0
  const serializer = {
    intercept: (_: ExecutionContext, next: CallHandler) =>
      next.handle().pipe(map((value: { password?: string }) => ({ data: { ...value, password: undefined } }))),
  }
  const controller = orders(
    (_, __, res) => {
      res.cookie('session', 's1')
      res.setHeader('location', '/orders/1')
      return { id: 1, password: `secret ${++secret}` }
    },
    { decorators: [HttpCode(202), Header('Cache-Control', 'no-store')] },
  )
  const { post } = await served(controller, {}, [serializer])
  const [first, again] = [await post('k1'), await post('k1')]
  for (const each of [first, again]) {
    expect(each).toMatchObject({ status: 202, body: { data: { id: 1 } } })
    expect(JSON.stringify(each.body)).not.toContain('secret')
    expect(each.headers.get('location')).toBe('/orders/1')
    expect(each.headers.get('cache-control')).toBe('no-store')
  }
  expect(first.headers.getSetCookie()).toEqual(['session=s1; Path=/'])
  expect(again.headers.getSetCookie()).toEqual([])
  expect(secret).toBe(1)
})

it('a method that sends by itself is kept as well', async () => {
  let calls = 0
  const controller = orders(
    async (order, ctx, res) => {
      await insert(ctx, order)
      res.status(200).type('text/plain').write(`${++calls} `)
      res.end('done')
    },
    { manual: true },
  )
  const { post, rows } = await served(controller)
  expect(await post('k1')).toMatchObject({ status: 200, body: '1 done' })
  expect(await post('k1')).toMatchObject({ status: 200, body: '1 done' })
  expect(await rows()).toHaveLength(1)
})

it('guards run first, and tell who sends it', async () => {
  class Auth implements CanActivate {
    canActivate(context: ExecutionContext): boolean {
      const request = context.switchToHttp().getRequest()
      request.user = request.headers['x-user']
      return request.user !== 'mallory'
    }
  }
  Injectable()(Auth)
  let calls = 0
  const principal = (request: { user?: string }) => request.user
  const controller = orders((_, ctx) => ({ who: ctx.principal, calls: ++calls }), {
    options: { principal },
    decorators: [UseGuards(Auth)],
  })
  const { post } = await served(controller)
  const as = (user: string) => post('k1', {}, { 'x-user': user })
  expect(await as('alice')).toMatchObject({ body: { who: 'alice', calls: 1 } })
  expect(await as('bob')).toMatchObject({ body: { who: 'bob', calls: 2 } })
  expect(await as('alice')).toMatchObject({ body: { who: 'alice', calls: 1 } })
  expect(await as('mallory')).toMatchObject({ status: 403 })
  expect(await post('k1')).toMatchObject({ status: 401, body: { code: 'missing-principal' } })
})

describe('an interceptor that gives up rolls back, and its response is sent', () => {
  const gaveUp = (): never => {
    throw new RequestTimeoutException()
  }

  it('while the method runs', async () => {
    const entered = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const giveUp = {
      intercept: (_: ExecutionContext, next: CallHandler) =>
        merge(next.handle(), from(entered.promise).pipe(tap(release.resolve), map(gaveUp))),
    }
    const slow = orders(async (order, ctx) => {
      await insert(ctx, order)
      entered.resolve()
      await release.promise
      return 'late'
    })
    const { post, rows } = await served(slow, {}, [giveUp])
    expect(await post('k1')).toMatchObject({ status: 408 })
    expect(await rows()).toEqual([])
  })

  it('after the method has returned', async () => {
    let calls = 0
    const giveUp = {
      intercept: (_: ExecutionContext, next: CallHandler) =>
        next.handle().pipe(map((value) => (value === 1 ? gaveUp() : value))),
    }
    const counted = orders(async (order, ctx) => {
      await insert(ctx, order)
      return ++calls
    })
    const { post, rows } = await served(counted, {}, [giveUp])
    expect(await post('k1')).toMatchObject({ status: 408 })
    expect(await rows()).toEqual([])
    expect(await post('k1')).toMatchObject({ status: 201, body: '2' })
    expect(await rows()).toHaveLength(1)
  })
})

describe('what a method throws below an interceptor', () => {
  /** An interceptor between `@Idempotent()` and the method. */
  const below = (intercept: (next: CallHandler) => unknown) =>
    UseInterceptors({ intercept: (_: ExecutionContext, next: CallHandler) => intercept(next) as never })
  const post = async (place: (order: Order, ctx: Ctx) => unknown, intercept: (next: CallHandler) => unknown) => {
    const { post, rows } = await served(orders(place, { inner: [below(intercept)] }))
    return { sent: await post('k1'), again: () => post('k1'), rows }
  }

  it('is rolled back and sent, also if the interceptor swallows it', async () => {
    let calls = 0
    const { sent, again, rows } = await post(
      async (order, ctx) => {
        await insert(ctx, order)
        if (++calls === 1) throw new ConflictException('out of stock')
        return { calls }
      },
      (next) => next.handle().pipe(catchError(() => of({ ok: true }))),
    )
    expect(sent).toMatchObject({ status: 409, body: { message: 'out of stock' } })
    expect(await rows()).toEqual([])
    expect(await again()).toMatchObject({ status: 201, body: { calls: 2 } })
    expect(await rows()).toHaveLength(1)
  })

  it('is rolled back if the interceptor calls it again: it gets what became of the first call', async () => {
    let calls = 0
    const { sent, again, rows } = await post(
      async (order, ctx) => {
        await insert(ctx, order)
        if (++calls === 1) throw new ConflictException('out of stock')
        return { calls }
      },
      (next) => next.handle().pipe(retry(2)),
    )
    expect(sent).toMatchObject({ status: 409 })
    expect(calls).toBe(1)
    expect(await rows()).toEqual([])
    expect(await again()).toMatchObject({ status: 201, body: { calls: 2 } })
  })

  it.for([
    ['swallows it', (next: CallHandler) => next.handle().pipe(catchError(() => of({ ok: true })))],
    ['subscribes again', (next: CallHandler) => next.handle().pipe(retry(2))],
  ] as const)('is rolled back where it fails as an Observable and the interceptor %s', async ([, intercept]) => {
    let subscribed = 0
    const { sent, again, rows } = await post(
      (order, ctx) =>
        defer(async () => {
          await insert(ctx, order)
          if (++subscribed === 1) throw new ConflictException('out of stock')
          return { subscribed }
        }),
      intercept,
    )
    expect(sent).toMatchObject({ status: 409, body: { message: 'out of stock' } })
    expect(await rows()).toEqual([])
    expect(subscribed).toBe(1)
    expect(await again()).toMatchObject({ status: 201, body: { subscribed: 2 } })
    expect(await rows()).toHaveLength(1)
  })

  it('is rolled back if the interceptor throws something else, which is sent', async () => {
    const { sent, rows } = await post(
      async (order, ctx) => {
        await insert(ctx, order)
        throw new Error('no')
      },
      (next) =>
        next.handle().pipe(
          catchError(() => {
            throw new RequestTimeoutException('come again')
          }),
        ),
    )
    expect(sent).toMatchObject({ status: 408, body: { message: 'come again' } })
    expect(await rows()).toEqual([])
  })

  it('does not matter any more where the interceptor answers first: the rest would be missing', async () => {
    const inserted = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const { sent, rows } = await post(
      async (order, ctx) => {
        await insert(ctx, order)
        inserted.resolve()
        await release.promise
      },
      (next) => race(next.handle(), from(inserted.promise.then(() => 'early'))),
    )
    release.resolve()
    expect(sent).toMatchObject({ status: 500 })
    expect(await rows()).toEqual([])
  })
})

it('a method calls itself and other methods as they are', async () => {
  class Orders {
    async place(order: Order, ctx: Ctx): Promise<unknown> {
      if (order.item === 'inner') return insert(ctx, order)
      await this.place({ item: 'inner' }, ctx)
      await this.other({ item: 'other' }, ctx)
      return insert(ctx, order)
    }
    other(order: Order, ctx: Ctx): unknown {
      return insert(ctx, order)
    }
  }
  Controller('orders')(Orders)
  for (const name of ['place', 'other'] as const) {
    Body()(Orders.prototype, name, 0)
    IdempotentContext()(Orders.prototype, name, 1)
    const decorate = [
      Post(name === 'other' ? 'other' : ''),
      Idempotent(everybody),
    ].toReversed() as unknown as Decorate[]
    const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, name) as TypedPropertyDescriptor<never>
    for (const each of decorate) each(Orders.prototype, name, descriptor)
  }
  const { post, rows } = await served(Orders)
  expect(await post('k1')).toMatchObject({ status: 201 })
  expect(await rows()).toEqual([{ item: 'inner' }, { item: 'other' }, { item: 'book' }])
})

it('a status of the method itself is kept, whatever it is', async () => {
  let calls = 0
  const refusing = orders((_, __, res) => {
    res.status(422)
    return { calls: ++calls }
  })
  const { post } = await served(refusing)
  for (const _ of [1, 2]) expect(await post('k1')).toMatchObject({ status: 422, body: { calls: 1 } })
})

describe('a method that sends by itself', () => {
  it('and throws after that promises nothing: the client gets what it threw', async () => {
    let calls = 0
    const controller = orders(
      async (order, ctx, res) => {
        await insert(ctx, order)
        res.status(202).setHeader('x-order', ++calls).json({ calls })
        if (calls === 1) throw new ConflictException('out of stock')
      },
      { manual: true },
    )
    const { post, rows } = await served(controller)
    const refused = await post('k1')
    expect(refused).toMatchObject({ status: 409, body: { message: 'out of stock' } })
    expect(refused.headers.get('x-order')).toBeNull()
    expect(await rows()).toEqual([])
    expect(await post('k1')).toMatchObject({ status: 202, body: { calls: 2 } })
    expect(await rows()).toHaveLength(1)
  })

  it('and is called again after a conflict sends what the last call sent, and nothing of the first', async () => {
    let calls = 0
    const controller = orders(
      async (order, ctx, res) => {
        await insert(ctx, order)
        res.cookie('call', ++calls).status(201).json({ calls })
        if (calls === 1) throw new HapaxError('transaction-conflict', 'the database has given it up')
      },
      { manual: true },
    )
    const { post, rows } = await served(controller)
    const sent = await post('k1')
    expect(sent).toMatchObject({ status: 201, body: { calls: 2 } })
    expect(sent.headers.getSetCookie()).toEqual(['call=2; Path=/'])
    expect(await rows()).toHaveLength(1)
  })

  it('and gives up keeps nothing, at once', async () => {
    const controller = orders(
      async (order, ctx, res) => {
        await insert(ctx, order)
        res.write('a part')
        res.destroy()
      },
      { manual: true },
    )
    const { post, rows } = await served(controller)
    expect(await post('k1')).toMatchObject({ status: 500, body: { code: 'handler-failed' } })
    expect(await rows()).toEqual([])
  })

  it('gives its headers as a list', async () => {
    const controller = orders((_, __, res) => void res.writeHead(200, ['x-a', '1', 'x-b', '2'] as never).end('ok'), {
      manual: true,
    })
    const { headers } = await (await served(controller)).post('k1')
    expect([headers.get('x-a'), headers.get('x-b'), headers.get('0')]).toEqual(['1', '2', null])
  })
})

describe('a stream', () => {
  /** A controller that inserts, and returns a stream of these chunks. */
  const streaming = (chunks: () => Iterable<unknown> | AsyncIterable<unknown>) =>
    orders(async (order, ctx) => {
      await insert(ctx, order)
      return new StreamableFile(Readable.from(chunks(), { objectMode: false }))
    })

  it('is read to its end before the commit, and sent again', async () => {
    let calls = 0
    const { post, rows } = await served(streaming(() => [`${++calls} `, 'done']))
    for (const _ of [1, 2]) expect(await post('k1')).toMatchObject({ status: 201, body: '1 done' })
    expect(await rows()).toHaveLength(1)
  })

  it.for([
    ['at its beginning', 0],
    ['in the middle', 2],
  ] as const)('that fails %s keeps nothing, and leaves the key free', async ([, parts]) => {
    let calls = 0
    async function* chunks() {
      calls += 1
      for (let part = 0; part < parts; part++) yield 'a part '
      if (calls === 1) throw new Error('the disk is gone')
      yield 'done'
    }
    const { post, rows } = await served(streaming(chunks))
    const failed = await post('k1')
    expect(failed.status).toBeGreaterThanOrEqual(400)
    expect(JSON.stringify(failed.body)).not.toContain('a part')
    expect(await rows()).toEqual([])
    expect(await post('k1')).toMatchObject({ status: 201, body: `${'a part '.repeat(parts)}done` })
    expect(await rows()).toHaveLength(1)
  })

  it('that is too large is not read any further', async () => {
    let ended = false
    function* endless() {
      try {
        for (;;) yield Buffer.alloc(64 * 1024)
      } finally {
        ended = true
      }
    }
    const { post, rows } = await served(streaming(endless))
    expect(await post('k1')).toMatchObject({ status: 500, body: { code: 'response-not-storable' } })
    expect(await rows()).toEqual([])
    await expect.poll(() => ended).toBe(true)
  })

  it('of events is refused at its beginning', async () => {
    const events = orders((_, __, res) => void res.type('text/event-stream').flushHeaders(), { manual: true })
    const { post } = await served(events)
    expect(await post('k1')).toMatchObject({ status: 500, body: { code: 'response-not-storable' } })
  })

  it('whose client goes away is rolled back at once', async () => {
    const entered = Promise.withResolvers<void>()
    let calls = 0
    async function* chunks() {
      yield 'a part '
      if (++calls === 1) await new Promise(() => entered.resolve())
      yield 'done'
    }
    const { post, app } = await served(streaming(chunks))
    const client = new AbortController()
    const gone = post('k1', undefined, {}, client.signal).catch(() => 'gone')
    await entered.promise
    client.abort()
    expect(await gone).toBe('gone')
    await expect.poll(async () => (await post('k1')).status).toBe(201)
    expect(calls).toBe(2)
    await app.close()
  })
})

it('a method that takes too long is rolled back, and the client is told to come again', async () => {
  const { post, rows } = await served(
    orders(
      async (order, ctx) => {
        await insert(ctx, order)
        await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve))
      },
      { options: { ...everybody, timeoutMs: 200 } },
    ),
  )
  expect(await post('k1')).toMatchObject({ status: 503, body: { code: 'handler-timeout' } })
  expect(await rows()).toEqual([])
})

it('a response is sent after the commit: what did not commit is not promised', async () => {
  const { post, rows } = await served(
    orders(async (order, ctx) => {
      await insert(ctx, order)
      await ctx.tx.query('rollback')
      return 'it is done'
    }),
  )
  const sent = await post('k1')
  expect(sent).toMatchObject({ status: 500, body: { code: 'handler-failed' } })
  // Nothing is left of the response that Nest would have sent.
  expect(sent.headers.get('etag')).toBeNull()
  expect(await rows()).toEqual([])
})

it('parallel copies take effect once', async () => {
  const { post, rows } = await served(
    orders(
      async (order, ctx) => {
        await insert(ctx, order)
        return 'ok'
      },
      { options: { ...everybody, waitMs: 20_000 } },
    ),
  )
  const all = await Promise.all(Array.from({ length: 20 }, () => post('k1')))
  expect(all.map(({ status, body }) => [status, body])).toEqual(Array(20).fill([201, 'ok']))
  expect(await rows()).toHaveLength(1)
})
