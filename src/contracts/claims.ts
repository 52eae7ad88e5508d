import type { ErrorRecord } from '../base/index.ts'
import type { StoredMessage } from '../message/index.ts'
import type { StoreAdmin, StoreFailed } from './admin.ts'
import type { StoredResponse } from './responses.ts'
import type { Lease, Receipt } from './rows.ts'
import type { Store, StoreInbox, StoreSubscriptions } from './store.ts'

/** The result of claiming one message. */
export type Claimed =
  /** It is ours. */
  | ({ readonly kind: 'ours'; readonly lease: Lease } & ClaimHistory)
  /** Another process has claimed it. */
  | { readonly kind: 'busy' }
  /** The store has lost part of it, such as the journal of its calls: it must not be processed. */
  | { readonly kind: 'torn' }
  /** Its next attempt is due in this time. */
  | { readonly kind: 'waiting'; readonly leftMs: number }
  /** Its owners disappeared this many times in a row. It has to be claimed alone. */
  | { readonly kind: 'suspect'; readonly crashes: number }
  /** It was processed before, or is in the failed store. */
  | { readonly kind: 'taken'; readonly receipt: Receipt }

/** What happened to a message before. */
export interface ClaimHistory {
  /** How often the handler was called and failed. */
  readonly attempts: number
  /** How many owners in a row disappeared without releasing it. */
  readonly crashes: number
}

/** A message that the store itself keeps, because a person retried it. */
export interface StoredClaim extends ClaimHistory {
  readonly lease: Lease
  readonly message: StoredMessage
}

/** How messages are claimed. */
export interface ClaimOptions {
  /** Chosen by the caller. Claiming again with the same token returns the same claims. */
  readonly token: string
  readonly leaseMs: number
}

/** How messages that have arrived are claimed. */
export interface ArrivalOptions extends ClaimOptions {
  /** Whether suspects are claimed too. */
  readonly alone: boolean
  /** Whether a message that differs from the first one of its key is `taken`, also before that one is finished. @default false */
  readonly strict?: boolean
  /** For how long `trace` finds them by their ids alone. Undefined: it goes by their sources, which are few. */
  readonly findableMs?: number
}

/** What is left of a claim that has ended. */
export interface Release {
  readonly attempts: number
  /** The crashes to keep on record, if the suspicion was not resolved. @default 0 */
  readonly crashes?: number
  /** When the next attempt is due. */
  readonly delayMs: number
  readonly error: ErrorRecord
  /** As `Rescheduled.entry`. @default it did not fail */
  readonly entry?: string
  /** When to forget it with its journal, if it is not claimed again and nobody retried it. @default never */
  readonly forgetMs?: number
}

/** A claim that has ended well. */
export interface FinishedLease extends Lease {
  /** What an HTTP request was answered with. */
  readonly response?: StoredResponse
}

/** Why a message goes to the failed store. */
export interface Failure {
  readonly message: StoredMessage
  readonly attempts: number
  readonly reason: string
  readonly error: ErrorRecord
  /** As `Rescheduled.entry`. */
  readonly entry: string
  /** How long its receipt is kept, once a person has dealt with it. */
  readonly retentionMs: number | 'forever'
}

/** Counts for status pages. */
export interface ClaimStatus {
  readonly consumers: readonly {
    readonly consumer: string
    readonly types: readonly string[]
    /** Retried by a person, and not finished. */
    readonly waiting: number
    readonly failed: number
  }[]
}

/** What differs between claim stores. */
export interface ClaimStoreFeatures {
  readonly name: string
}

/** Which process has which message: stands in for an inbox. `Lease.seq` names a claim; only the store reads it. */
export interface StoreClaims extends Pick<StoreInbox, 'renew'> {
  /**
   * Claims messages of distinct keys, with one result each. Free ones are ours until the lease ends. An unfinished claim never
   * expires, however old it is: only its lease does.
   */
  claim(consumer: string, messages: readonly StoredMessage[], options: ArrivalOptions): Promise<readonly Claimed[]>
  /** Claims messages that a person retried. `nextMs` is when the next one may be due. */
  claimStored(
    consumer: string,
    options: ClaimOptions & { readonly limit: number },
  ): Promise<{ readonly claims: readonly StoredClaim[]; readonly nextMs: number | undefined }>
  /**
   * Records them as processed, a request with its response. Receipts, responses and journals are kept for this time. Resolves with the
   * claims that were still ours and complete; a claim of which the store has lost part does not block the others.
   */
  settle(leases: readonly FinishedLease[], retentionMs: number | 'forever'): Promise<ReadonlySet<string>>
  /** Ends a claim after a failed attempt, or without one. False: the lease was lost, and nothing was written. */
  release(lease: Lease, end: Release): Promise<boolean>
  /** Writes a claimed message to the failed store, with its payload. False: the lease was lost, and nothing was written. */
  fail(consumer: string, lease: Lease, failure: Failure): Promise<boolean>
  /** Writes a message whose identity belongs to another one to the failed store. Doing it twice keeps one. */
  keep(consumer: string, failure: Failure): Promise<void>
}

/** What operators use. No rows wait here, so there is less than in other stores. */
export interface LeaseAdmin extends Pick<StoreAdmin, 'checkup' | 'trace'> {
  status(): Promise<ClaimStatus>
}

/**
 * A store for leased work alone: no transactions, no inbox, no outbox. Messages stay with their broker until they are settled or
 * in the failed store. Every method that takes a token or a lease may be called again after an answer was lost, and returns the same;
 * shared times are the store's. The parts that `Store` has as well mean the same here.
 */
export interface ClaimStore extends Pick<Store<never>, 'journal' | 'close'> {
  readonly features: ClaimStoreFeatures
  readonly claims: StoreClaims
  /** A failed message is tried again or discarded; another payload would need another id and so another claim. */
  readonly failed: Omit<StoreFailed, 'edit'>
  readonly subscriptions: Pick<StoreSubscriptions, 'add' | 'list'>
  readonly admin: LeaseAdmin
  /** Rejects unless the store can be reached. */
  ready(): Promise<void>
}
