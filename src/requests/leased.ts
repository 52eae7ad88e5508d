import { expected, HapaxError, within } from '../base/index.ts'
import type {
  Http,
  HttpHandler,
  LeasedContext,
  LeasedHttpContext,
  LeasedHttpOptions,
  Outcome,
  RequestHandler,
  Writes,
} from '../contracts/index.ts'
import { LeasedCore } from '../leased/index.ts'
import {
  defineMessage,
  FINGERPRINT,
  type IncomingMessage,
  messageKey,
  type StoredMessage,
  unpackAttributes,
} from '../message/index.ts'
import type { Engine } from '../transaction/index.ts'
import type { Accepted, Keyed } from './accept.ts'
import { asResponse, Captured, capture, responseOf } from './capture.ts'
import { type Answer, again, Requests, type Way } from './core.ts'
import type { Expiry } from './expiry.ts'
import { fingerprintOfRequest, REQUEST_TYPE, rebuilt } from './identity.ts'
import { keyless, OneHandler, refuseHandle, tooLarge } from './one-handler.ts'
import type { HttpSettings } from './options.ts'
import {
  databaseUnavailable,
  givenUp,
  keyReused,
  leasedFailed,
  needsAPerson,
  outcomeUnknown,
  RETRY_MS,
  unknownEffect,
} from './problems.ts'

/** The options of this mode, beside those of every mode. */
export const LEASED_NAMES: readonly (keyof LeasedHttpOptions)[] = ['mode', 'leaseMs', 'maxDurationMs']

/** Every request, as a message. */
const RequestMessage = defineMessage<unknown>(REQUEST_TYPE)

/** A request that a client waits for, and what its handler made of it. */
interface Live<Tx> {
  readonly request: Accepted
  readonly handle: HttpHandler<LeasedHttpContext<Tx>>
  captured: Captured | undefined
  /** A response that is sent and not kept. */
  unkept: Response | undefined
  /** Resolve when its handler begins, and when it has ended. */
  readonly began: PromiseWithResolvers<void>
  readonly ended: PromiseWithResolvers<void>
}

/**
 * Takes requests whose handlers call the outside world: each is a row of the inbox, worked under a lease at once. If that fails, the
 * client's next request goes on with it, or a worker does.
 */
export class LeasedHttp<Tx> implements Http<LeasedHttpContext<Tx>>, Way<LeasedHttpContext<Tx>> {
  readonly scope: string
  /** What a worker works. */
  readonly leased: LeasedCore<Tx>
  readonly #engine: Engine<Tx>
  readonly #settings: HttpSettings
  readonly #expiry: Expiry
  readonly #requests: Requests<LeasedHttpContext<Tx>>
  readonly #live = new Map<string, Live<Tx>>()
  readonly #handle: OneHandler<LeasedHttpContext<Tx>>

  constructor(engine: Engine<Tx>, settings: HttpSettings, options: LeasedHttpOptions, expiry: Expiry) {
    if (!settings.require) expected('require', 'true with mode leased, which journals outside calls by the key', false)
    this.#engine = engine
    this.#settings = settings
    this.#expiry = expiry
    this.scope = settings.scope
    const { leaseMs, maxDurationMs } = options
    const lease = { ...(leaseMs !== undefined && { leaseMs }), ...(maxDurationMs !== undefined && { maxDurationMs }) }
    const retentionMs = Math.max(KEEP_RECEIPTS_MS, settings.keepMs)
    const finish = (message: StoredMessage, returned: unknown): Writes => this.#writes(message, returned)
    this.leased = new LeasedCore(engine, settings.consumer, { ...lease, retry: RETRY, retentionMs }, finish)
    this.leased.on(RequestMessage, (_, ctx) => this.#run(ctx))
    this.#handle = new OneHandler(settings.scope)
    this.#requests = new Requests(engine, settings, this)
  }

  handler(handle: HttpHandler<LeasedHttpContext<Tx>>): RequestHandler {
    this.#handle.register(handle)
    return this.#requests.handler(handle)
  }

  handle(): Promise<Response> {
    return refuseHandle()
  }

  plain(): Promise<Answer> {
    return keyless()
  }

  async keyed(request: Keyed, handle: HttpHandler<LeasedHttpContext<Tx>>): Promise<Answer | 'busy'> {
    const refused = tooLarge(request, this.#engine.maxBytes)
    if (refused !== undefined) return refused
    const [began, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    return this.#inTime({ request, handle, captured: undefined, unkept: undefined, began, ended }, request)
  }

  /** Bounds what the client waits for beside the handler: what is insisted on while the database is away goes on without it. */
  async #inTime(live: Live<Tx>, request: Keyed): Promise<Answer | 'busy'> {
    const { clock } = this.#engine
    const working = this.#worked(request, live)
    const rest = working.catch(() => {})
    const late = (): Answer => ({ outcome: 'unavailable', response: outcomeUnknown(), rest })
    const begun = Promise.race([live.began.promise, working]).then(() => true)
    if (!(await within(clock, ANSWER_MS, begun, () => false))) return late()
    await Promise.race([live.ended.promise, working])
    return within(clock, ANSWER_MS, working, late)
  }

  async #worked(request: Keyed, live: Live<Tx>): Promise<Answer | 'busy'> {
    const { messageKey: key } = request.message
    this.#live.set(key, live)
    try {
      return (await this.#known(request, live)) ?? (await this.#taken(request, live))
    } finally {
      // After a late answer, the next request may be there.
      if (this.#live.get(key) === live) this.#live.delete(key)
    }
  }

  /** What a request gets that came before. Undefined: it did not, or its response has expired. */
  async #known(request: Keyed, live: Live<Tx>): Promise<Answer | 'busy' | undefined> {
    const { message } = request
    const { responses, inbox } = this.#engine.store
    const known = await responses.read(this.#settings.consumer, message.messageKey)
    if (known === undefined) return undefined
    const { receipt, response } = known
    const { fingerprint } = receipt
    if (receipt.source !== message.source || receipt.id !== message.id || fingerprint !== message.fingerprint) {
      return { outcome: 'mismatch', response: keyReused() }
    }
    if (response !== undefined) return again({ fingerprint, response }, request)
    const seq = await inbox.find(this.#settings.consumer, message.messageKey)
    if (seq === undefined) return this.#withoutRow(request)
    const worked = (await this.leased.consumer.work([seq])).get(seq)
    // Without an outcome it is leased by another process, or not due yet.
    return worked === undefined ? 'busy' : this.#answer(request, live, worked)
  }

  /** A receipt and nothing else: it has just been settled, or it is in the failed store. */
  async #withoutRow(request: Keyed): Promise<Answer> {
    const { fingerprint, messageKey: key } = request.message
    const known = await this.#engine.store.responses.read(this.#settings.consumer, key)
    if (known?.response !== undefined) return again({ fingerprint, response: known.response }, request)
    return { outcome: 'in-progress', response: needsAPerson() }
  }

  /** Takes a request of which nothing is known: stores it, and runs its handler. */
  async #taken(request: Keyed, live: Live<Tx>): Promise<Answer | 'busy'> {
    const { message } = request
    const incoming: IncomingMessage = {
      ...unpackAttributes(message),
      data: message.data,
      [FINGERPRINT]: message.fingerprint,
    }
    const outcome = await this.leased.handle(incoming)
    if (outcome.status !== 'duplicate') return this.#answer(request, live, outcome)
    // Its response has expired, or another process has taken the request meanwhile.
    const expired = await this.#engine.store.responses.forget(this.#settings.consumer, message.messageKey)
    if (expired) return this.#answer(request, live, await this.leased.handle(incoming))
    return (await this.#known(request, live)) ?? 'busy'
  }

  #answer(request: Keyed, live: Live<Tx>, { status }: Outcome): Answer | 'busy' | Promise<Answer | 'busy'> {
    const { captured, unkept } = live
    switch (status) {
      case 'processed':
        this.#expiry.soon()
        return captured === undefined ? this.#withoutRow(request) : this.#first(request, captured)
      case 'retrying':
        return { outcome: 'failed', response: unkept === undefined ? leasedFailed() : later(unkept) }
      case 'failed':
        return { outcome: 'failed', response: unkept ?? givenUp() }
      case 'held':
        return { outcome: 'failed', response: unknownEffect() }
      case 'rolled-back':
        return { outcome: 'unavailable', response: databaseUnavailable() }
      default:
        // Another process has it: the lease was lost, a worker was faster, or the same request came there.
        return 'busy'
    }
  }

  #first({ message: { fingerprint } }: Keyed, captured: Captured): Answer {
    return { outcome: 'first', response: captured.send(), settled: { fingerprint, response: captured.stored } }
  }

  /** The handler of the message: called for a client that waits, or by a worker, which has what the message says. */
  async #run(ctx: LeasedContext<Tx>): Promise<Captured> {
    const { id, source, headers, data } = ctx.message
    const body = data instanceof Uint8Array ? data : new Uint8Array()
    const stored = rebuilt(headers, body)
    const live = this.#waiting(messageKey(source, id), fingerprintOfRequest(new URL(stored.request.url), body))
    const { request, principal } =
      live === undefined ? stored : { request: live.request.fresh(), principal: live.request.principal }
    const handle = live?.handle ?? this.#handle.current
    if (handle === undefined) throw new HapaxError('unknown-type', `no handler of ${this.scope} was registered here`)
    live?.began.resolve()
    try {
      const response = await returned(() => handle(request, contextOf(ctx, id, principal)), live)
      if (!this.#settings.keeps(response)) throw notKept(response, live)
      const captured = await capture(response, this.#settings)
      if (live !== undefined) live.captured = captured
      return captured
    } finally {
      live?.ended.resolve()
    }
  }

  /** The client that waits for this request, if one does: another one with its key may have another body, and is about to be refused. */
  #waiting(key: string, fingerprint: string): Live<Tx> | undefined {
    const live = this.#live.get(key)
    return live?.request.message?.fingerprint === fingerprint ? live : undefined
  }

  #writes({ messageKey: key, id }: StoredMessage, returned: unknown): Writes {
    if (!(returned instanceof Captured)) return {}
    const { consumer, keepMs } = this.#settings
    return { response: { consumer, messageKey: key, id, response: returned.stored, keepMs } }
  }
}

async function returned(call: () => unknown, live: Pick<Live<never>, 'unkept'> | undefined): Promise<Response> {
  try {
    return responseOf(await call())
  } catch (thrown) {
    const response = asResponse(thrown)
    throw response === undefined ? thrown : notKept(response, live)
  }
}

/** The attempt has failed: what the handler returned is sent and not kept. */
function notKept(response: Response, live: Pick<Live<never>, 'unkept'> | undefined): Error {
  if (live !== undefined) live.unkept = response
  return new Error(`the handler returned a response of status ${response.status}, which is not kept`)
}

/** A response that says when to send the request again. */
function later(response: Response): Response {
  const headers = new Headers(response.headers)
  if (response.status >= 500 && !headers.has('retry-after')) headers.set('retry-after', String(RETRY_MS / 1_000))
  const { status, statusText, body } = response
  return new Response(body, { status, statusText, headers })
}

/** The context of a leased handler, without the message, which is the request. */
function contextOf<Tx>(ctx: LeasedContext<Tx>, key: string, principal: string | undefined): LeasedHttpContext<Tx> {
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
    complete: (work) => ctx.complete(work),
    publish: (type, data, options) => ctx.publish(type, data, options),
    note: (fields) => ctx.note(fields),
  }
}

/** The first delay is short, because a client may be waiting; a client that comes earlier is asked to come again. */
const RETRY = { attempts: 10, minDelayMs: 500, maxDelayMs: 30_000, factor: 2 } as const
/** How long a client waits before its handler is called, and after it has returned: longer than for a connection, shorter than clients do. */
const ANSWER_MS = 15_000
/** Receipts without a response are those of requests that failed and were given up. */
const KEEP_RECEIPTS_MS = 30 * 86_400_000
