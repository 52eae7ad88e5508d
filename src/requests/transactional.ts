import {
  asError,
  boundLogger,
  errorFields,
  faultFields,
  HapaxError,
  isHapaxError,
  isolationOption,
  type Logger,
  oneOf,
  positiveInteger,
} from '../base/index.ts'
import { isFeared, ref } from '../consumer/index.ts'
import type { HttpContext, HttpHandler, HttpOptions, PublishInHandler, Receipt } from '../contracts/index.ts'
import {
  Attempt,
  type Attempted,
  type Cause,
  causeOf,
  type Engine,
  type Opened,
  type Scope,
  type UnitSettings,
  type Work,
} from '../transaction/index.ts'
import type { Accepted, Keyed } from './accept.ts'
import { asResponse, type Captured, capture, responseOf } from './capture.ts'
import { type Answer, again, type Way } from './core.ts'
import type { Expiry } from './expiry.ts'
import type { HttpSettings } from './options.ts'
import {
  brokenAtomicity,
  databaseUnavailable,
  handlerFailed,
  handlerTimeout,
  keyReused,
  responseGone,
  responseNotStorable,
} from './problems.ts'

/** The options of this mode, beside those of every mode. */
export const TRANSACTION_NAMES: readonly (keyof HttpOptions)[] = ['mode', 'timeoutMs', 'isolation']

/** Time limits and isolation of the transactions. */
export function unitSettings({ mode, timeoutMs, isolation }: HttpOptions, parallelWriters: boolean): UnitSettings {
  oneOf('mode', ['transaction', 'leased'], mode, 'transaction')
  return {
    timeoutMs: positiveInteger('timeoutMs', timeoutMs, 30_000),
    // With one writer, every transaction waits for the one before it: that says nothing about the key.
    lockTimeoutMs: parallelWriters ? KEY_LOCK_MS : WRITER_LOCK_MS,
    isolation: isolationOption(isolation),
    together: undefined,
    order: 'none',
  }
}

/** How long the lock of a key is waited for: whoever holds it runs a handler in another process. */
const KEY_LOCK_MS = 50
const WRITER_LOCK_MS = 10_000
/** How long the outcome of a commit is looked for: a client waits for it. */
const RESOLVE_MS = 5_000
/** How often an expired response is removed, in case others use its key at the same time. */
const MOST_TRIES = 3

/** Takes requests in the transaction of their handlers: receipt, writes, publishes and response commit together. */
export class TransactionalWay<Tx> implements Way<HttpContext<Tx>> {
  readonly #engine: Engine<Tx>
  readonly #settings: HttpSettings
  readonly #unit: UnitSettings
  readonly #expiry: Expiry

  constructor(engine: Engine<Tx>, settings: HttpSettings, unit: UnitSettings, expiry: Expiry) {
    this.#engine = engine
    this.#settings = settings
    this.#unit = unit
    this.#expiry = expiry
  }

  async plain(request: Accepted, handle: HttpHandler<HttpContext<Tx>>): Promise<Answer> {
    let response: Response | undefined
    const attempt = new Attempt<Tx, undefined>(this.#engine, this.#unit, {
      consumer: this.#settings.consumer,
      messages: () => [],
      opening: () => ({ kind: 'plain' }),
      body: () => ({
        value: undefined,
        call: async (scope) => {
          response = await this.#call(request, handle, scope)
        },
      }),
      // Without a receipt nothing tells whether it was committed, and the handler must not run again.
      resolveMs: 0,
    })
    const attempted = await attempt.run()
    if (attempted.kind !== 'done') return this.#failed(request, attempted)
    return { outcome: 'unprotected', response: response ?? handlerFailed() }
  }

  async keyed(request: Keyed, handle: HttpHandler<HttpContext<Tx>>): Promise<Answer | 'busy'> {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const answer = await this.#take(request, handle)
      if (answer !== 'expired') return answer
      await this.#engine.store.responses.forget(this.#settings.consumer, request.message.messageKey)
    }
    return 'busy'
  }

  /** A repetition is answered as soon as the transaction is open; the client need not wait for its end. */
  async #take(request: Keyed, handle: HttpHandler<HttpContext<Tx>>): Promise<Answer | 'busy' | 'expired'> {
    const found = Promise.withResolvers<Answer>()
    const running = this.#attempt(request, handle, found.resolve)
    const rest = running.catch((error: unknown) => {
      const fields = { consumer: this.#settings.consumer, ...errorFields(asError(error)) }
      this.#engine.logger.debug(fields, 'the transaction of a request did not end well; it had nothing to keep')
    })
    return Promise.race([running, found.promise.then((answer) => ({ ...answer, rest }))])
  }

  async #attempt(
    request: Keyed,
    handle: HttpHandler<HttpContext<Tx>>,
    found: (answer: Answer) => void,
  ): Promise<Answer | 'busy' | 'expired'> {
    const { consumer, keepMs } = this.#settings
    const { message } = request
    const { messageKey, id } = message
    let captured: Captured | undefined
    let doubtful = false
    const attempt = new Attempt<Tx, 'ran' | Answer | 'expired'>(this.#engine, this.#unit, {
      consumer,
      messages: () => [ref(message)],
      opening: (token, resolving) => {
        doubtful = resolving
        return { kind: 'take', consumer, token, messages: [message], responses: true }
      },
      body: ({ unit, earlier }: Opened<Tx>): Work<Tx, 'ran' | Answer | 'expired'> => {
        const receipt = unit.existing.get(messageKey)
        if (receipt !== undefined) {
          // An earlier try, whose commit was unknown, did commit: this is its own response.
          if (captured !== undefined && earlier.has(receipt.token)) return { value: 'ran', committed: true }
          const known = this.#known(receipt, request)
          if (known !== 'expired') found(known)
          return { value: known }
        }
        return {
          value: 'ran',
          call: async (scope) => {
            captured = await capture(await this.#call(request, handle, scope), this.#settings)
          },
          writes: () =>
            captured === undefined ? {} : { response: { consumer, messageKey, id, response: captured.stored, keepMs } },
        }
      },
      resolveMs: RESOLVE_MS,
    })
    const attempted = await attempt.run()
    if (attempted.kind !== 'done') {
      const lost = attempted.kind === 'busy' || attempted.kind === 'lost'
      if (lost && doubtful)
        throw new HapaxError('commit-unknown', 'the outcome of a request could not be learnt', {
          cause: attempted.error,
        })
      return attempted.kind === 'busy' && this.#engine.store.features.parallelWriters
        ? 'busy'
        : this.#failed(request, attempted)
    }
    if (attempted.value !== 'ran') return attempted.value
    this.#expiry.soon()
    return this.#first(request, captured)
  }

  #first({ message }: Keyed, captured: Captured | undefined): Answer {
    if (captured === undefined) return { outcome: 'failed', response: handlerFailed() }
    const settled = { fingerprint: message.fingerprint, response: captured.stored }
    return { outcome: 'first', response: captured.send(), settled }
  }

  /** What a request gets whose key has a receipt. */
  #known({ source, id, fingerprint, response, expired }: Receipt, request: Keyed): Answer | 'expired' {
    if (expired) return 'expired'
    // Keys of receipts are hashes. Whatever happens to them, nobody gets the response of somebody else.
    const same = source === request.message.source && id === request.message.id
    if (!same) return { outcome: 'mismatch', response: keyReused() }
    if (response !== undefined) return again({ fingerprint, response }, request)
    return fingerprint === request.message.fingerprint
      ? { outcome: 'in-progress', response: responseGone() }
      : { outcome: 'mismatch', response: keyReused() }
  }

  /** Calls the handler. What is not to be kept is thrown, so that the transaction is rolled back. */
  async #call(request: Accepted, handle: HttpHandler<HttpContext<Tx>>, scope: Scope<Tx>): Promise<Response> {
    const response = await this.#returned(request, handle, scope)
    if (!this.#settings.keeps(response)) throw new RolledBack(response)
    return response
  }

  async #returned(request: Accepted, handle: HttpHandler<HttpContext<Tx>>, scope: Scope<Tx>): Promise<Response> {
    try {
      const cause = causeOfRequest(request)
      const context = new Context(request, scope, cause)
      return responseOf(await scope.buffer.around(() => cause, handle, request.fresh(), context))
    } catch (thrown) {
      const response = asResponse(thrown)
      throw response === undefined ? thrown : new RolledBack(response)
    }
  }

  /** Nothing was kept. */
  #failed(request: Accepted, attempted: Exclude<Attempted<unknown>, { readonly kind: 'done' }>): Answer {
    const error = asError(attempted.error)
    if (error instanceof RolledBack) return { outcome: 'rolled-back', response: error.response }
    const { logger } = this.#engine
    const { consumer } = this.#settings
    const about = request.message === undefined ? {} : { about: ref(request.message) }
    if (attempted.kind === 'busy' || attempted.kind === 'lost') {
      logger.warn(
        { consumer, ...about, ...errorFields(error) },
        'the transaction of a request was lost; nothing was kept',
      )
      return { outcome: 'unavailable', response: databaseUnavailable() }
    }
    const kept = isFeared(error) ? 'some of its effects may have been kept' : 'nothing was kept'
    logger.error({ consumer, ...about, ...faultFields(error) }, `the handler of a request failed; ${kept}`)
    return { outcome: 'failed', response: problemOf(error) }
  }
}

function problemOf(error: Error): Response {
  if (isHapaxError(error, 'response-not-storable')) return responseNotStorable()
  if (isHapaxError(error, 'broken-atomicity')) return brokenAtomicity()
  return isHapaxError(error, 'handler-timeout') ? handlerTimeout() : handlerFailed()
}

/** A response that is sent and not kept. */
class RolledBack extends Error {
  readonly response: Response

  constructor(response: Response) {
    super(`a response of status ${response.status} is not kept`)
    this.response = response
  }
}

/** What a handler receives; a class, so that a logger is made only for a handler that logs. */
class Context<Tx> implements HttpContext<Tx> {
  readonly key: string | undefined
  readonly principal: string | undefined
  readonly tx: Tx
  readonly publish: PublishInHandler
  readonly signal: AbortSignal
  readonly #request: Accepted
  readonly #scope: Scope<Tx>

  constructor(request: Accepted, scope: Scope<Tx>, cause: Cause | undefined) {
    this.key = request.key
    this.principal = request.principal
    this.tx = scope.tx
    this.publish = (type, data, options) => scope.buffer.publish(type, data, options, cause)
    this.signal = scope.deadline.signal
    this.#request = request
    this.#scope = scope
  }

  get logger(): Logger {
    const { consumer, logger } = this.#scope
    const { message } = this.#request
    return boundLogger(logger, { consumer, ...(message && { about: ref(message) }) })
  }
}

/** What is published because of a request names its key as the cause. */
function causeOfRequest({ message, request: { headers } }: Accepted): Cause | undefined {
  if (message === undefined) return undefined
  const [traceparent, tracestate] = [headers.get('traceparent'), headers.get('tracestate')]
  return causeOf({ ...ref(message), ...(traceparent && { traceparent }), ...(tracestate && { tracestate }) })
}
