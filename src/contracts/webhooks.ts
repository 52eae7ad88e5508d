import type { IncomingMessage } from '../message/index.ts'

/** A request as it came: nothing of it has been parsed, and it is not known yet who sent it. */
export interface WebhookRequest {
  readonly method: string
  readonly url: string
  readonly headers: Pick<Headers, 'get'>
  readonly body: Uint8Array
  /** The time here, in milliseconds since 1970. */
  readonly nowMs: number
}

/** Why a request is not taken. Nothing of it is kept. */
export type WebhookRefusal =
  /** A header is missing that every request of this provider has. */
  | { readonly kind: 'missing'; readonly header: string }
  /** It was not signed with one of the secrets, or not as a whole. `error`: the scheme has failed, so that nothing is known about it. */
  | { readonly kind: 'bad-signature'; readonly error?: Error }
  /** It was signed too long ago, or in the future: a copy of an old request, or one of the clocks is wrong. */
  | { readonly kind: 'bad-timestamp' }

/** What a request turned out to be. */
export type WebhookArrival =
  | WebhookRefusal
  | { readonly kind: 'message'; readonly message: IncomingMessage }
  /** The provider checks the address, and wants this text back. */
  | { readonly kind: 'challenge'; readonly text: string }

/** Where a consumer gets messages by HTTP: a provider whose requests can be verified. Made by `webhook` of `hapax/webhooks`. */
export interface Webhook {
  /** The scheme, for people and metrics: `stripe`. */
  readonly name: string
  /** For how long the provider sends an event again. Receipts have to be kept for at least as long. */
  readonly resendsForMs: number
  /** Whether messages are stored for a worker, or handled while the provider waits. Undefined: stored, where the store has an inbox. */
  readonly receive: 'store' | 'direct' | undefined
  /** Undefined: the largest message that hapax takes. */
  readonly maxBodyBytes: number | undefined
  /** Verifies a request, and makes a message of it. Never throws, whatever came. */
  accept(request: WebhookRequest): WebhookArrival
}
