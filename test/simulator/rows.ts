import type { Audit, StoredMessage } from 'hapax/contracts'
import { compareSeq } from '../../src/message/lanes.ts'
import { type Database, type DbTransaction, rowName, type WaitingRow } from './database.ts'

/** Seqs in the order in which rows are locked. */
export function bySeqText(seqs: readonly string[]): string[] {
  return [...seqs].sort(compareSeq)
}

/** A row after its lock was got; undefined: it is gone. */
export function locked<Name extends 'inbox' | 'outbox' | 'failed' | 'workers'>(
  db: Database,
  tx: DbTransaction,
  table: Name,
  key: string,
) {
  if (db.get(tx, table, key) === undefined && !db.isLocked(tx, table, key)) return undefined
  db.lock(tx, table, key)
  return db.get(tx, table, key)
}

/** Whether an older row of its key is there that is not one of these. */
export function hasOlder(db: Database, tx: DbTransaction, row: WaitingRow, mine: readonly WaitingRow[]): boolean {
  if (!row.ordered) return false
  for (const older of db.committed('inbox').values()) {
    const before = older.seq < row.seq && older.ordered && older.consumer === row.consumer
    if (!before || older.message.key !== row.message.key || mine.includes(older)) continue
    if (db.get(tx, 'inbox', rowName(older.seq)) !== undefined) return true
  }
  return false
}

/** Writes down what somebody did by hand. */
export function writeAudit(
  db: Database,
  tx: DbTransaction,
  audit: Audit,
  consumer: string,
  message: StoredMessage,
): void {
  const seq = db.nextSeq()
  const { messageKey, source, id, type } = message
  const { action, actor, note = null } = audit
  db.insert(tx, 'audit', rowName(seq), {
    seq,
    action,
    actor,
    consumer,
    messageKey,
    source,
    id,
    type,
    at: db.world.now,
    note,
  })
}
