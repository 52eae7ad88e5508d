import { expected, HapaxError, isHapaxError } from '../base/index.ts'
import type {
  ClaimContext,
  Claimed,
  ClaimHttpContext,
  ClaimHttpOptions,
  Http,
  HttpHandler,
  Receipt,
  RequestHandler,
} from '../contracts/index.ts'
import { leaseSettings } from '../leased/index.ts'
import { type StoredMessage, unpackAttributes } from '../message/index.ts'
import {
  type Accepted,
  type Answer,
  again,
  asResponse,
  type Captured,
  capture,
  givenUp,
  type HttpSettings,
  httpSettings,
  type Keyed,
  keyless,
  keyReused,
  leasedFailed,
  needsAPerson,
  OneHandler,
  problem,
  RETRY_MS,
  Requests,
  rebuilt,
  refuseHandle,
  responseOf,
  tooLarge,
  unknownEffect,
  type Way,
} from '../requests/index.ts'
import { type Ran, type RequestCall, RequestWork, Unkept } from './request-work.ts'
import type { ClaimEngine } from './work.ts'

type Handler = HttpHandler<ClaimHttpContext>

/** The options that this mode adds. */
const NAMES = ['mode', 'leaseMs', 'maxDurationMs'] as const satisfies readonly (keyof ClaimHttpOptions)[]

/**
 * Takes requests on a store that has only claims: the handler runs under the claim of its key, and the response is written with the
 * receipt. If that fails, the client's next request goes on with it; what is in the failed store, a worker does when a person retries it.
 */
export class ClaimHttp implements Http<ClaimHttpContext>, Way<ClaimHttpContext> {
  readonly scope: string
  /** What a worker works. */
  readonly work: RequestWork
  readonly #engine: ClaimEngine
  readonly #settings: HttpSettings
  readonly #requests: Requests<ClaimHttpContext>
  readonly #handle: OneHandler<ClaimHttpContext>

  /** Made by `hapax.http`. */
  constructor(engine: ClaimEngine, scope: string, options: ClaimHttpOptions) {
    const { name } = engine.store.features
    const settings = httpSettings(scope, options, NAMES)
    const { mode, leaseMs, maxDurationMs } = options
    if (mode !== undefined && mode !== 'leased') {
      expected('mode', `'leased', because ${name} has no transactions that a response could commit with`, mode)
    }
    if (!settings.require) expected('require', `true on ${name}, where outside calls are journalled by the key`, false)
    this.scope = settings.scope
    this.#engine = engine
    this.#settings = settings
    const lease = leaseSettings({ leaseMs, maxDurationMs })
    this.work = new RequestWork(engine, settings, lease, (message) => this.#rebuilt(message))
    this.#handle = new OneHandler(settings.scope)
    this.#requests = new Requests(engine, settings, this)
  }

  handler(handle: Handler): RequestHandler {
    this.#handle.register(handle)
    return this.#requests.handler(handle)
  }

  handle(): Promise<Response> {
    return refuseHandle()
  }

  plain(): Promise<Answer> {
    return keyless()
  }

  async keyed(request: Keyed, handle: Handler): Promise<Answer | 'busy'> {
    const { message } = request
    // What fails is kept with its payload, as messages are.
    const refused = tooLarge(request, this.#engine.maxBytes)
    if (refused !== undefined) return refused
    const { key, principal } = request
    const taken = await this.work.take(message, (ctx) =>
      this.#call(() => handle(request.fresh(), contextOf(ctx, key, principal))),
    )
    return this.#answer(request, taken)
  }

  #answer(request: Keyed, taken: Ran | Exclude<Claimed, { readonly kind: 'ours' }>): Answer | 'busy' {
    switch (taken.kind) {
      case 'kept':
        return first(request, taken.captured)
      case 'taken':
        return known(request, taken.receipt)
      case 'waiting':
        return taken.leftMs < this.#settings.waitMs ? 'busy' : waiting(taken.leftMs)
      case 'released':
        return { outcome: 'failed', response: responseTo(taken.error) }
      case 'failed':
        return { outcome: 'failed', response: taken.reason === 'unknown-effect' ? unknownEffect() : givenUp() }
      default:
        return 'busy'
    }
  }

  /** Runs a request that a person retried: its client is not here, and what it sent is in the failed store. */
  #rebuilt(message: StoredMessage): RequestCall {
    const { headers } = unpackAttributes(message)
    const { request, principal } = rebuilt(headers, message.data)
    const { id } = message
    return (ctx) => {
      const handle = this.#handle.current
      if (handle === undefined) throw new HapaxError('unknown-type', `no handler of ${this.scope} was registered here`)
      return this.#call(() => handle(request, contextOf(ctx, id, principal)))
    }
  }

  async #call(handle: () => Response | Promise<Response>): Promise<Captured> {
    const response = await returned(handle)
    if (!this.#settings.keeps(response)) throw new Unkept(response)
    return capture(response, this.#settings)
  }
}

async function returned(handle: () => Response | Promise<Response>): Promise<Response> {
  try {
    return responseOf(await handle())
  } catch (thrown) {
    const response = asResponse(thrown)
    throw response === undefined ? thrown : new Unkept(response)
  }
}

function first({ message: { fingerprint } }: Keyed, captured: Captured): Answer {
  return { outcome: 'first', response: captured.send(), settled: { fingerprint, response: captured.stored } }
}

/** What a request gets whose key is taken. Nothing is written about it, whatever strangers send. */
function known(request: Keyed, { source, id, fingerprint, response }: Receipt): Answer {
  const { message } = request
  // Claims are named by hashes. Whatever happens to them, nobody gets the response of somebody else.
  const same = source === message.source && id === message.id && fingerprint === message.fingerprint
  if (!same) return { outcome: 'mismatch', response: keyReused() }
  if (response !== undefined) return again({ fingerprint, response }, request)
  return { outcome: 'in-progress', response: needsAPerson() }
}

function waiting(leftMs: number): Answer {
  const detail = 'The next attempt at the request with this Idempotency-Key is not due yet. Send it again later.'
  return { outcome: 'in-progress', response: problem('in-progress', detail, leftMs) }
}

/** What a request gets whose attempt failed. It may be sent again. */
function responseTo(error: Error): Response {
  if (error instanceof Unkept) return later(error.response)
  if (!isHapaxError(error, 'response-not-storable')) return leasedFailed()
  return problem('response-not-storable', 'The server cannot keep its response.')
}

/** A response that says when to send the request again. */
function later({ status, statusText, headers, body }: Response): Response {
  const all = new Headers(headers)
  if (status >= 500 && !all.has('retry-after')) all.set('retry-after', String(RETRY_MS / 1_000))
  return new Response(body, { status, statusText, headers: all })
}

/** The context of a handler under a claim, without the message, which is the request. */
function contextOf(ctx: ClaimContext, key: Accepted['key'], principal: Accepted['principal']): ClaimHttpContext {
  return {
    key,
    principal,
    get signal() {
      return ctx.signal
    },
    attempt: ctx.attempt,
    fence: ctx.fence,
    get logger() {
      return ctx.logger
    },
    effect: (name, call, options) => ctx.effect(name, call, options),
    note: (fields) => ctx.note(fields),
  }
}
