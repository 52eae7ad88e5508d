import { asError, HapaxError, messageOf, Permanent, RetryAfter } from '../base/index.ts'
import { ConsumerCore } from '../consumer/index.ts'
import type { Delivered, DeliverySettings, Endpoint, EndpointDestination, LeasedContext } from '../contracts/index.ts'
import { classifyError, LeasedWork, PutOff } from '../leased/index.ts'
import { defineMessage, deliveriesName, eventOf, type MessageType, type OutgoingMessage } from '../message/index.ts'
import type { Engine } from '../transaction/index.ts'
import { Directory } from './directory.ts'
import { Gates } from './gates.ts'

/** What the journal keeps of a delivery that arrived. */
interface DeliveryLog {
  readonly code: number
  readonly ms: number
  readonly answer: string
}

/**
 * The consumer that delivers to the endpoints of a relay. The order of a key counts for each endpoint by itself; a message that failed for good
 * moves to the failed store, and its key goes on. A delivery of which nobody knows whether it arrived is made again, under the same id.
 */
export function deliveriesOf<Tx>(engine: Engine<Tx>, relay: string, driver: EndpointDestination): ConsumerCore<Tx> {
  const { scheduleMs, timeoutMs } = driver.settings
  const deliveries = new Deliveries(engine, relay, driver)
  const spanMs = scheduleMs.reduce((sum, ms) => sum + ms, 0)
  // Pauses come from the schedule; these make the span of all retries known.
  const pauseMs = Math.ceil(spanMs / Math.max(1, scheduleMs.length))
  const options = {
    order: 'skip',
    retry: { attempts: scheduleMs.length + 1, minDelayMs: pauseMs, maxDelayMs: pauseMs, factor: 1 },
    retentionMs: Math.max(RETENTION_MS, 2 * Math.ceil(spanMs)),
  } as const
  const call = (data: unknown, context: LeasedContext<Tx>): Promise<void> => deliveries.deliver(data, context)
  return new ConsumerCore(
    engine,
    deliveriesName(relay),
    options,
    { kind: 'leased', raw: true, type: ANY, retry: undefined, call },
    (parts) => new LeasedWork(parts, { leaseMs: LEASE_MS, maxDurationMs: timeoutMs + 2 * GRACE_MS }),
  )
}

const ANY: MessageType<never> = defineMessage<never>('*')
const DAY_MS = 86_400_000
/** How long receipts and the log of deliveries are kept, at least. */
const RETENTION_MS = 30 * DAY_MS
/** Short, because what a dead process had in hand waits for so long; a lease that is lost costs at most a second delivery. */
const LEASE_MS = 10_000
/** The driver ends a delivery in time; so much later it is ended here. */
const GRACE_MS = 5_000

/** Delivers copies of events, one at a time, as the endpoints permit. */
class Deliveries<Tx> {
  readonly #engine: Engine<Tx>
  readonly #driver: EndpointDestination
  readonly #directory: Directory
  readonly #gates: Gates

  constructor(engine: Engine<Tx>, relay: string, driver: EndpointDestination) {
    const { clock, random, store } = engine
    this.#engine = engine
    this.#driver = driver
    this.#directory = new Directory({ store: store.endpoints, clock, relay })
    this.#gates = new Gates({ clock, random, settings: driver.settings })
  }

  async deliver(data: unknown, context: LeasedContext<Tx>): Promise<void> {
    const { endpoint: id, event } = eventOf(context.message, bytesOf(data))
    const endpoint = await this.#directory.find(id)
    if (endpoint === undefined) throw removed(id)
    if (!endpoint.enabled) throw disabled(endpoint)
    const delayMs = this.#gates.enter(id)
    if (delayMs !== undefined) throw new PutOff(delayMs)
    try {
      await this.#journalled(endpoint, event, context)
    } catch (error) {
      throw error instanceof Gone ? await this.#gone(endpoint) : error
    } finally {
      this.#gates.leave(id)
    }
  }

  #journalled(endpoint: Endpoint, event: OutgoingMessage, context: LeasedContext<Tx>): Promise<DeliveryLog> {
    return context.effect(
      'deliver',
      (_, signal) => this.#made(endpoint, event, context.attempt, signal),
      // At least once: the receiver drops what has an id that it knows.
      { onUnknown: 'retry-same-key', classify, timeoutMs: this.#driver.settings.timeoutMs + GRACE_MS },
    )
  }

  async #made(endpoint: Endpoint, event: OutgoingMessage, attempt: number, signal: AbortSignal): Promise<DeliveryLog> {
    const { clock } = this.#engine
    const began = clock.monotonic()
    const delivered = await this.#sent(endpoint, event, signal)
    const ms = Math.round(clock.monotonic() - began)
    if (delivered.status === 'delivered') {
      this.#gates.succeeded(endpoint.id, ms)
      return { code: delivered.code, ms, answer: delivered.answer.slice(0, MAX_ANSWER) }
    }
    if (delivered.status === 'gone') throw new Gone()
    if (delivered.status === 'refused') throw new Permanent(messageOf(delivered.error), { cause: delivered.error })
    // Told to stop: that says nothing of the endpoint.
    if (!signal.aborted) this.#failed(endpoint, ms, delivered.retryAfterMs)
    throw new DeliveryFailed(this.#delayMs(attempt, delivered.retryAfterMs), delivered)
  }

  /** A driver that throws breaks its contract, but that is no reason to do something else than to try again. */
  async #sent(endpoint: Endpoint, event: OutgoingMessage, signal: AbortSignal): Promise<Delivered> {
    try {
      return await this.#driver.deliver(endpoint, event, signal)
    } catch (error) {
      return { status: 'failed', error: asError(error), code: undefined, answer: '', retryAfterMs: undefined }
    }
  }

  #failed({ id, url }: Endpoint, ms: number, retryAfterMs: number | undefined): void {
    const { failures, pauseMs } = this.#driver.settings.breaker
    if (!this.#gates.failed(id, ms, retryAfterMs)) return
    const what = `an endpoint has failed ${failures} times in a row; it is left alone for ${pauseMs} ms at a time until it answers again`
    this.#engine.logger.warn({ endpoint: id, host: hostOf(url) }, what)
  }

  #delayMs(attempt: number, retryAfterMs = 0): number {
    return delayMs(this.#driver.settings, attempt, this.#engine.random.number(), retryAfterMs)
  }

  /** What an answer of 410 means for the message. If the endpoint has moved meanwhile, its new address was not asked. */
  async #gone(endpoint: Endpoint): Promise<Error> {
    this.#directory.forget()
    const now = await this.#directory.find(endpoint.id)
    if (now !== undefined && now.url !== endpoint.url) return new PutOff(MOVED_MS)
    await this.#disable(endpoint)
    return disabled({ id: endpoint.id, reason: 'gone' })
  }

  async #disable({ id, url }: Endpoint): Promise<void> {
    const { store, logger } = this.#engine
    const audit = { actor: 'hapax', action: 'change', note: 'disabled: it answered with 410 (gone)' } as const
    await store.endpoints.change(id, { enabled: false, reason: 'gone' }, audit)
    // The next one that is to go there finds out.
    this.#directory.forget()
    logger.warn({ endpoint: id, host: hostOf(url) }, 'an endpoint answered with 410 (gone) and is disabled')
  }
}

/** The pause after a failed attempt, with a jitter of a tenth: what failed together should not come back together. */
export function delayMs(
  { scheduleMs }: Pick<DeliverySettings, 'scheduleMs'>,
  attempt: number,
  random: number,
  retryAfterMs: number,
): number {
  const planned = (scheduleMs[attempt - 1] ?? 0) * (0.9 + 0.2 * random)
  const most = Math.max(DAY_MS, ...scheduleMs)
  return Math.round(Math.max(planned, Math.min(retryAfterMs, most)))
}

/** The receiver does not want anything any more. */
class Gone extends Error {}

/** A delivery that failed, as the history of its message shows it. Its code is the status of the answer, or that of the error. */
class DeliveryFailed extends RetryAfter {
  override readonly name = 'DeliveryFailed'
  readonly code: string
  /** Whether the receiver has answered. */
  readonly answered: boolean

  constructor(delayMs: number, { error, code, answer }: Extract<Delivered, { status: 'failed' }>) {
    const said = answer === '' ? '' : `: ${answer.slice(0, MAX_SHOWN)}`
    super(delayMs, code === undefined ? messageOf(error) : `the receiver answered with ${code}${said}`, {
      cause: error,
    })
    this.code = code === undefined ? codeOf(error) : String(code)
    this.answered = code !== undefined
    // Where it was thrown says nothing.
    this.stack = ''
  }
}

/** What the receiver has not accepted is not done. Without an answer, the error tells. */
function classify(error: unknown): 'not-done' | 'unknown' {
  if (error instanceof DeliveryFailed) return error.answered ? 'not-done' : classifyError(error.cause)
  return error instanceof Gone ? 'not-done' : classifyError(error)
}

function codeOf(error: Error & { readonly code?: unknown }): string {
  return typeof error.code === 'string' ? error.code : error.name
}

function removed(id: string): HapaxError {
  return new HapaxError('endpoint-removed', `the endpoint ${id} was removed`, { fields: { endpoint: id } })
}

function disabled({ id, reason }: Pick<Endpoint, 'id' | 'reason'>): HapaxError {
  const why = reason === null ? '' : ` (${reason})`
  return new HapaxError('endpoint-disabled', `the endpoint ${id} is disabled${why}`, { fields: { endpoint: id } })
}

function bytesOf(data: unknown): Uint8Array {
  return data instanceof Uint8Array ? data : new Uint8Array()
}

/** Paths and queries of URLs may have secrets in them. */
function hostOf(url: string): string {
  return URL.parse(url)?.host ?? ''
}

/** How soon a delivery goes to the new address of its endpoint. */
const MOVED_MS = 100
const MAX_ANSWER = 1_000
const MAX_SHOWN = 200
