import { fieldOf, HapaxError, type Interrupt, isHapaxError, reasonOf, redact, unstorable } from '../../../base/index.ts'
import type { ErrorClass } from '../../../contracts/index.ts'
import type { Dialect } from '../dialect/dialect.ts'
import { causesOf, doomed, NotSent } from './driver.ts'

/** How far a transaction has come. */
export type Phase = 'opening' | 'body' | 'committing'

/** What became of a transaction that was ended by force, if the database tells. Its server may be out of reach, or be replaced. */
export type Fate = 'committed' | 'aborted' | 'elsewhere' | undefined

/** Says what errors of a driver mean, by where they came up. */
export class StoreErrors {
  readonly #dialect: Dialect

  constructor(dialect: Dialect) {
    this.#dialect = dialect
  }

  /** The error of a transaction that had come so far. What a body threw is left alone. */
  ofTransaction(error: unknown, phase: Phase, signal?: Interrupt): unknown {
    if (phase === 'body') return error
    const aborted = signal?.aborted && error === signal.reason
    if (error instanceof NotSent) return this.inside(error.cause)
    if (phase === 'committing') return aborted ? commitUnknown(error) : this.#ofCommit(error)
    if (aborted || error instanceof HapaxError) return error
    const kind = this.#dialect.classify(error)
    if (kind === 'lock-timeout' || kind === 'cancelled') {
      return new HapaxError('busy', 'another transaction holds the row', { cause: error })
    }
    return kind === 'conflict' ? doomed(kind, error) : this.#unavailable(error, kind)
  }

  /** The error of a transaction that was sent as a whole, or not at all. */
  ofWhole(error: unknown, sent: boolean, signal?: Interrupt): unknown {
    const known = !sent || error instanceof NotSent || this.#dialect.answered(error)
    if (known) return this.ofTransaction(error instanceof NotSent ? error.cause : error, 'opening', signal)
    return this.ofTransaction(error, 'committing', signal)
  }

  /**
   * The error of a handler that was cut off, given the fate of its transaction, which it may have ended itself. `doubt`: whether it sent a
   * statement that can do that, if the connection observed its statements.
   */
  ofFate(error: unknown, fate: Fate, doubt: boolean | undefined): unknown {
    if (fate === 'committed') return brokenAtomicity(error)
    if (fate === 'aborted') return error
    const late = isHapaxError(error, 'handler-timeout')
    // It waited for a database that had gone.
    const lost = fate === 'elsewhere' && late
    const thrown = lost ? doomed('lost', error) : error
    return (doubt ?? (late && !lost)) ? this.inDoubt(thrown) : thrown
  }

  /** The error of a transaction whose guard could not be checked, and which the handler may have committed. */
  inDoubt(error: unknown): unknown {
    if (!(error instanceof HapaxError)) return error
    const { code, message, cause, fields } = error
    return new HapaxError(code, message, { cause, fields: { ...fields, mayHaveCommitted: true } })
  }

  /** The error of a statement, or of a short transaction, that has nothing to do with a handler. */
  ofQuery(error: unknown): unknown {
    // Nothing of a handler's was lost: to the caller, the database was away.
    if (isHapaxError(error, 'transaction-lost')) return this.#unavailable(error.cause, 'lost')
    const kind = this.#dialect.classify(error)
    if (error instanceof HapaxError) return error
    // The caller may try again.
    return kind === 'conflict' || kind === 'lock-timeout' ? doomed('conflict', error) : this.#unavailable(error, kind)
  }

  /** The error of our own statement inside a transaction of the user's. */
  inside(error: unknown): unknown {
    const kind = this.#dialect.classify(error)
    return kind === 'no-schema' || kind === 'refused' ? this.#unavailable(error, kind) : this.ofGuard(error)
  }

  /** The error of the guard: the transaction was given up, or is not there any more. */
  ofGuard(error: unknown): unknown {
    if (error instanceof HapaxError) return error
    const kind = this.#dialect.classify(error)
    if (kind === 'lost' || kind === 'conflict') return doomed(kind, error)
    if (kind === 'gone') return brokenAtomicity(error)
    if (kind !== 'aborted') return error
    return new HapaxError(
      'transaction-aborted',
      'the handler went on after an SQL error, but the database had given up the transaction: rethrow such errors, or run the statement in a savepoint',
      { cause: error },
    )
  }

  #ofCommit(error: unknown): unknown {
    if (error instanceof HapaxError) return error
    if (!this.#dialect.answered(error)) return commitUnknown(error)
    // Our own last statements waited for rows that another transaction has locked.
    if (this.#dialect.classify(error) === 'lock-timeout') return doomed('conflict', error)
    return this.inside(error)
  }

  /** The error of the link itself: an ORM wraps it into one that shows its statement. */
  #ofLink(error: unknown): unknown {
    for (const each of causesOf(error)) if (this.#dialect.classify(alone(each)) === 'lost') return each
    return error
  }

  /** What is to be said of an error that is not about the transaction. */
  #unavailable(error: unknown, kind: ErrorClass): unknown {
    if (kind === 'no-schema') return schemaMissing(error)
    if (kind === 'refused') return unstorable(error)
    if (kind !== 'lost' || error instanceof HapaxError) return error
    const what = `${this.#dialect.name} could not be reached: ${redact(reasonOf(this.#ofLink(error)))}`
    return new HapaxError('store-unavailable', what, { cause: error })
  }
}

/** An error without those that it wraps. */
function alone(error: object): object {
  return { ...error, message: fieldOf(error, 'message'), cause: undefined, parent: undefined, driverError: undefined }
}

/** The error of a database that was not migrated. */
export function schemaMissing(cause?: unknown): HapaxError {
  const what = 'the tables of hapax are missing: run hapax.migrate() or npx hapax migrate'
  return new HapaxError('schema-missing', what, { cause })
}

function commitUnknown(cause: unknown): HapaxError {
  return new HapaxError('commit-unknown', 'the connection was lost while committing', { cause })
}

/** The transaction that was opened is not there any more. */
export function brokenAtomicity(cause?: unknown): HapaxError {
  return new HapaxError(
    'broken-atomicity',
    'the handler ended its transaction itself (COMMIT, ROLLBACK, or a statement that commits implicitly, such as DDL on MySQL)',
    { cause },
  )
}
