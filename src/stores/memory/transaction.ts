import { describe, expected, transactionClosed } from '../../base/index.ts'
import { notInTransaction } from '../sql/index.ts'
import type { Tables } from './tables.ts'

/** A transaction in memory, with tables of your own. It is dead once it has settled. */
export interface MemoryTx {
  /** Adds a row to a table of yours; it is there for others once the transaction has committed. */
  insert(table: string, row: object): void
  /** The rows of a table, with those that this transaction added. */
  rows(table: string): readonly object[]
}

/** One transaction; it only adds to what the tables log. */
export class Transaction implements MemoryTx {
  readonly tables: Tables
  closed = false

  constructor(tables: Tables) {
    this.tables = tables
  }

  insert(table: string, row: object): void {
    if (this.closed) throw transactionClosed()
    if (table.startsWith('hapax_')) expected('table', 'one of your own', table)
    this.tables.table(table).set(crypto.randomUUID(), { ...row })
  }

  rows(table: string): readonly object[] {
    if (this.closed) throw transactionClosed()
    return this.tables.table(table).all()
  }
}

/** Throws unless this is an open transaction on these tables. */
export function openTransaction(tx: MemoryTx, tables: Tables): void {
  if (!(tx instanceof Transaction)) throw notInTransaction(describe(tx))
  if (tx.tables !== tables) throw notInTransaction('a transaction of another store')
  if (tx.closed) throw transactionClosed()
}

/** Runs `work`; an abort does not wait for it. */
export function unlessAborted<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  if (signal === undefined) return work()
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason)
    if (signal.aborted) return abort()
    signal.addEventListener('abort', abort, { once: true })
    work()
      .finally(() => signal.removeEventListener('abort', abort))
      .then(resolve, reject)
  })
}
