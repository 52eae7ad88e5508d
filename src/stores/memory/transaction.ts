import { describe, expected, transactionClosed } from '../../base/index.ts'
import type { LocalResult, LocalRow, Opening, Unit, Writes } from '../../contracts/index.ts'
import { remember } from '../../message/index.ts'
import { notInTransaction } from '../sql/index.ts'
import { addFailed, addInbox, addOutbox } from './add.ts'
import type { Data, Tables } from './data.ts'
import { claim, deliver, fail, present, settle, take } from './inbox.ts'
import { addResponse } from './responses.ts'
import { NEVER_FAILED } from './rows.ts'

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

/** What a transaction begins with: receipts, or rows of the inbox. */
export function open(data: Data, tx: Transaction, opening: Opening): Unit<MemoryTx> {
  const check = async (): Promise<void> => openTransaction(tx, data.tables)
  const mostBytes = (): number => Number.POSITIVE_INFINITY
  const unit = { tx, check, mostBytes, existing: new Map(), present: new Set<string>(), claimed: new Map() }
  if (opening.kind === 'take') return { ...unit, existing: take(data, opening) }
  if (opening.kind === 'plain') return unit
  if (opening.kind === 'fail') {
    return { ...unit, present: new Set(fail(data, opening.row) ? [opening.row.seq] : []) }
  }
  if (opening.kind === 'settle') {
    const { seq } = opening.lease
    const there = new Set(data.inbox.get(seq) === undefined ? [] : [seq])
    return { ...unit, present: there, claimed: settle(data, opening) }
  }
  return { ...unit, present: present(data, opening), claimed: claim(data, opening) }
}

/** What a transaction writes at its end. Returns what became of its local messages. */
export function write(data: Data, writes: Writes): readonly LocalResult[] {
  const { inbox = [], failed = [], outbox = [], local, response } = writes
  for (const row of inbox) addInbox(data, row)
  for (const row of failed) {
    const past = remember(NEVER_FAILED, data.clock.now(), row.attempts, row.entry)
    addFailed(data, { ...row, ...past, origin: 'inbox', heldSeq: null })
  }
  for (const row of outbox) addOutbox(data, row)
  if (response !== undefined) addResponse(data, response)
  return deliverAll(data, local?.rows ?? [])
}

/** Receipts and inbox rows for all consumers of each message. */
export function deliverAll(data: Data, rows: readonly LocalRow[]): readonly LocalResult[] {
  const token = crypto.randomUUID()
  return rows.map((row) => deliver(data, row, token))
}
