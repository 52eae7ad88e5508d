import type { WebhookRefusal, WebhookRequest } from '../../../contracts/index.ts'
import type { Content } from './content.ts'

/** A request that its provider has signed. */
export interface Verified {
  readonly kind: 'verified'
  /** The same for every copy of an event. Undefined: `missingId` of the consumer decides. */
  readonly id: string | undefined
  readonly type: string | undefined
  /** @default the name of the scheme */
  readonly source?: string
  /** When the event happened, RFC 3339. */
  readonly time?: string | undefined
  /** Headers that a handler may want, by their lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  /** The provider says that it has sent this event before. Never a reason to drop it: the first copy may have failed. */
  readonly redelivered?: boolean
  /** What the handler gets. @default the body, read as its content type says */
  readonly content?: Content
  /** The provider checks the address, and wants this text back. */
  readonly challenge?: string
}

/** What a scheme says about a request. */
export type Verdict = Verified | WebhookRefusal

/** How a provider signs its requests, and where it puts the id and the type of an event. */
export interface Scheme {
  readonly name: string
  /** For how long the provider sends an event again. */
  readonly resendsForMs: number
  /** Verifies first and reads the body afterwards. Never throws. */
  verify(request: WebhookRequest): Verdict
}

export const BAD_SIGNATURE: WebhookRefusal = Object.freeze({ kind: 'bad-signature' })
export const BAD_TIMESTAMP: WebhookRefusal = Object.freeze({ kind: 'bad-timestamp' })

export function missing(header: string): WebhookRefusal {
  return { kind: 'missing', header }
}

const MINUTE_MS = 60_000
export const HOUR_MS: number = 60 * MINUTE_MS
export const DAY_MS: number = 24 * HOUR_MS
/** How far the time of a signature may be from the time here, in both directions. */
export const TOLERANCE_MS: number = 5 * MINUTE_MS
