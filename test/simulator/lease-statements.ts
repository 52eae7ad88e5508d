import type { Audit, EffectEnd, EffectRef, Lease } from 'hapax/contracts'
import { laneOfKey } from '../../src/message/lanes.ts'
import { maySettle } from '../../src/stores/memory/leases.ts'

import {
  type Database,
  type DbTransaction,
  type JournalRow,
  journalKey,
  receiptKey,
  rowName,
  type WaitingRow,
} from './database.ts'
import { bySeqText, hasOlder, locked } from './rows.ts'

/** The statements behind leased work. */
export const leaseStatements = {
  /** Locks rows that are due, or have this token, and are neither held nor locked nor behind their key. */
  lockDue(db: Database, tx: DbTransaction, seqs: readonly string[], token: string): WaitingRow[] {
    const found: WaitingRow[] = []
    for (const seq of bySeqText(seqs)) {
      const row = db.get(tx, 'inbox', seq)
      if (row === undefined || row.heldAt !== null || db.isLocked(tx, 'inbox', seq)) continue
      if (row.availableAt > db.world.now && row.leaseToken !== token) continue
      db.lock(tx, 'inbox', seq)
      found.push(row)
    }
    return found.filter((row) => !hasOlder(db, tx, row, found))
  },

  /** Gives locked rows a token and the next fence. */
  lease(db: Database, tx: DbTransaction, rows: readonly WaitingRow[], token: string, leaseMs: number): WaitingRow[] {
    const availableAt = db.world.now + leaseMs
    return rows.map((row) => {
      const leased = { ...row, leaseToken: token, fence: row.fence + 1, availableAt }
      db.write(tx, 'inbox', rowName(row.seq), leased)
      return leased
    })
  },

  /** Prolongs leases. Rows of others are not even waited for. */
  renew(db: Database, tx: DbTransaction, leases: readonly Lease[], leaseMs: number): void {
    for (const { seq, token } of leases) {
      if (!hasToken(db.get(tx, 'inbox', seq), token)) continue
      const row = locked(db, tx, 'inbox', seq)
      if (hasToken(row, token)) db.write(tx, 'inbox', seq, { ...row, availableAt: db.world.now + leaseMs })
    }
  },

  /** Ends a lease as if there had been none. */
  releaseLease(db: Database, tx: DbTransaction, { seq, token }: Lease, delayMs: number): boolean {
    if (!hasToken(db.get(tx, 'inbox', seq), token)) return false
    const row = locked(db, tx, 'inbox', seq)
    if (!hasToken(row, token)) return false
    db.write(tx, 'inbox', seq, { ...row, leaseToken: null, availableAt: db.world.now + delayMs })
    return true
  },

  /** Makes unordered rows with a key ordered, except locked ones. */
  addOrder(db: Database, tx: DbTransaction, consumer: string): number {
    let added = 0
    for (const { seq, ordered, message, ...row } of db.committed('inbox').values()) {
      if (row.consumer !== consumer || ordered || message.key === null) continue
      if (!db.isLocked(tx, 'inbox', rowName(seq)) && this.addKey(db, tx, rowName(seq), message.key)) added += 1
    }
    return added
  },

  /** Gives a row without order a key. */
  addKey(db: Database, tx: DbTransaction, seq: string, key: string): boolean {
    const row = locked(db, tx, 'inbox', seq)
    if (row === undefined || row.ordered) return false
    db.write(tx, 'inbox', seq, { ...row, message: { ...row.message, key }, ordered: true, lane: laneOfKey(key) })
    return true
  },

  /** The seqs of leases that are held. */
  leased(db: Database, tx: DbTransaction, leases: readonly Lease[]): Set<string> {
    const held = leases.filter(({ seq, token }) => hasToken(db.get(tx, 'inbox', seq), token))
    return new Set(held.map(({ seq }) => seq))
  },

  /** Deletes the row of a lease; it is locked already if it is there. */
  settle(db: Database, tx: DbTransaction, lease: Lease): WaitingRow | undefined {
    const row = db.get(tx, 'inbox', lease.seq)
    if (!isHeld(row, lease)) return undefined
    db.write(tx, 'inbox', lease.seq, undefined)
    return row
  },

  /** Locks the row of a lease; undefined: it is lost. */
  lockLease(db: Database, tx: DbTransaction, lease: Lease): WaitingRow | undefined {
    if (!isHeld(db.get(tx, 'inbox', lease.seq), lease)) return undefined
    const row = locked(db, tx, 'inbox', lease.seq)
    return isHeld(row, lease) ? row : undefined
  },

  beginEffect(db: Database, tx: DbTransaction, effect: EffectRef, token: string): void {
    const { now } = db.world
    const before = db.get(tx, 'journal', journalKey(effect))
    const { attempts = 0, firstAt = now, result = null, error = null } = before ?? {}
    const begun = { state: 'started', token, attempts: attempts + 1, result, error, firstAt, lastAt: now } as const
    db.write(tx, 'journal', journalKey(effect), { ...effect, ...begun })
  },

  endEffect(db: Database, tx: DbTransaction, effect: EffectRef, token: string, end: EffectEnd): void {
    const { now } = db.world
    const { attempts = 1, firstAt = now } = db.get(tx, 'journal', journalKey(effect)) ?? {}
    db.write(tx, 'journal', journalKey(effect), { ...effect, ...end, token, attempts, firstAt, lastAt: now })
  },

  /** What a person knows of an effect of a message that has failed. */
  settleEffect(db: Database, tx: DbTransaction, effect: EffectRef, end: EffectEnd, audit: Audit): boolean {
    const key = journalKey(effect)
    if (db.get(tx, 'journal', key) === undefined && !db.isLocked(tx, 'journal', key)) return false
    db.lock(tx, 'journal', key)
    const row = db.get(tx, 'journal', key)
    const receipt = db.get(tx, 'receipts', receiptKey(effect.consumer, effect.messageKey))
    if (row === undefined || receipt === undefined) return false
    if (!maySettle(row, end)) return false
    const failed = db.rows(tx, 'failed').find(({ origin, consumer, message, replacedBy }) => {
      const its = consumer === effect.consumer && message.messageKey === effect.messageKey
      return its && origin === 'inbox' && replacedBy === null
    })
    if (failed === undefined || locked(db, tx, 'failed', rowName(failed.seq)) === undefined) return false
    leaseStatements.endEffect(db, tx, effect, row.token, end)
    const { consumer, messageKey, source, id, type } = receipt
    const { action, actor, note = null } = audit
    const seq = db.nextSeq()
    const about = { consumer, messageKey, source, id, type }
    db.insert(tx, 'audit', rowName(seq), { seq, action, actor, ...about, at: db.world.now, note })
    return true
  },

  /** The journal of a message, in the order in which its effects were begun. */
  effects(db: Database, consumer: string, messageKey: string): JournalRow[] {
    const rows = [...db.committed('journal').values()]
    return rows
      .filter((row) => row.consumer === consumer && row.messageKey === messageKey)
      .sort((a, b) => a.firstAt - b.firstAt || (a.name < b.name ? -1 : 1))
  },
}

/** Deletes the journal of messages whose receipts are gone. */
export function forget(db: Database, tx: DbTransaction, consumer: string): void {
  if (db.committed('journal').size === 0) return
  for (const row of db.rows(tx, 'journal')) {
    const finished = db.get(tx, 'receipts', receiptKey(consumer, row.messageKey)) === undefined
    if (row.consumer === consumer && finished) db.write(tx, 'journal', journalKey(row), undefined)
  }
}

function hasToken(row: WaitingRow | undefined, token: string): row is WaitingRow {
  return row?.leaseToken === token && row.heldAt === null
}

function isHeld(row: WaitingRow | undefined, { token, fence }: Lease): row is WaitingRow {
  return hasToken(row, token) && row.fence === fence
}
