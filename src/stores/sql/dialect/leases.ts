import type { EffectEnd, EffectRef, Lease, Statement } from '../../../contracts/index.ts'

/** The statements behind leased work. Times are the database's. */
export interface LeaseDialect {
  /**
   * Locks those of these inbox rows that are due, or have this token, and are neither held nor locked elsewhere, in the order of
   * seq, and answers them whole.
   */
  lockDue(seqs: readonly string[], token: string): Statement
  /** Gives rows a token and the next fence, due when the lease ends. */
  lease(seqs: readonly string[], token: string, leaseMs: number): Statement
  /**
   * The seq of those rows that have the token of their lease and that nobody has locked, where `renew` itself would wait for the
   * others.
   */
  renewable?(leases: readonly Lease[]): Statement
  /** Makes rows that have the token of their lease due when the prolonged lease ends; does not wait, unless `renewable` is there. */
  renew(leases: readonly Lease[], leaseMs: number): Statement
  /** The seq of those rows that have the token of their lease. */
  leased(leases: readonly Lease[]): Statement
  /** Locks the row of a lease, and answers it whole; where `claimDeletes` says so it is deleted as well. */
  settle(lease: Lease): Statement

  /** Locks the row of a lease, and answers its seq, and the columns of the effect as far as it is there. */
  lockEffect(lease: Lease, effect: EffectRef): Statement
  /** Writes an effect as begun, once more. */
  beginEffect(effect: EffectRef, token: string): Statement
  /** Writes what became of an effect. */
  endEffect(effect: EffectRef, token: string, end: EffectEnd): Statement
  /** Locks an effect that is begun or unknown, and answers its token and source, id and type of its message's receipt. */
  lockOpenEffect(effect: EffectRef, end: EffectEnd): Statement
  /** name, state, token, attempts, result, error, first_at, last_at; in the order of first_at. */
  effects(consumer: string, messageKey: string): Statement
  /** Deletes effects whose receipt is gone, of messages behind one key and up to another. */
  forget(consumer: string, after: string, until: string): Statement
}
