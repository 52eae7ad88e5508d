import type { EffectEnd, EffectRef, Lease } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** Statements on the journal of outside calls. */
export interface JournalStatements {
  /** Locks the row of a lease, and returns its seq, and the columns of the effect as far as it is there. */
  readonly lock: Sql<[lease: Lease, effect: EffectRef]>
  /** Writes an effect as begun, once more. */
  readonly begin: Sql<[effect: EffectRef, token: string]>
  /** Writes what became of an effect. */
  readonly end: Sql<[effect: EffectRef, token: string, end: EffectEnd]>
  /** Locks an effect that is begun or unknown, and returns its token and source, id and type of its message's receipt. */
  readonly lockOpen: Sql<[effect: EffectRef, end: EffectEnd]>
  /** An effect that a person settled, and whose message waits in the inbox without a lease, even an expired one; locks that as well. */
  readonly lockSettled: Sql<[effect: EffectRef]>
  /** name, state, token, attempts, result, error, first_at, last_at; in the order in which the effects first began. */
  readonly of: Sql<[consumer: string, messageKey: string]>
  /** Deletes effects whose receipt is gone, of messages behind one key and up to another. */
  readonly forget: Sql<[consumer: string, after: string, until: string]>
}
