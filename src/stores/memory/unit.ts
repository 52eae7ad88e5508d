import type { Opening, Unit, Writes } from '../../contracts/index.ts'
import { addFailed, addInbox, addOutbox } from './add.ts'
import type { Data } from './data.ts'
import { claim, fail, present, settle, take } from './inbox.ts'
import { type MemoryTx, openTransaction, type Transaction } from './transaction.ts'

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

/** What a transaction writes at its end. */
export function write(data: Data, { inbox = [], failed = [], outbox = [] }: Writes): void {
  for (const row of inbox) addInbox(data, row)
  for (const row of failed) addFailed(data, { ...row, origin: 'inbox', heldSeq: null })
  for (const row of outbox) addOutbox(data, row)
}
