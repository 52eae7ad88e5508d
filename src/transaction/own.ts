// Transactions of the application, begun by hapax.

import { expected, type Isolation, isolationOption, noOthers, positiveInteger } from '../base/index.ts'
import type { Engine } from './attempt.ts'
import { unit } from './unit.ts'

/** Options of `hapax.transaction`. */
export interface TransactionOptions {
  /** @default what the database is set to */
  readonly isolation?: Isolation
  /** How long the transaction may be idle before the database ends it. @default 60_000 */
  readonly idleTimeoutMs?: number
  /**
   * How long the work may take; then its connection is destroyed, and the call rejects with `handler-timeout`. It bounds what a
   * statement waits for that a database which has disappeared silently never answers. @default 300_000
   */
  readonly timeoutMs?: number
}

/** Runs `work` in a transaction; what it publishes is written last and commits with it. */
export async function transact<Tx, T>(
  engine: Engine<Tx>,
  work: (tx: Tx) => Promise<T>,
  options: TransactionOptions,
): Promise<T> {
  noOthers('options of transaction', options, ['isolation', 'idleTimeoutMs', 'timeoutMs'])
  const idleTimeoutMs = positiveInteger('idleTimeoutMs', options.idleTimeoutMs, 60_000)
  const timeoutMs = positiveInteger('timeoutMs', options.timeoutMs, 300_000)
  const isolation = isolationOption(options.isolation)
  if (typeof work !== 'function') expected('work', 'a function', work)
  const unitOptions = { isolation, idleTimeoutMs, timeoutMs, lockTimeoutMs: QUEUE_MS }
  const { outages, publisher } = engine
  const { noticed } = outages
  let committed = (): void => {}
  const running = unit(engine, unitOptions, { kind: 'plain' }, async (opened) => {
    const buffer = publisher.open(opened)
    committed = () => buffer.committed()
    try {
      const result = await buffer.around(undefined, work, opened.tx)
      return { value: result, writes: await buffer.flush(opened) }
    } finally {
      buffer.close()
    }
  })
  try {
    const value = await running
    committed()
    outages.over(noticed)
    return value
  } catch (error) {
    outages.failed(error)
    throw error
  }
}

/** How long a transaction of the user's waits for its turn where a database has one writer. */
const QUEUE_MS = 30_000
