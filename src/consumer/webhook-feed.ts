import {
  able,
  asError,
  type Clock,
  type EventHub,
  errorFields,
  expected,
  type Logger,
  nameText,
  type WebhookOutcome,
} from '../base/index.ts'
import type { Outcome, Webhook, WebhookArrival, WebhookReceiver } from '../contracts/index.ts'
import { type IncomingMessage, packAttributes } from '../message/index.ts'
import { type Problem, problemResponse, readBody, retryAfter } from '../web/index.ts'
import type { ConsumerCore } from './consumer.ts'
import type { ConsumerSettings } from './options.ts'
import { refuseShort } from './retention.ts'

/** A consumer as webhooks see it; it exists on stores with transactions and on claim stores. */
export interface Taking {
  readonly name: string
  readonly ordered: boolean
  readonly settings: Pick<ConsumerSettings, 'retentionMs'>
  take(message: IncomingMessage, receive: 'store' | 'direct'): Promise<Outcome>
}

/** What a feed needs of its hapax. */
interface FeedEngine {
  readonly clock: Clock
  readonly events: EventHub
  readonly logger: Logger
  readonly maxBytes: number
}

/** Whether a consumer was given webhooks, and not a subscription. */
export function isWebhook(given: object): given is Webhook {
  return typeof given === 'object' && given !== null && 'accept' in given
}

/**
 * A consumer together with the webhooks that feed it: the result of `consumer.from(webhook(…))`. A response in the 200s says that the
 * message is in the database; all others leave nothing there.
 */
export class WebhookFeed<Tx, C extends Taking = ConsumerCore<Tx>> implements WebhookReceiver<Tx> {
  readonly consumer: C
  readonly #engine: FeedEngine
  readonly #webhook: Webhook
  readonly #receive: 'store' | 'direct'
  readonly #maxBytes: number

  constructor(engine: FeedEngine, consumer: C, webhook: Webhook, fallback: 'store' | 'direct' = 'store') {
    able('webhook', 'what webhook() returns', webhook, ['accept'])
    const { receive = fallback, maxBodyBytes = engine.maxBytes, resendsForMs } = webhook
    nameText('name of the scheme', webhook.name)
    if (receive === 'direct' && consumer.ordered) {
      expected('receive', `'store' with a consumer that has order, because only stored messages have an order`, receive)
    }
    if (receive === 'store' && fallback === 'direct') {
      expected('receive', `'direct' with a store that has no inbox`, receive)
    }
    if (maxBodyBytes > engine.maxBytes) {
      expected('maxBodyBytes', `at most maxMessageBytes of hapax (${engine.maxBytes})`, maxBodyBytes)
    }
    refuseShort(consumer.name, consumer.settings.retentionMs, resendsForMs, `${webhook.name} may send an event again`)
    this.consumer = consumer
    this.#engine = engine
    this.#webhook = webhook
    this.#receive = receive
    this.#maxBytes = maxBodyBytes
  }

  /** Takes one request. Never rejects. */
  readonly handler = async (request: Request): Promise<Response> => {
    const { clock, events } = this.#engine
    const started = clock.monotonic()
    const { outcome, response } = await this.#handled(request)
    events.emit('webhook', () => {
      const durationMs = clock.monotonic() - started
      return { source: this.#webhook.name, consumer: this.consumer.name, outcome, durationMs }
    })
    return response
  }

  async #handled(request: Request): Promise<Handled> {
    if (request.method !== 'POST') return problem('not-post', NOT_POST)
    const body = await readBody(request, this.#maxBytes)
    if (body.kind === 'too-large') return this.#refused('too-large', tooLarge(this.#maxBytes))
    if (body.kind === 'used') return this.#refused('body-consumed', BODY_CONSUMED)
    if (body.kind === 'broken') return problem('incomplete', INCOMPLETE)
    const { method, url, headers } = request
    const nowMs = this.#engine.clock.now()
    return this.#arrived(this.#webhook.accept({ method, url, headers, body: body.bytes, nowMs }))
  }

  #arrived(arrival: WebhookArrival): Handled | Promise<Handled> {
    switch (arrival.kind) {
      case 'message': {
        const [bytes, most] = [bytesOf(arrival.message), this.#engine.maxBytes]
        // The consumer would keep only its beginning, and the provider would never send the rest again.
        return bytes > most ? this.#refused('too-large', storedTooLarge(bytes, most)) : this.#taken(arrival.message)
      }
      case 'challenge':
        return { outcome: 'challenge', response: challengeResponse(arrival.text) }
      case 'missing':
        return this.#refused('missing', missingHeader(arrival.header))
      case 'bad-signature':
        return this.#refused('bad-signature', BAD_SIGNATURE, arrival.error)
      case 'bad-timestamp':
        return this.#refused('bad-timestamp', BAD_TIMESTAMP)
    }
  }

  /** The message is in the hands of the database, or the provider has to send it again. */
  async #taken(message: IncomingMessage): Promise<Handled> {
    try {
      const { status, ack, retryAfterMs } = await this.consumer.take(message, this.#receive)
      // 200 for all of them, because some providers take only that for success; without a body, which Twilio would send as an SMS.
      if (ack) return { outcome: status, response: new Response(null, { status: 200 }) }
      return problem(status, unavailable(retryAfterMs))
    } catch (thrown) {
      const fields = { consumer: this.consumer.name, webhook: this.#webhook.name, ...errorFields(asError(thrown)) }
      this.#engine.logger.warn(fields, 'a webhook could not be taken; its provider is asked to send it again')
      return problem('unavailable', unavailable(undefined))
    }
  }

  /** Logged as one kind, of which a few lines a minute are written: anyone can send such requests. */
  #refused(outcome: WebhookOutcome, of: Problem, error?: Error): Handled {
    const { code, detail } = of
    const why = error === undefined ? { code, error: detail } : errorFields(error)
    const fields = { consumer: this.consumer.name, webhook: this.#webhook.name, ...why }
    this.#engine.logger.warn(fields, 'a webhook was refused; nothing of it was kept')
    return problem(outcome, of)
  }
}

interface Handled {
  readonly outcome: WebhookOutcome
  readonly response: Response
}

function problem(outcome: WebhookOutcome, of: Problem): Handled {
  return { outcome, response: problemResponse(of) }
}

function challengeResponse(text: string): Response {
  const headers = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' }
  return new Response(text, { status: 200, headers })
}

const NOT_POST: Problem = {
  status: 405,
  code: 'not-post',
  title: 'Method not allowed',
  detail: 'Webhooks are sent with POST.',
  headers: { allow: 'POST' },
}

const BODY_CONSUMED: Problem = {
  status: 500,
  code: 'body-consumed',
  title: 'Body already read',
  detail: 'The body of the request was read before the webhook handler: mount the handler before body parsers.',
}

const INCOMPLETE: Problem = {
  status: 400,
  code: 'incomplete',
  title: 'Incomplete request',
  detail: 'The connection ended before the body did.',
}

// What is wrong with a signature is not said: it would help whoever tries to forge one.
const BAD_SIGNATURE: Problem = {
  status: 401,
  code: 'bad-signature',
  title: 'Signature not accepted',
  detail: 'The request was not signed with a secret that is known here, or was changed on its way.',
}

const BAD_TIMESTAMP: Problem = {
  status: 401,
  code: 'bad-timestamp',
  title: 'Timestamp not accepted',
  detail: 'The request was signed too long ago, or in the future.',
}

function missingHeader(header: string): Problem {
  return { status: 400, code: 'missing-header', title: 'Header missing', detail: `Expected the header ${header}.` }
}

function tooLarge(maxBytes: number): Problem {
  const detail = `Expected a body of at most ${maxBytes} bytes.`
  return { status: 413, code: 'too-large', title: 'Body too large', detail }
}

function storedTooLarge(bytes: number, maxBytes: number): Problem {
  const detail = `Expected an event that is stored in at most ${maxBytes} bytes, got ${bytes}.`
  return { status: 413, code: 'too-large', title: 'Event too large', detail }
}

/** How large a message is when it is stored: what is kept of the headers counts, and a form becomes larger as JSON. */
function bytesOf(message: IncomingMessage): number {
  const { data } = message
  return (data instanceof Uint8Array ? data.byteLength : 0) + Buffer.byteLength(packAttributes(message))
}

function unavailable(retryAfterMs: number | undefined): Problem {
  return {
    status: 503,
    code: 'unavailable',
    title: 'Try again later',
    detail: 'The event was not taken. Send it again.',
    headers: retryAfter(retryAfterMs ?? RETRY_MS),
  }
}

/** Providers have schedules of their own; few read the header. */
const RETRY_MS = 5_000
