import type { Isolation } from '../../../base/index.ts'
import type {
  Deliveries,
  FinalFailure,
  Lease,
  Rescheduled,
  Result,
  RetryRow,
  Statement,
} from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import type { Sql } from './statement.ts'

/** Statements on receipts. */
export interface ReceiptStatements {
  /** Writes receipts where there are none, in the order of their keys. */
  take(consumer: string, token: string, messages: readonly StoredMessage[], lockTimeoutMs: number): readonly Statement[]
  /** The keys of the receipts that `take` wrote, from its answers. */
  taken(answers: readonly Result[], token: string, messages: readonly StoredMessage[]): ReadonlySet<string> | 'all'
  /** message_key, token, source, id, type, fingerprint, taken_at of the receipts that are there. */
  readonly read: Sql<[consumer: string, keys: readonly string[]]>
  /** One receipt, for a message that an edit made. Fails if it is there. */
  readonly insert: Sql<[consumer: string, token: string, message: StoredMessage]>
}

/** A statement that stores deliveries. */
interface StoreStatement {
  readonly statement: Statement
  seqs(answer: Result | undefined): ReadonlyMap<string, string>
}

/** Statements on the inbox. */
export interface InboxStatements {
  /**
   * Locks inbox rows that are neither held nor locked elsewhere, in the order of seq, and returns whole rows. With
   * `claimDeletes` it also leaves out those that have older rows of their key outside these, and deletes the rest.
   *
   * A whole row is seq, consumer, the message, ordered, attempts, lost, starts, crashes, lease_token, fence, followed. In fewer columns:
   * `identity` is the message key and the fingerprint, as one text; `state` the others with commas, in the order ordered, attempts,
   * lost, starts, crashes, fence, followed, lease_token, or null if all of them are false, zero or null. If asked for, `age_ms` says how
   * long ago it was due first, or null if it is not of local delivery.
   */
  readonly claim: Sql<[seqs: readonly string[], isolation?: Isolation, aged?: boolean]>
  /** Whether `claim` does it all; else `blocked` and `delete` follow. */
  readonly claimDeletes: boolean
  /** Locks inbox rows in the order of seq, waits for those that are locked elsewhere, and returns seq. */
  readonly lockAll: Sql<[seqs: readonly string[], lockTimeoutMs: number, isolation?: Isolation]>
  /** The seq of those of these rows that have an older row of their key outside these. A plain read. */
  readonly blocked: Sql<[seqs: readonly string[]]>
  delete(seqs: readonly string[]): readonly Statement[]
  insert(rows: readonly RetryRow[]): readonly Statement[]
  /**
   * Receipts where there are none, in the order of their keys, and inbox rows of those that are new, in the order of the messages; and how
   * to read the seqs of these, by message key. Undefined: the database needs several statements for it.
   */
  store(deliveries: Deliveries): StoreStatement | undefined
  /** Makes a row due later, if it has this lease, or none; it has none afterwards. Made again, it adds nothing to the history. */
  readonly reschedule: Sql<[row: Rescheduled]>
  /** Locks one inbox row, if it has this lease, or none, and returns its seq. */
  readonly lock: Sql<[seq: string, leaseToken: string | null]>
  /** Marks an inbox row as held, and ends its lease. */
  readonly hold: Sql<[row: Pick<FinalFailure, 'seq' | 'attempts' | 'error' | 'entry'>]>
  /** seq and key of the unordered rows of a consumer that have a key. A plain read, without locks. */
  readonly loose: Sql<[consumer: string, limit: number]>
  /** Makes unordered rows ordered, in this lane, under this key, or, if null, under the key that they have. */
  readonly addOrder: Sql<[seqs: readonly string[], lane: number, key: string | null]>
  /** seq of the row of a message. */
  readonly find: Sql<[consumer: string, messageKey: string]>
}

/** Statements on leases of inbox rows. Times are the database's. */
export interface LeaseStatements {
  /**
   * Locks those of these inbox rows that are due, or have this token, and are neither held nor locked elsewhere, in the order of
   * seq, and returns whole rows with `age_ms`.
   */
  readonly lockDue: Sql<[seqs: readonly string[], token: string]>
  /** Gives rows a token and the next fence, due when the lease ends. */
  readonly lease: Sql<[seqs: readonly string[], token: string, leaseMs: number]>
  /**
   * The seq of those rows that have the token of their lease and are not locked elsewhere. Only where `renew` itself would wait
   * for the others.
   */
  readonly renewable?: Sql<[leases: readonly Lease[]]>
  /** Makes rows that have the token of their lease due when the prolonged lease ends; does not wait, unless `renewable` is there. */
  readonly renew: Sql<[leases: readonly Lease[], leaseMs: number]>
  /** Makes the row of a lease due later; it has no lease afterwards. */
  readonly release: Sql<[lease: Lease, delayMs: number]>
  /** The seq of those rows that have the token of their lease. */
  readonly leased: Sql<[leases: readonly Lease[]]>
  /** Locks the row of a lease, and returns the whole row; where `claimDeletes` says so it is deleted as well. */
  readonly settle: Sql<[lease: Lease]>
}
