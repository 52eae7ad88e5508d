// Queries that a handler, or a service that it calls, sends outside the handler's transaction.

import { faultFields, HapaxError, type Logger } from '../base/index.ts'

/** How such queries are treated. */
export const OUTSIDE_QUERIES = ['warn', 'error', 'ignore'] as const

/** What judging outside queries needs. */
interface OutsideQueriesOptions {
  readonly mode: (typeof OUTSIDE_QUERIES)[number]
  /** Whether the store takes its connections from this pool. */
  readonly isOnPool: (pool: object) => boolean
  readonly logger: Logger
}

/** Judges who takes a connection from the pool of the store while a handler has its transaction. */
export class OutsideQueries {
  readonly #options: OutsideQueriesOptions
  readonly #warned = new Set<string>()

  constructor(options: OutsideQueriesOptions) {
    this.#options = options
  }

  /** Code inside of a handler of this consumer takes a connection from a pool. Returns the error with which it is refused. */
  takes(consumer: string, pool: object): HapaxError | undefined {
    const { mode, isOnPool, logger } = this.#options
    if (mode === 'ignore' || (mode === 'warn' && this.#warned.has(consumer))) return undefined
    if (!isOnPool(pool)) return undefined
    if (mode === 'error') return outsideQuery(consumer)
    this.#warned.add(consumer)
    const error = outsideQuery(consumer)
    logger.warn({ consumer, ...faultFields(error) }, error.message)
    return undefined
  }
}

function outsideQuery(consumer: string): HapaxError {
  const what = `expected the handler of ${consumer}, and services that it calls, to query in its transaction`
  const why = 'writes on another connection stay when the handler fails, and happen again when it is retried'
  const remedy = 'pass ctx.tx to the service, let it join the transaction, or give it a separate pool'
  // Its stack leads to the code that took the connection.
  const cause = new Error('the connection was taken here')
  return new HapaxError('outside-query', `${what}, got another connection of its pool: ${why}; ${remedy}`, {
    cause,
    fields: { consumer },
  })
}
