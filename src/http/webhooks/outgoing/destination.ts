import { HapaxError, isHapaxError, redact } from '../../../base/index.ts'
import type { Delivered, DeliverySettings, Endpoint, EndpointDestination } from '../../../contracts/index.ts'
import type { OutgoingMessage } from '../../../message/index.ts'
import { webhookSecret } from '../../../web/index.ts'
import { exchange, type Response } from './exchange.ts'
import { failureOf } from './failures.ts'
import { Guard } from './guard.ts'
import { isMissing, type Resolve } from './names.ts'
import type { WebhooksSettings } from './options.ts'
import { deliveryOf } from './request.ts'

/** How long a registration waits for the addresses of a host. */
const CHECK_MS = 5_000

/** Registered endpoints, each called through the guard. */
export class WebhooksDestination implements EndpointDestination {
  readonly kind = 'endpoints'
  readonly name = 'webhooks'
  readonly settings: DeliverySettings
  readonly #settings: WebhooksSettings
  readonly #guard: Guard

  /** `resolve` is for tests. */
  constructor(settings: WebhooksSettings, resolve?: Resolve) {
    this.settings = settings.delivery
    this.#settings = settings
    this.#guard = new Guard(settings.rules, settings.ca, resolve)
  }

  async check(url: string): Promise<string | undefined> {
    try {
      await this.#guard.addresses(this.#guard.target(url), AbortSignal.timeout(CHECK_MS))
      return undefined
    } catch (error) {
      // Name servers that do not answer say nothing about the name.
      return isHapaxError(error) || isMissing(error) ? failureOf(error).message : undefined
    }
  }

  secret(): string {
    return webhookSecret()
  }

  async deliver(endpoint: Endpoint, message: OutgoingMessage, signal: AbortSignal): Promise<Delivered> {
    const { body, userAgent, delivery } = this.#settings
    try {
      const target = this.#guard.target(endpoint.url)
      const request = deliveryOf(message, endpoint.secrets, body, userAgent, Date.now())
      return outcomeOf(await exchange(this.#guard, target, request, delivery.timeoutMs, signal), Date.now())
    } catch (thrown) {
      const error = failureOf(thrown)
      if (FOR_GOOD.has(error.code)) return { status: 'refused', error }
      return { status: 'failed', error, code: undefined, answer: '', retryAfterMs: undefined }
    }
  }

  async prepare(): Promise<void> {}

  async close(): Promise<void> {}
}

/** What no attempt changes. A name may lead elsewhere tomorrow, and a secret can be replaced. */
const FOR_GOOD: ReadonlySet<string> = new Set(['forbidden-url', 'invalid-payload'])

function outcomeOf(response: Response, now: number): Delivered {
  const { status: code } = response
  const answer = excerpt(response.body)
  if (code >= 200 && code < 300) return { status: 'delivered', code, answer }
  if (code === 410) return { status: 'gone', answer }
  const wait = code === 429 || code === 503 ? response.retryAfter : undefined
  return { status: 'failed', error: unsuccessful(code), code, answer, retryAfterMs: retryAfterMs(wait, now) }
}

function unsuccessful(code: number): HapaxError {
  const redirect = code >= 300 && code < 400 ? ', and redirects are not followed' : ''
  return new HapaxError('endpoint-refused', `the endpoint responded with ${code}${redirect}`, {
    fields: { status: code },
  })
}

const EXCERPT = 500

/** The beginning of a body, for people: no credentials, and nothing that a terminal or a database takes amiss. */
function excerpt(body: Uint8Array): string {
  // Redacted before it is cut: half of a secret would not be recognised.
  const text = new TextDecoder().decode(body.subarray(0, 8 * EXCERPT))
  return redact(text)
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .slice(0, EXCERPT)
    .toWellFormed()
}

/** Nobody decides about our time further than that. */
const MAX_WAIT_MS = 24 * 3_600_000

/** The header `retry-after`: seconds, or a date of HTTP. Undefined: there is none that can be read. */
function retryAfterMs(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined
  const ms = /^\d{1,9}$/.test(value)
    ? Number(value) * 1_000
    : HTTP_DATE.test(value)
      ? Date.parse(value) - now
      : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), MAX_WAIT_MS)
}

/** `Date.parse` finds a date in almost any text. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/
