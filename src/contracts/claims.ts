import type { ErrorRecord } from '../base/index.ts'
import type { StoredMessage } from '../message/index.ts'
import type { StoreAdmin, StoreFailed } from './admin.ts'
import type { Lease, Receipt } from './rows.ts'
import type { Store, StoreInbox, StoreSubscriptions } from './store.ts'

/** What was found when a message was claimed. */
export type Claimed =
  /** It is ours. */
  | ({ readonly kind: 'ours'; readonly lease: Lease } & ClaimHistory)
  /** Somebody has it. */
  | { readonly kind: 'busy' }
  /** Its next attempt is not due for this time. */
  | { readonly kind: 'waiting'; readonly leftMs: number }
  /** Whoever had it was not heard of again, so often in a row: claim it alone. */
  | { readonly kind: 'suspect'; readonly crashes: number }
  /** It was processed before, or is in the failed store. */
  | { readonly kind: 'taken'; readonly receipt: Receipt }

/** What happened to a message before. */
export interface ClaimHistory {
  /** How often the handler was called and failed. */
  readonly attempts: number
  /** How often in a row whoever had it was not heard of again. */
  readonly crashes: number
}

/** A message that the store itself had, because a person wants it to be tried again. */
export interface StoredClaim extends ClaimHistory {
  readonly lease: Lease
  readonly message: StoredMessage
}

/** How messages are claimed. */
export interface ClaimOptions {
  /** Made by the caller: what is claimed again under the same token is still theirs. */
  readonly token: string
  readonly leaseMs: number
}

/** What is left of a claim that has ended. */
export interface Release {
  readonly attempts: number
  /** What it is suspected of, if nobody has found out. @default 0 */
  readonly crashes?: number
  /** When the next attempt is due. */
  readonly delayMs: number
  readonly error: ErrorRecord
}

/** Why a message goes to the failed store. */
export interface Failure {
  readonly message: StoredMessage
  readonly attempts: number
  readonly reason: string
  readonly error: ErrorRecord
  /** How long its receipt is kept, once a person has dealt with it. */
  readonly retentionMs: number | 'forever'
}

/** How much there is, for people. */
export interface ClaimStatus {
  readonly consumers: readonly {
    readonly consumer: string
    readonly types: readonly string[]
    /** Retried by a person, and not finished. */
    readonly waiting: number
    readonly failed: number
  }[]
}

/** What differs between lease stores. */
export interface ClaimStoreFeatures {
  readonly name: string
}

/** Who has which message: what stands in for an inbox where there is none. `Lease.seq` names a claim; only the store reads it. */
export interface StoreClaims extends Pick<StoreInbox, 'renew'> {
  /**
   * Claims messages of distinct keys, one answer each: those that are free are ours until the lease ends. A claim that is not
   * finished stays, however old it is: only its lease ends. `alone` claims suspects too.
   */
  claim(
    consumer: string,
    messages: readonly StoredMessage[],
    options: ClaimOptions & { readonly alone: boolean },
  ): Promise<readonly Claimed[]>
  /** Claims messages that a person wants to be tried again; and in how many milliseconds the next one may be there. */
  claimStored(
    consumer: string,
    options: ClaimOptions & { readonly limit: number },
  ): Promise<{ readonly claims: readonly StoredClaim[]; readonly nextMs: number | undefined }>
  /** They are processed: receipts, and their journals, are kept for this time. Returns the claims that were still theirs. */
  settle(leases: readonly Lease[], retentionMs: number | 'forever'): Promise<ReadonlySet<string>>
  /** Ends a claim after an attempt that failed, or none. False: the lease was lost, and nothing was written. */
  release(lease: Lease, end: Release): Promise<boolean>
  /** Writes a claimed message to the failed store, with its payload. False: the lease was lost, and nothing was written. */
  fail(consumer: string, lease: Lease, failure: Failure): Promise<boolean>
  /** Writes a message to the failed store whose identity belongs to another one. The same one twice is one. */
  keep(consumer: string, failure: Failure): Promise<void>
}

/** What people look at: no rows wait here, so there is less to tell than of other stores. */
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
