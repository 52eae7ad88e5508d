import type { OutgoingMessage } from '../message/index.ts'
import type { Audit } from './admin.ts'

/** What deliveries to an endpoint are signed with. */
export interface EndpointSecret {
  /** As the receiver knows it, with its prefix: `whsec_…`. */
  readonly secret: string
  /** After a rotation: until when deliveries are signed with this one as well. Null: it is the current one. */
  readonly until: Date | null
}

/** An address that outgoing webhooks are delivered to. */
export interface Endpoint {
  readonly id: string
  readonly relay: string
  readonly url: string
  /** The types that it wants; a trailing `.*` stands for all that begin so. */
  readonly types: readonly string[] | 'all'
  readonly secrets: readonly EndpointSecret[]
  readonly enabled: boolean
  /** Why it is disabled: in the words of the person who did it, or `gone` if the receiver said so. */
  readonly reason: string | null
  /** For people. */
  readonly note: string | null
  readonly createdAt: Date
  readonly changedAt: Date
}

/** What can be changed of an endpoint. */
export interface EndpointChange {
  readonly url?: string
  readonly types?: readonly string[] | 'all'
  readonly secrets?: readonly EndpointSecret[]
  readonly enabled?: boolean
  readonly reason?: string | null
  readonly note?: string | null
}

/** The endpoints of outgoing webhooks. There are few: hundreds, not millions. */
export interface StoreEndpoints {
  /** False: the id is taken. */
  add(endpoint: Omit<Endpoint, 'createdAt' | 'changedAt'>, audit: Audit): Promise<boolean>
  /** Those of one relay, or all of them, by relay and id. */
  list(relay?: string): Promise<readonly Endpoint[]>
  /** All of them, without their secrets: for those who may look, and not sign. */
  look(): Promise<readonly Omit<Endpoint, 'secrets'>[]>
  /** False: there is no such endpoint. */
  change(id: string, change: EndpointChange, audit: Audit): Promise<boolean>
  /** Forgets an endpoint; what waits for it stays. False: there is no such endpoint. */
  remove(id: string, audit: Audit): Promise<boolean>
}

/** What became of one delivery to an endpoint. */
export type Delivered =
  /** It answered with 2xx. */
  | { readonly status: 'delivered'; readonly code: number; readonly answer: string }
  /** It answered with 410: it does not want any more. */
  | { readonly status: 'gone'; readonly answer: string }
  /** Another attempt may succeed. `retryAfterMs`: the receiver asked for so much time. */
  | {
      readonly status: 'failed'
      readonly error: Error
      readonly code: number | undefined
      readonly answer: string
      readonly retryAfterMs: number | undefined
    }
  /** It can never be delivered there: the address is forbidden, for example. */
  | { readonly status: 'refused'; readonly error: Error }

/** How deliveries are paced. */
export interface DeliverySettings {
  /** The pauses after the first, the second, … failed attempt; after the last of them the message has failed. */
  readonly scheduleMs: readonly number[]
  /** How many deliveries run at once in a process, and how many of them to the same endpoint. */
  readonly concurrency: number
  readonly perEndpoint: number
  /** After so many failures in a row an endpoint is left alone for a while; then one delivery tries again. */
  readonly breaker: { readonly failures: number; readonly pauseMs: number }
  /** How long one delivery may take. */
  readonly timeoutMs: number
}

/** A destination of a relay whose messages go to registered endpoints: `webhooks({ … })`. */
export interface EndpointDestination {
  readonly kind: 'endpoints'
  /** For people, and recorded with the relay. */
  readonly name: string
  readonly settings: DeliverySettings
  /** Why an address cannot be registered; undefined: it can. Resolves its name, but connects to nothing. Never throws. */
  check(url: string): Promise<string | undefined>
  /** A fresh secret for a new endpoint or a rotation. */
  secret(): string
  /** Signs the message and sends it. Never throws; aborted: `failed`. */
  deliver(endpoint: Endpoint, message: OutgoingMessage, signal: AbortSignal): Promise<Delivered>
  prepare(): Promise<void>
  close(): Promise<void>
}
