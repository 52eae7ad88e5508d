import { AsyncLocalStorage } from 'node:async_hooks'
import type { ServerResponse } from 'node:http'
import {
  type CallHandler,
  createParamDecorator,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  type Type,
  UseInterceptors,
} from '@nestjs/common'
import { Observable, type Subscriber } from 'rxjs'
import { expected, fieldOf, HapaxError } from '../base/index.ts'
import type { Http, HttpContext, HttpOptions } from '../contracts/index.ts'
import { problemResponse, retryAfter } from '../web/index.ts'
import { Call, lastOf, standIn } from './call.ts'
import { HeldResponse } from './held-response.ts'
import { fetchRequest, type NestRequest } from './nest-request.ts'
import { type AnyHapax, opened } from './options.ts'
import { getHapaxToken } from './tokens.ts'

/** Options of `@Idempotent`: those of `hapax.http`, about the requests of the framework. */
export interface IdempotentOptions<Req = NestRequest> extends Omit<HttpOptions, 'principal' | 'mode' | 'route'> {
  /**
   * Who sends the request: the key of one principal never finds the response of another. Guards have run: `(request) => request.user.id`.
   * Undefined or '': 401. `'none'`: everybody who knows the key is the same.
   */
  readonly principal: 'none' | ((request: Req) => string | undefined | Promise<string | undefined>)
  /** The name of the scope, a part of what a key is known by. @default the class and the method, such as `Orders.place` */
  readonly scope?: string
  /** The name of the `HapaxModule`. @default 'default' */
  readonly hapax?: string
}

/**
 * Lets an HTTP request with an `Idempotency-Key` take effect once: the response commits with what the method writes by
 * `@IdempotentContext()`, and a request that comes again gets the same response. What the method throws is not kept: everything is rolled
 * back, and the key is free again.
 */
export function Idempotent<Req = NestRequest>(options: IdempotentOptions<Req>): MethodDecorator {
  return (target, key, descriptor) => {
    const { scope = `${target.constructor.name}.${String(key)}`, hapax, ...others } = options
    const calls: Calls = new AsyncLocalStorage()
    const method: unknown = descriptor.value
    // Decorators above this one write on what the descriptor has.
    if (isMethod(method)) {
      Object.assign(descriptor, { value: observed(method, calls) })
      Object.defineProperty(target, key, descriptor)
    }
    UseInterceptors(interceptorOf(scope, getHapaxToken(hapax), others, calls))(target, key, descriptor)
  }
}

/** Which call of the method is being made through Nest. */
type Calls = AsyncLocalStorage<Call | undefined>

type Method = (...args: never[]) => unknown

function isMethod(value: unknown): value is Method {
  return typeof value === 'function'
}

/** The method, which tells a call through Nest what becomes of it, whatever interceptors make of that. */
function observed(method: Method, calls: Calls): Method {
  return standIn(method, function (this: unknown, ...args: never[]): unknown {
    // If the method calls itself, that is no call through Nest.
    const direct = (): unknown => calls.run(undefined, () => method.apply(this, args))
    return calls.getStore()?.once(direct) ?? direct()
  })
}

/** The context of the request, for methods with `@Idempotent()`: `(@IdempotentContext() ctx: HttpContext<PgTx>)`. */
export const IdempotentContext: () => ParameterDecorator = createParamDecorator(
  (_: unknown, context: ExecutionContext): HttpContext<unknown> => {
    const ctx = contexts.get(context.switchToHttp().getRequest<object>())
    if (ctx !== undefined) return ctx
    const what = `expected ${context.getClass().name}.${context.getHandler().name} to have @Idempotent(), got a method without it`
    throw new HapaxError('not-in-transaction', what)
  },
)

const contexts = new WeakMap<object, HttpContext<unknown>>()

type Options<Req> = Omit<IdempotentOptions<Req>, 'scope' | 'hapax'>

/** A class of its own for each method, because Nest makes interceptors, and gives each what its own class asks for. */
function interceptorOf<Req>(scope: string, token: symbol, options: Options<Req>, calls: Calls): Type<NestInterceptor> {
  class IdempotentInterceptor implements NestInterceptor {
    readonly #http: Http<HttpContext<unknown>>
    readonly #requests = new WeakMap<Request, Req>()

    constructor(given: AnyHapax) {
      const hapax = opened(given)
      if (hapax.consumer === undefined)
        expected(`the store of ${scope}`, 'one with transactions', 'one with claims only')
      this.#http = hapax.http(scope, { ...options, principal: this.#principal() })
    }

    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      if (context.getType() !== 'http') {
        const what = `expected ${scope} to take HTTP requests, got a message of a transport`
        throw new HapaxError('invalid-option', `${what}: it is acknowledged before the commit; use @OnMessage()`)
      }
      const http = context.switchToHttp()
      const given = http.getRequest<Req & NestRequest>()
      const request = fetchRequest(given)
      this.#requests.set(request, given)
      return new Observable((subscriber) => {
        const held = new HeldResponse(responseOf(http.getResponse()))
        const exchange = new Exchange(given, held, next, subscriber, calls)
        this.#http
          .handle(request, (_, ctx) => exchange.run(ctx))
          .then(
            (response) => exchange.respond(response),
            (error: unknown) => exchange.fail(error),
          )
      })
    }

    #principal(): HttpOptions['principal'] {
      const { principal } = options
      if (typeof principal !== 'function') return principal
      return (request) => {
        const given = this.#requests.get(request)
        return given === undefined ? undefined : principal(given)
      }
    }
  }
  Injectable()(IdempotentInterceptor)
  Inject(token)(IdempotentInterceptor, undefined, 0)
  return IdempotentInterceptor
}

/** One request on its way through the method, the rest of Nest, and the commit. */
class Exchange {
  readonly #request: object
  readonly #held: HeldResponse
  readonly #next: CallHandler
  readonly #subscriber: Subscriber<unknown>
  readonly #calls: Calls
  /** What the method threw, and what stood for it towards hapax. */
  #failed: { readonly error: unknown; readonly thrown: unknown } | undefined
  #returned = false
  #over = false

  constructor(request: object, held: HeldResponse, next: CallHandler, subscriber: Subscriber<unknown>, calls: Calls) {
    this.#request = request
    this.#held = held
    this.#next = next
    this.#subscriber = subscriber
    this.#calls = calls
  }

  /** Calls the method, and lets Nest make the response while the transaction is open. May be called again after a conflict. */
  async run(ctx: HttpContext<unknown>): Promise<Response> {
    // Other interceptors have seen what the method returned: they cannot see it again.
    if (this.#returned) throw tryAgain()
    if (this.#failed !== undefined) this.#again()
    contexts.set(this.#request, ctx)
    const value = await this.#called()
    this.#refuseAlone()
    this.#returned = true
    const status = value instanceof Response ? value.status : this.#held.status
    this.#subscriber.next(value)
    this.#subscriber.complete()
    const response = await this.#held.captured
    // An exception of an interceptor, or of whatever else makes the response: to the client, the request has failed.
    if (response.status >= 400 && status < 400) throw response
    // Without a key nobody reads it before the commit.
    return ctx.key === undefined ? whole(response) : response
  }

  /** Sends what was kept or says why nothing was, or lets Nest respond to what the method threw. */
  respond(response: Response): void {
    this.#over = true
    const failed = this.#failed
    if (!this.#returned && failed !== undefined && (response === failed.thrown || response.status === 500)) {
      this.fail(failed.error)
      return
    }
    if (!this.#returned) {
      this.#subscriber.next(undefined)
      this.#subscriber.complete()
    }
    // Nest responds in the meantime, to nobody.
    setImmediate(() => this.#send(response))
  }

  /** Lets Nest respond to an error, or sends what it has responded already, to that of an interceptor. */
  fail(error: unknown): void {
    this.#over = true
    const { hasBegun } = this.#held
    if (hasBegun && this.#subscriber.closed) {
      this.#held.captured.then((response) => this.#send(response)).catch(() => {})
      return
    }
    // What the method has sent before it failed is not true any more.
    if (hasBegun) this.#held.takeBack()
    this.#held.release()
    this.#subscriber.error(error)
  }

  #send(response: Response): void {
    this.#held.send(response).catch(() => {})
  }

  /** What the last call set and sent was rolled back with the rest. */
  #again(): void {
    this.#refuseAlone()
    this.#failed = undefined
    this.#held.takeBack()
  }

  #refuseAlone(): void {
    if (this.#over || this.#subscriber.closed) throw this.#fails(new Error('nobody waits for the response any more'))
  }

  async #called(): Promise<unknown> {
    const call = new Call()
    try {
      const value = await this.#calls.run(call, () => lastOf(this.#next.handle()))
      await call.finished('the method')
      return value
    } catch (error) {
      throw this.#fails(error)
    }
  }

  /** Exceptions of HTTP are no failure that anybody should hear of. hapax has to see others: it may have to run again. */
  #fails(error: unknown): unknown {
    const getStatus = fieldOf(error, 'getStatus')
    const status: unknown = typeof getStatus === 'function' ? getStatus.call(error) : undefined
    const isExpected = typeof status === 'number' && status >= 200 && status < 500
    const thrown = isExpected ? new Response(null, { status }) : error
    this.#failed = { error, thrown }
    return thrown
  }
}

async function whole(response: Response): Promise<Response> {
  const { status, headers, body } = response
  return new Response(body === null ? null : await response.arrayBuffer(), { status, headers })
}

/** The response of Node.js: that of Express itself, or the one that Fastify has in `raw`. */
function responseOf(given: ServerResponse | { readonly raw: ServerResponse }): ServerResponse {
  return 'raw' in given ? given.raw : given
}

function tryAgain(): Response {
  const detail = 'The transaction has to run again. Send the request again, with the same key.'
  const headers = retryAfter(1_000)
  return problemResponse({
    status: 503,
    code: 'database-unavailable',
    title: 'Temporarily unavailable',
    detail,
    headers,
  })
}
