import type { EffectState, ErrorRecord, Origin, StoredMessage } from 'hapax/contracts'
import type { Remembered } from '../../src/message/history.ts'
import { seqOf } from '../../src/message/lanes.ts'
import type { Process, World } from './world.ts'

/** What names a row: its number, and a mark that no other number has. */
export function rowName(seq: number): string {
  return seqOf(seq, (seq * 48_271) % 2_147_483_647)
}

/** A row of `receipts`. */
export interface ReceiptRow {
  readonly consumer: string
  readonly token: string
  readonly messageKey: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly fingerprint: string
  readonly takenAt: number
}

/** A row of `inbox`. */
export interface WaitingRow extends Remembered {
  readonly seq: number
  readonly consumer: string
  readonly message: StoredMessage
  readonly ordered: boolean
  readonly lane: number
  readonly attempts: number
  readonly lost: number
  readonly starts: number
  readonly crashes: number
  readonly leaseToken: string | null
  readonly fence: number
  readonly availableAt: number
  readonly firstDueAt: number | null
  readonly heldAt: number | null
  readonly error: ErrorRecord | null
  /** The number of its failed row before a retry. */
  readonly failedSeq: number | null
}

/** A row of `outbox`. */
export interface LeavingRow extends Remembered {
  readonly seq: number
  readonly relay: string
  readonly message: StoredMessage
  readonly lane: number
  readonly attempts: number
  readonly availableAt: number
  readonly createdAt: number
  readonly heldAt: number | null
  readonly error: ErrorRecord | null
  /** The number of its failed row before a retry. */
  readonly failedSeq: number | null
}

/** A row of `failed`. */
export interface FailedRecord extends Remembered {
  readonly seq: number
  readonly origin: Origin
  readonly consumer: string
  readonly message: StoredMessage
  readonly ordered: boolean
  readonly attempts: number
  readonly reason: string
  readonly error: ErrorRecord
  readonly failedAt: number
  readonly heldSeq: number | null
  readonly replacedBy: string | null
}

/** A row of `sent`. */
interface SentRow {
  readonly seq: number
  readonly relay: string
  readonly message: StoredMessage
  readonly sentAt: number
}

/** A row of `workers`. */
interface WorkerRecord {
  readonly id: string
  readonly name: string
  readonly serves: string
  readonly ttlMs: number
  readonly startedAt: number
  readonly seenAt: number
  readonly inHand: readonly string[]
  readonly alone: boolean
}

/** A row of `audit`. */
export interface AuditRow {
  readonly seq: number
  readonly action: string
  readonly actor: string
  readonly consumer: string
  readonly messageKey: string
  readonly source: string
  readonly id: string
  readonly type: string
  readonly at: number
  readonly note: string | null
}

/** What a handler wrote: a business row without any key, so that doubles show. */
export interface Effect {
  readonly seq: number
  readonly consumer: string
  readonly source: string
  readonly id: string
  readonly key: string | null
}

/** A row of the journal of outside calls. */
export interface JournalRow {
  readonly consumer: string
  readonly messageKey: string
  readonly name: string
  readonly state: EffectState
  readonly token: string
  readonly attempts: number
  readonly result: string | null
  readonly error: ErrorRecord | null
  readonly firstAt: number
  readonly lastAt: number
}

/** The tables by name. */
export interface Tables {
  receipts: ReceiptRow
  inbox: WaitingRow
  outbox: LeavingRow
  failed: FailedRecord
  sent: SentRow
  workers: WorkerRecord
  relays: { name: string; destination: string }
  subscriptions: { consumer: string; type: string; ordered: boolean }
  audit: AuditRow
  effects: Effect
  journal: JournalRow
}

/** The name of a table. */
export type TableName = keyof Tables

/** One row that a transaction wrote or deleted. */
export interface Change {
  readonly table: TableName
  readonly key: string
  readonly before: object | undefined
  readonly after: object | undefined
  /** When it was written; the same scale as `Commit.at`. */
  readonly writtenAt: number
}

/** A transaction that committed. */
export interface Commit {
  readonly at: number
  /** The time of the database. */
  readonly now: number
  readonly tx: number
  readonly process: string
  readonly changes: readonly Change[]
}

interface Written {
  readonly row: object | undefined
  readonly at: number
}

/** Thrown inside a statement: it has to wait for another transaction. */
export class Blocked {
  readonly holder: DbTransaction

  constructor(holder: DbTransaction) {
    this.holder = holder
  }
}

/** One transaction of the database. */
export class DbTransaction {
  readonly id: number
  readonly owner: Process
  /** `aborted`: a statement failed, and only a rollback is left. */
  state: 'open' | 'aborted' | 'ended' = 'open'
  committed = false
  readonly changes = new Map<string, Written>()
  readonly locks: string[] = []
  readonly waiters: (() => void)[] = []
  waitsFor: DbTransaction | undefined

  constructor(id: number, owner: Process) {
    this.id = id
    this.owner = owner
  }
}

/**
 * A database in memory with parallel writers: transactions, row locks, read committed. A statement is one call of a
 * function and sees what is committed at that moment, and its own transaction's writes.
 */
export class Database {
  readonly world: World
  readonly locksDuplicates: boolean
  /** Whether one can ask what became of a transaction that was ended by force. */
  readonly knowsFate: boolean
  /** The messages of handlers that were cut off, where nobody could tell what became of their transactions. */
  readonly cutOff = new Set<string>()
  readonly log: Commit[] = []
  readonly open = new Set<DbTransaction>()
  readonly #tables: { readonly [Name in TableName]: Map<string, Tables[Name]> } = {
    receipts: new Map(),
    inbox: new Map(),
    outbox: new Map(),
    failed: new Map(),
    sent: new Map(),
    workers: new Map(),
    relays: new Map(),
    subscriptions: new Map(),
    audit: new Map(),
    effects: new Map(),
    journal: new Map(),
  }
  readonly #locks = new Map<string, DbTransaction>()
  #lastTx = 0
  #lastSeq = 0
  #moment = 0

  /**
   * `locksDuplicates`: whoever finds a receipt that is there locks it, as MariaDB and MySQL do. They do not tell either what
   * became of a transaction, as PostgreSQL does.
   */
  constructor(world: World, { locksDuplicates = false }: { readonly locksDuplicates?: boolean } = {}) {
    this.world = world
    this.locksDuplicates = locksDuplicates
    this.knowsFate = !locksDuplicates
  }

  /** The committed rows. */
  committed<Name extends TableName>(table: Name): ReadonlyMap<string, Tables[Name]> {
    return this.#tables[table]
  }

  /** A point in the order of all writes, commits and events. */
  moment(): number {
    this.#moment += 1
    return this.#moment
  }

  nextSeq(): number {
    this.#lastSeq += 1
    return this.#lastSeq
  }

  begin(owner: Process): DbTransaction {
    this.#lastTx += 1
    const tx = new DbTransaction(this.#lastTx, owner)
    this.open.add(tx)
    return tx
  }

  get<Name extends TableName>(tx: DbTransaction, table: Name, key: string): Tables[Name] | undefined {
    const written = tx.changes.size === 0 ? undefined : tx.changes.get(`${table}/${key}`)
    return written === undefined ? this.#tables[table].get(key) : (written.row as Tables[Name] | undefined)
  }

  /** The rows that a transaction sees. */
  rows<Name extends TableName>(tx: DbTransaction, table: Name): Tables[Name][] {
    const prefix = `${table}/`
    const rows: Tables[Name][] = []
    for (const [key, row] of this.#tables[table]) if (!tx.changes.has(prefix + key)) rows.push(row)
    for (const [key, { row }] of tx.changes) {
      if (row !== undefined && key.startsWith(prefix)) rows.push(row as Tables[Name])
    }
    return rows
  }

  /** Locks a row, or throws `Blocked`. */
  lock(tx: DbTransaction, table: TableName, key: string): void {
    const name = `${table}/${key}`
    const holder = this.#locks.get(name)
    if (holder === tx) return
    if (holder !== undefined) throw new Blocked(holder)
    this.#locks.set(name, tx)
    tx.locks.push(name)
  }

  isLocked(tx: DbTransaction, table: TableName, key: string): boolean {
    const holder = this.#locks.get(`${table}/${key}`)
    return holder !== undefined && holder !== tx
  }

  /** Writes a row, or deletes it; locked first. */
  write<Name extends TableName>(tx: DbTransaction, table: Name, key: string, row: Tables[Name] | undefined): void {
    this.lock(tx, table, key)
    tx.changes.set(`${table}/${key}`, { row, at: this.moment() })
  }

  /** Writes a row that nobody else can know yet. */
  insert<Name extends TableName>(tx: DbTransaction, table: Name, key: string, row: Tables[Name]): void {
    tx.changes.set(`${table}/${key}`, { row, at: this.moment() })
  }

  commit(tx: DbTransaction): void {
    if (tx.state !== 'open') throw new Error(`expected transaction ${tx.id} to be open, got ${tx.state}`)
    if (tx.changes.size > 0) {
      const changes: Change[] = []
      for (const [name, { row, at }] of tx.changes) changes.push(this.#apply(name, row, at))
      this.log.push({ at: this.moment(), now: this.world.now, tx: tx.id, process: tx.owner.name, changes })
    }
    tx.committed = true
    this.#end(tx)
  }

  #apply(name: string, after: object | undefined, writtenAt: number): Change {
    const slash = name.indexOf('/')
    const table = name.slice(0, slash) as TableName
    const key = name.slice(slash + 1)
    const rows = this.#tables[table] as Map<string, object>
    const before = rows.get(key)
    if (after === undefined) rows.delete(key)
    else rows.set(key, after)
    return { table, key, before, after, writtenAt }
  }

  rollback(tx: DbTransaction): void {
    if (tx.state !== 'ended') this.#end(tx)
  }

  /** The link is gone: at some later moment the server notices and rolls back. */
  abandon(tx: DbTransaction): void {
    if (tx.state === 'ended') return
    this.world.add(`ends transaction ${tx.id}, whose client is gone`, undefined, () => this.rollback(tx))
  }

  #end(tx: DbTransaction): void {
    tx.state = 'ended'
    tx.waitsFor = undefined
    this.open.delete(tx)
    for (const name of tx.locks) this.#locks.delete(name)
    for (const wake of tx.waiters.splice(0)) wake()
  }

  /** Whether waiting for `holder` would close a circle. */
  deadlock(tx: DbTransaction, holder: DbTransaction): boolean {
    for (let next: DbTransaction | undefined = holder; next !== undefined; next = next.waitsFor) {
      if (next === tx) return true
    }
    return false
  }
}

/** The key of a row of the journal. */
export function journalKey({ consumer, messageKey, name }: { consumer: string; messageKey: string; name: string }) {
  return `${consumer}/${messageKey}/${name}`
}

/** The key of a receipt. */
export function receiptKey(consumer: string, messageKey: string): string {
  return `${consumer}/${messageKey}`
}
