import { type FailedMessage, type FailedWhere, HapaxError, type Store } from 'hapax'
import type {
  Deliveries,
  EffectRow,
  InboxRow,
  LocalResult,
  Opening,
  Receipt,
  StoredDeliveries,
  StoredMessage,
  StoreFeatures,
  Unit,
  UnitEnd,
  UnitOptions,
  Writes,
} from 'hapax/contracts'
import { transactionClosed } from '../../src/base/errors.ts'
import type { Interrupt } from '../../src/base/index.ts'
import { pastOf } from '../../src/message/history.ts'
import { numberOf } from '../../src/message/lanes.ts'
import { doomed, untilAborted } from '../../src/stores/sql/connection/driver.ts'
import type { Chaos } from './chaos.ts'
import {
  Blocked,
  type Database,
  type DbTransaction,
  type FailedRecord,
  type JournalRow,
  journalKey,
  rowName,
  type WaitingRow,
} from './database.ts'
import { statements as right, type Statements } from './statements.ts'
import type { Process } from './world.ts'

/** What handlers receive: business tables, and what one should not do. */
export interface SimTx {
  /** Adds a business row for this message. */
  effect(consumer: string, message: { source: string; id: string; key?: string | undefined }): Promise<void>
  /** Locks a business row; waits for others. */
  lock(name: string): Promise<void>
  /** A statement that fails by a unique key of the application. */
  violate(): Promise<void>
  /** Commits behind our back; what follows commits by itself. */
  commit(): Promise<void>
}

/** The error of a link that is gone; the driver's own. */
class LinkLost extends Error {}
class LockTimeout extends Error {}
class Deadlock extends Error {}

/** A unique key of the application was violated. */
export class UniqueViolation extends Error {
  readonly code = '23505'
}

type Phase = 'opening' | 'body' | 'committing'

/** A transaction as its handler sees it. */
class Session implements SimTx {
  readonly #store: SimStore
  readonly tx: DbTransaction
  /** A statement of its own met a conflict or lost the link. */
  doomed: 'conflict' | 'lost' | undefined
  closed = false
  /** The handler committed: every statement is now a transaction of its own. */
  gone = false
  /** The messages that were claimed or taken. */
  messages: readonly StoredMessage[] = []

  constructor(store: SimStore, tx: DbTransaction) {
    this.#store = store
    this.tx = tx
  }

  effect(
    consumer: string,
    { source, id, key = null }: { source: string; id: string; key?: string | undefined | null },
  ) {
    return this.run(`effect of ${id}`, (db, tx) => {
      const seq = db.nextSeq()
      db.insert(tx, 'effects', rowName(seq), { seq, consumer, source, id, key })
    })
  }

  lock(name: string): Promise<void> {
    return this.run(`locks ${name}`, (db, tx) => db.lock(tx, 'effects', `lock ${name}`))
  }

  violate(): Promise<void> {
    return this.run('violates a unique key', (_db, tx) => {
      tx.state = 'aborted'
      throw new UniqueViolation('duplicate key value violates unique constraint "invoices_pkey"')
    })
  }

  async commit(): Promise<void> {
    await this.run('commits by itself', (db, tx) => db.commit(tx))
    this.gone = true
  }

  async run<T>(label: string, statement: (db: Database, tx: DbTransaction) => T): Promise<T> {
    if (this.closed) throw transactionClosed()
    if (this.gone) return this.#store.autocommit(label, statement)
    try {
      return await this.#store.statement(this.tx, label, undefined, statement)
    } catch (error) {
      if (error instanceof LinkLost) this.doomed = 'lost'
      if (error instanceof Deadlock) this.doomed = 'conflict'
      throw error
    }
  }
}

/** The fake store as one process sees it: every call is a step of the world that may fail. */
export class SimStore implements Store<SimTx> {
  readonly features: StoreFeatures = {
    name: 'simulator',
    isolationLevels: ['read committed'],
    ownTransactions: false,
    parallelWriters: true,
    durable: true,
    pool: undefined,
    lateUse: 'refused',
    unawaited: 'not detectable',
    roundTrips: 2,
  }
  readonly #db: Database
  readonly #process: Process
  readonly #chaos: Chaos
  readonly #sql: Statements
  readonly #open = new Set<DbTransaction>()

  constructor(db: Database, process: Process, chaos: Chaos, sql: Statements = right) {
    this.#db = db
    this.#process = process
    this.#chaos = chaos
    this.#sql = sql
    process.onDeath.push(() => {
      for (const tx of this.#open) db.abandon(tx)
    })
  }

  readonly schema: Store<SimTx>['schema'] = {
    ready: async () => [],
    migrations: async () => [],
    sql: () => ({ statements: [], before: [], after: [], checksums: [], undo: [], delimiter: undefined }),
    migrate: async () => [],
  }

  readonly transactions: Store<SimTx>['transactions'] = {
    run: async <T>(
      options: UnitOptions,
      opening: Opening,
      body: (unit: Unit<SimTx>) => Promise<UnitEnd<T>>,
    ): Promise<T> => {
      const { signal } = options
      const tx = this.#begin()
      const session = new Session(this, tx)
      const idle = this.#whenPaused(tx, options.idleTimeoutMs)
      let phase: Phase = 'opening'
      let ending: Promise<void> | undefined
      let endedIn: Phase | undefined
      const end = (): void => {
        endedIn = phase
        session.closed = true
        // Until its first answer the backend is not known, and ends when it notices.
        if (phase === 'opening') this.#db.abandon(tx)
        else ending = this.#process.call(`ends transaction ${tx.id} by force`, () => this.#db.rollback(tx))
      }
      const steps = async (): Promise<T> => {
        const unit = await this.#opened(session, options, opening)
        phase = 'body'
        const result = await this.#guarded(session, signal, () => body(unit))
        if (session.doomed) throw doomed(session.doomed, undefined)
        phase = 'committing'
        await this.#end(session, result.writes)
        return result.value
      }
      try {
        return await untilAborted(signal, steps, end)
      } catch (error) {
        await ending
        const thrown = ofTransaction(error, endedIn ?? phase, signal)
        throw endedIn === 'body' ? this.#ofFate(thrown, session) : thrown
      } finally {
        session.closed = true
        idle()
        if (tx.state === 'ended') this.#open.delete(tx)
      }
    },
    enter: (tx) => {
      if (!(tx instanceof Session)) throw new HapaxError('not-in-transaction', 'expected an open transaction')
      if (tx.closed) throw transactionClosed()
      return {
        writeOutbox: (rows) =>
          this.#inside(tx, (db, each) => {
            for (const row of rows) this.#sql.addOutbox(db, each, row)
          }),
        writeLocal: (rows) => {
          const token = this.#process.random.token()
          return this.#inside(tx, (db, each) => this.#sql.local(db, each, token, rows))
        },
        mostBytes: () => Number.POSITIVE_INFINITY,
        leave: () => {},
      }
    },
  }

  readonly inbox: Store<SimTx>['inbox'] = {
    store: (options, deliveries) => this.#store(options, deliveries),
    reschedule: (row) => this.#repeated(`reschedules ${row.seq}`, (db, tx) => this.#sql.reschedule(db, tx, row)),
    fail: (row) => this.#once(`fails ${row.seq}`, (db, tx) => this.#sql.fail(db, tx, row), MOVE_LOCK_MS),
    lease: async (seqs, token, leaseMs) => {
      let leased: readonly WaitingRow[] = []
      await this.#short(
        `leases ${seqs.join(' ')}`,
        (db, tx) => this.#sql.lockDue(db, tx, seqs, token),
        (db, tx, rows) => {
          leased = this.#sql.lease(db, tx, rows, token, leaseMs)
          if (leased.length > 0) this.#wakeOthers()
          return leased.length > 0
        },
      )
      return leased.map((row) => asInboxRow(row, ageOf(this.#db, row)))
    },
    renew: async (leases, leaseMs) => {
      const label = leases.map(({ seq }) => seq).join(' ')
      await this.#repeated(`prolongs ${label}`, (db, tx) => this.#sql.renew(db, tx, leases, leaseMs))
      return this.#repeated(`reads leases ${label}`, (db, tx) => this.#sql.leased(db, tx, leases))
    },
    release: (held, delayMs) =>
      this.#repeated(`releases ${held.seq}`, (db, tx) => this.#sql.releaseLease(db, tx, held, delayMs)),
    addOrder: (consumer) =>
      this.#repeated(`adds order to ${consumer}`, (db, tx) => this.#sql.addOrder(db, tx, consumer)),
    addKey: (seq, key) => this.#repeated(`adds a key to ${seq}`, (db, tx) => this.#sql.addKey(db, tx, seq, key)),
    find: (consumer, messageKey) =>
      this.#repeated('reads the inbox', (db) => {
        for (const row of db.committed('inbox').values()) {
          if (row.consumer === consumer && row.message.messageKey === messageKey) return rowName(row.seq)
        }
        return undefined
      }),
  }

  readonly outbox: Store<SimTx>['outbox'] = {
    read: (seqs) =>
      this.#repeated(`reads outbox ${seqs.join(' ')}`, (db) => {
        const rows = [...db.committed('outbox').values()].filter((row) => seqs.includes(rowName(row.seq)))
        return rows
          .sort((a, b) => a.seq - b.seq)
          .map(({ seq, message, attempts, createdAt }) => {
            return { seq: rowName(seq), message, attempts, ageMs: db.world.now - createdAt }
          })
      }),
    confirm: async (seqs, keep) => {
      const run = (db: Database, tx: DbTransaction): void => this.#sql.confirm(db, tx, seqs, keep)
      const label = `confirms ${seqs.join(' ')}`
      await (keep ? this.#once(label, run) : this.#repeated(label, run))
      return []
    },
    postpone: (rows) => {
      const label = `postpones ${rows.map((row) => row.seq).join(' ')}`
      return this.#repeated(label, (db, tx) => this.#sql.postpone(db, tx, rows))
    },
    refuse: (row) => this.#once(`refuses ${row.seq}`, (db, tx) => this.#sql.refuse(db, tx, row), MOVE_LOCK_MS),
    recordRelay: (name, destination, move) =>
      this.#repeated(`records relay ${name}`, (db, tx) => {
        const there = db.get(tx, 'relays', name)
        if (there !== undefined && move === undefined) return there.destination
        db.write(tx, 'relays', name, { name, destination })
        return destination
      }),
  }

  readonly journal: Store<SimTx>['journal'] = {
    begin: async (lease, leaseMs, effect, again) => {
      let seen: { readonly row: JournalRow | undefined } | undefined
      const found = await this.#short(
        `begins effect ${effect.name} of ${lease.seq}`,
        (db, tx) => {
          // Where locking reads do not see what is newest, the journal is what it was before the statement waited.
          if (seen === undefined || !db.knowsFate) seen = { row: db.get(tx, 'journal', journalKey(effect)) }
          return this.#sql.lockLease(db, tx, lease) && seen
        },
        (db, tx, locked) => {
          if (locked === undefined) return false
          const state = locked.row?.state
          this.#sql.renew(db, tx, [lease], leaseMs)
          if (state === undefined || state === 'not-done' || (again && state !== 'done'))
            this.#sql.beginEffect(db, tx, effect, lease.token)
          return true
        },
      )
      return found && { before: found.row && asEffectRow(found.row) }
    },
    end: async (lease, effect, end) => {
      const found = await this.#short(
        `ends effect ${effect.name} of ${lease.seq} as ${end.state}`,
        (db, tx) => this.#sql.lockLease(db, tx, lease),
        (db, tx, row) => {
          if (row !== undefined) this.#sql.endEffect(db, tx, effect, lease.token, end)
          return row !== undefined
        },
      )
      return found !== undefined
    },
    of: (consumer, messageKey) =>
      this.#repeated('reads effects', (db) => this.#sql.effects(db, consumer, messageKey).map(asEffectRow)),
    settle: (effect, end, audit) => {
      const label = `settles effect ${effect.name} as ${end.state}`
      return this.#once(label, (db, tx) => this.#sql.settleEffect(db, tx, effect, end, audit), MOVE_LOCK_MS)
    },
  }

  readonly responses: Store<SimTx>['responses'] = { read: absent, expire: absent, forget: absent }

  readonly endpoints: Store<SimTx>['endpoints'] = {
    add: absent,
    list: absent,
    look: absent,
    change: absent,
    remove: absent,
  }

  /** Workers look for these: there are none. */
  readonly operations: Store<SimTx>['operations'] = {
    begin: absent,
    get: absent,
    list: absent,
    lease: async () => undefined,
    advance: absent,
    release: absent,
    change: absent,
  }

  readonly pauses: Store<SimTx>['pauses'] = { list: async () => [], pause: absent, resume: absent }

  readonly samples: Store<SimTx>['samples'] = { add: async () => {}, list: absent }

  // The clock of the simulated database never goes back.
  readonly clock: Store<SimTx>['clock'] = { aheadMs: async () => 0, recount: absent }

  readonly workers: Store<SimTx>['workers'] = {
    look: (shares) => this.#repeated('looks', (db) => shares.map((share) => this.#sql.look(db, share))),
    join: (worker) => this.#repeated(`joins as ${worker.id}`, (db, tx) => this.#sql.join(db, tx, worker)),
    note: (id, { seqs, alone }, beat) => {
      const label = beat ? 'beats' : `notes ${seqs.join(' ')}${alone ? ' alone' : ''}`
      return this.#repeated(label, (db, tx) => {
        if (!this.#sql.note(db, tx, id, seqs, alone, beat)) return undefined
        return beat ? this.#sql.workers(db, tx) : []
      })
    },
    bury: () => this.#once('buries', (db, tx) => this.#sql.bury(db, tx)),
    leave: (id) => this.#repeated('leaves', (db, tx) => db.write(tx, 'workers', id, undefined)),
    list: () => this.#repeated('lists the workers', (db, tx) => this.#sql.workers(db, tx)),
  }

  readonly subscriptions: Store<SimTx>['subscriptions'] = {
    add: (consumer, types, ordered) =>
      this.#repeated('subscribes', (db, tx) => {
        for (const type of types) {
          const known = db.get(tx, 'subscriptions', `${consumer}/${type}`)
          const either = ordered || known?.ordered === true
          db.write(tx, 'subscriptions', `${consumer}/${type}`, { consumer, type, ordered: either })
        }
      }),
    list: () => this.#repeated('reads subscriptions', (db) => [...db.committed('subscriptions').values()]),
    remove: (consumer) =>
      this.#once('unsubscribes', (db, tx) => {
        const rows = db.rows(tx, 'subscriptions').filter((row) => row.consumer === consumer)
        for (const { type } of rows) db.write(tx, 'subscriptions', `${consumer}/${type}`, undefined)
        return rows.length > 0
      }),
  }

  readonly failed: Store<SimTx>['failed'] = {
    list: ({ before, limit, ...where }) =>
      this.#repeated('lists failed', (db) =>
        failedRows(db, where)
          .filter((row) => before === undefined || row.seq < Number(numberOf(before)))
          .sort((a, b) => b.seq - a.seq)
          .slice(0, limit)
          .map(asFailed),
      ),
    count: (where) => this.#repeated('counts failed', (db) => failedRows(db, where).length),
    groups: () => unused('failed.groups'),
    seqs: (where, after, limit) =>
      this.#repeated('lists failed', (db) =>
        failedRows(db, where)
          .map((row) => row.seq)
          .filter((seq) => seq > Number(numberOf(after ?? '0')))
          .sort((a, b) => a - b)
          .slice(0, limit)
          .map(rowName),
      ),
    get: (seq) =>
      this.#repeated(`reads failed ${seq}`, (db) => {
        const row = db.committed('failed').get(seq)
        return row && asFailed(row)
      }),
    retry: (seq, audit) => this.#once(`retries failed ${seq}`, (db, tx) => this.#sql.failedRetry(db, tx, seq, audit)),
    edit: (seq, message, audit) => {
      const token = this.#process.random.token()
      return this.#once(`edits failed ${seq}`, (db, tx) => this.#sql.failedEdit(db, tx, seq, message, audit, token))
    },
    discard: (seq, audit) =>
      this.#once(`discards failed ${seq}`, (db, tx) => this.#sql.failedDiscard(db, tx, seq, audit)),
  }

  readonly keys: Store<SimTx>['keys'] = {
    list: () => unused('keys.list'),
    release: (origin, scope, key, audit) =>
      this.#once(`releases ${key}`, (db, tx) => this.#sql.release(db, tx, origin, scope, key, audit)),
  }

  readonly sent: Store<SimTx>['sent'] = {
    list: () => unused('sent.list'),
    seqs: () => unused('sent.seqs'),
    republish: () => unused('sent.republish'),
    purge: () => unused('sent.purge'),
  }

  readonly admin: Store<SimTx>['admin'] = {
    clean: (step, olderThanMs, limit) =>
      this.#once(`cleans ${step.kind}`, (db, tx) => this.#sql.cleanup(db, tx, step, olderThanMs, limit)),
    audit: async () => {},
    checkup: async () => [],
    status: () => unused('status'),
    trace: () => unused('trace'),
    receipts: () => unused('receipts'),
    effects: () => unused('effects'),
    waiting: () => unused('waiting'),
    one: () => unused('one'),
    ahead: () => unused('ahead'),
    retries: () => unused('retries'),
    hasten: () => unused('hasten'),
    audited: () => unused('audited'),
  }

  async close(): Promise<void> {}

  #begin(): DbTransaction {
    const tx = this.#db.begin(this.#process)
    this.#open.add(tx)
    return tx
  }

  /** One statement of a transaction: it waits for rows that others hold, and its link may break. */
  statement<T>(
    tx: DbTransaction,
    label: string,
    lockTimeoutMs: number | undefined,
    run: (db: Database, tx: DbTransaction) => T,
    commits = false,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const request = new Request(this.#db, this.#process, tx, label, lockTimeoutMs, run, resolve, reject)
      const fault = this.#chaos.link(commits)
      this.#process.world.add(label, this.#process, () => request.send(fault), true)
    })
  }

  /** A statement outside any transaction. */
  async autocommit<T>(
    label: string,
    run: (db: Database, tx: DbTransaction) => T,
    lockTimeoutMs = QUERY_MS,
  ): Promise<T> {
    const tx = this.#begin()
    const statement = (db: Database, each: DbTransaction): T => {
      const value = run(db, each)
      db.commit(each)
      return value
    }
    try {
      return await this.statement(tx, label, lockTimeoutMs, statement, true)
    } catch (error) {
      this.#db.rollback(tx)
      throw error
    } finally {
      this.#open.delete(tx)
    }
  }

  /** As the SQL store: again on a new connection if the link was lost, then the store is not available. */
  async #repeated<T>(label: string, run: (db: Database, tx: DbTransaction) => T): Promise<T> {
    try {
      return await this.autocommit(label, run)
    } catch (error) {
      if (!(error instanceof LinkLost)) throw ofQuery(error)
    }
    return this.#once(`${label} again`, run)
  }

  async #once<T>(label: string, run: (db: Database, tx: DbTransaction) => T, lockTimeoutMs?: number): Promise<T> {
    try {
      return await this.autocommit(label, run, lockTimeoutMs)
    } catch (error) {
      throw ofQuery(error)
    }
  }

  /** As the SQL store does it where one statement is the whole transaction: what was there before is read afterwards. */
  async #store(options: UnitOptions, deliveries: Deliveries): Promise<StoredDeliveries> {
    const { lockTimeoutMs, signal, acquired } = options
    const { consumer, messages } = deliveries
    let sent = false
    const label = `stores ${messages.map((message) => message.id).join(' ')}`
    const steps = (): Promise<Map<string, string>> =>
      this.autocommit(
        label,
        (db, tx) => {
          if (!sent) acquired?.()
          sent = true
          return this.#sql.store(db, tx, deliveries)
        },
        lockTimeoutMs,
      )
    try {
      const seqs = await untilAborted(signal, steps, () => {})
      const keys = messages.map((message) => message.messageKey).filter((key) => !seqs.has(key))
      if (keys.length === 0) return { seqs, existing: NO_RECEIPTS }
      const existing = await this.#repeated('reads receipts', (db, tx) => this.#sql.receipts(db, tx, consumer, keys))
      if (existing.size === keys.length) return { seqs, existing }
    } catch (error) {
      const unknown = error instanceof LinkLost || (sent && signal?.aborted && error === signal.reason)
      throw unknown ? commitUnknown(error) : ofTransaction(error, 'opening', signal)
    }
    throw new HapaxError('transaction-conflict', 'a receipt vanished while it was read')
  }

  /** As `StoreErrors.ofFate`, where the database tells. */
  #ofFate(error: unknown, { tx, messages, gone }: Session): unknown {
    const { knowsFate, cutOff } = this.#db
    if (knowsFate) return tx.committed ? brokenAtomicity(error) : error
    // All that the connection has observed is a statement that may commit.
    if (!gone || !(error instanceof HapaxError)) return error
    for (const { id } of messages) cutOff.add(id)
    const fields = { ...error.fields, mayHaveCommitted: true }
    return new HapaxError(error.code, error.message, { cause: error.cause, fields })
  }

  /** A transaction of a process that stands still is ended by the database after its idle timeout. */
  #whenPaused(tx: DbTransaction, idleMs: number): () => void {
    const { onPause, world } = this.#process
    const paused = (): void => {
      world.after(idleMs, `idle timeout of transaction ${tx.id}`, undefined, () => {
        if (this.#process.paused) this.#db.rollback(tx)
      })
    }
    onPause.push(paused)
    return () => void onPause.splice(onPause.indexOf(paused), 1)
  }

  async #opened(session: Session, options: UnitOptions, opening: Opening): Promise<Unit<SimTx>> {
    const { tx } = session
    const { acquired, lockTimeoutMs } = options
    let first = true
    const once = (): void => {
      if (first) acquired?.()
      first = false
    }
    const unit = {
      tx: session,
      existing: NO_RECEIPTS,
      present: NO_SEQS,
      claimed: NO_ROWS,
      check: () => this.#check(session),
      mostBytes: () => Number.POSITIVE_INFINITY,
    }
    const label = `begins transaction ${tx.id}: ${opened(opening)}`
    try {
      if (opening.kind === 'claim') {
        const { seqs, locked } = opening
        const found = await this.statement(tx, label, lockTimeoutMs, (db, each) => {
          once()
          const present = locked === 'wait' ? this.#sql.lockAll(db, each, seqs) : []
          return { present, rows: this.#sql.claim(db, each, seqs) }
        })
        session.messages = found.rows.map((row) => row.message)
        const claimed = new Map(found.rows.map((row) => [rowName(row.seq), asInboxRow(row, ageOf(this.#db, row))]))
        return { ...unit, present: new Set(found.present), claimed }
      }
      if (opening.kind === 'plain') {
        await this.statement(tx, label, undefined, once)
        return unit
      }
      if (opening.kind === 'fail') {
        const { row } = opening
        const there = await this.statement(tx, label, lockTimeoutMs, (db, each) => {
          once()
          return this.#sql.fail(db, each, row)
        })
        return { ...unit, present: new Set(there ? [row.seq] : []) }
      }
      if (opening.kind === 'settle') {
        const { lease } = opening
        const found = await this.statement(tx, label, lockTimeoutMs, (db, each) => {
          once()
          return { present: this.#sql.lockAll(db, each, [lease.seq]), row: this.#sql.settle(db, each, lease) }
        })
        if (found.row === undefined) return { ...unit, present: new Set(found.present) }
        session.messages = [found.row.message]
        return {
          ...unit,
          present: new Set(found.present),
          claimed: new Map([[lease.seq, asInboxRow(found.row, null)]]),
        }
      }
      const { consumer, token, messages } = opening
      session.messages = messages
      const ours = await this.statement(tx, label, lockTimeoutMs, (db, each) => {
        once()
        return this.#sql.take(db, each, consumer, token, messages)
      })
      return { ...unit, existing: await this.#existing(tx, consumer, messages, ours) }
    } catch (error) {
      if (tx.state !== 'ended' && !(error instanceof LinkLost)) this.#db.rollback(tx)
      throw error
    }
  }

  async #existing(
    tx: DbTransaction,
    consumer: string,
    messages: readonly StoredMessage[],
    ours: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, Receipt>> {
    const keys = messages.map((message) => message.messageKey).filter((key) => !ours.has(key))
    if (keys.length === 0) return NO_RECEIPTS
    const found = await this.statement(tx, 'reads receipts', undefined, (db, each) =>
      this.#sql.receipts(db, each, consumer, keys),
    )
    if (found.size !== keys.length) throw new HapaxError('transaction-conflict', 'a receipt vanished while it was read')
    return found
  }

  async #guarded<T>(session: Session, signal: Interrupt | undefined, body: () => Promise<T>): Promise<T> {
    try {
      return await body()
    } catch (error) {
      if (signal?.aborted) throw error
      if (session.gone) throw brokenAtomicity(error)
      await this.#rollback(session)
      throw session.doomed ? doomed(session.doomed, error) : error
    }
  }

  async #rollback({ tx, closed }: Session): Promise<void> {
    if (closed) return
    try {
      await this.statement(tx, `rolls back transaction ${tx.id}`, undefined, (db) => db.rollback(tx))
    } catch {
      // Then the server does it when it notices.
    }
  }

  async #check(session: Session): Promise<void> {
    await this.#inside(session, (_db, tx) => guard(session, tx))
  }

  async #end(session: Session, writes: Writes | undefined): Promise<void> {
    const { tx } = session
    // Whoever aborted has destroyed the connection.
    if (session.closed) throw transactionClosed()
    if (writes === undefined) return this.#rollback(session)
    // The guard is not there any more.
    if (session.gone) return this.#check(session)
    const label = `commits transaction ${tx.id}`
    const token = writes.local === undefined ? '' : this.#process.random.token()
    const commit = (db: Database): readonly LocalResult[] => {
      guard(session, tx)
      for (const row of writes.inbox ?? []) this.#sql.addInbox(db, tx, row)
      for (const row of writes.failed ?? []) this.#sql.addFailed(db, tx, row)
      for (const row of writes.outbox ?? []) this.#sql.addOutbox(db, tx, row)
      const local = this.#sql.local(db, tx, token, writes.local?.rows ?? [])
      db.commit(tx)
      return local
    }
    try {
      const local = await this.statement(tx, label, undefined, commit, true)
      writes.local?.committed(local)
    } catch (error) {
      if (error instanceof LinkLost) throw commitUnknown(error)
      this.#db.rollback(tx)
      throw error
    }
  }

  /** Our own statement inside the handler's transaction. */
  async #inside<T>(session: Session, run: (db: Database, tx: DbTransaction) => T): Promise<T> {
    try {
      return await session.run('writes', (db, tx) => {
        guard(session, tx)
        return run(db, tx)
      })
    } catch (error) {
      throw session.doomed ? doomed(session.doomed, error) : error
    }
  }

  /** A transaction of our own: locks first, and then writes and commits, unless there is nothing to write. */
  async #short<T>(
    label: string,
    first: (db: Database, tx: DbTransaction) => T,
    then: (db: Database, tx: DbTransaction, found: T) => boolean,
  ): Promise<T> {
    const tx = this.#begin()
    const idle = this.#whenPaused(tx, MOVE_LOCK_MS)
    let committing = false
    try {
      const found = await this.statement(tx, label, MOVE_LOCK_MS, first)
      committing = true
      const commit = (db: Database): void => {
        if (then(db, tx, found)) db.commit(tx)
        else db.rollback(tx)
      }
      await this.statement(tx, `commits: ${label}`, MOVE_LOCK_MS, commit, true)
      return found
    } catch (error) {
      if (committing && error instanceof LinkLost) throw commitUnknown(error)
      this.#db.rollback(tx)
      throw ofQuery(error)
    } finally {
      idle()
      this.#open.delete(tx)
    }
  }

  /** Whoever is paused may go on just when another process has taken over. */
  #wakeOthers(): void {
    const { world } = this.#process
    for (const each of world.processes) {
      if (!each.paused || world.choices.pick(2) === 0) continue
      world.add(`${each.name} goes on`, undefined, () => each.resume())
    }
  }
}

/** One request to the database until its answer. */
class Request<T> {
  readonly #db: Database
  readonly #process: Process
  readonly #tx: DbTransaction
  readonly #label: string
  readonly #lockTimeoutMs: number | undefined
  readonly #run: (db: Database, tx: DbTransaction) => T
  readonly #resolve: (value: T) => void
  readonly #reject: (error: unknown) => void
  #over = false
  #silent = false
  #cancel: (() => void) | undefined

  constructor(
    db: Database,
    process: Process,
    tx: DbTransaction,
    label: string,
    lockTimeoutMs: number | undefined,
    run: (db: Database, tx: DbTransaction) => T,
    resolve: (value: T) => void,
    reject: (error: unknown) => void,
  ) {
    this.#db = db
    this.#process = process
    this.#tx = tx
    this.#label = label
    this.#lockTimeoutMs = lockTimeoutMs
    this.#run = run
    this.#resolve = resolve
    this.#reject = reject
  }

  /** A link breaks before the request arrives, after the answer was sent, or while the request is still on its way. */
  send(fault: 'before' | 'after' | 'late' | undefined): void {
    if (fault === undefined) this.#execute()
    else this.#break(fault)
  }

  #break(fault: 'before' | 'after' | 'late'): void {
    this.#process.world.note(`  the link breaks (${fault})`)
    this.#silent = true
    if (fault === 'after') this.#execute()
    if (fault === 'late') this.#process.world.add(`late: ${this.#label}`, undefined, () => this.#execute())
    this.#db.abandon(this.#tx)
    this.#process.deliver(this.#label, () => this.#reject(new LinkLost('the connection was lost')))
  }

  #execute(): void {
    if (this.#over) return
    const { state } = this.#tx
    try {
      if (state === 'ended') throw new LinkLost('the transaction was ended')
      if (state === 'aborted' && !ENDING.test(this.#label)) throw new Error('current transaction is aborted')
      const value = this.#run(this.#db, this.#tx)
      this.#settle(() => this.#resolve(value))
    } catch (error) {
      if (error instanceof Blocked) this.#wait(error)
      else this.#fail(error)
    }
  }

  #wait({ holder }: Blocked): void {
    const { world } = this.#process
    if (this.#db.deadlock(this.#tx, holder)) {
      this.#fail(new Deadlock('deadlock detected'))
      return
    }
    this.#tx.waitsFor = holder
    holder.waiters.push(() => {
      this.#tx.waitsFor = undefined
      if (!this.#over) world.add(`${this.#label}, after waiting`, this.#owner(), () => this.#execute(), true)
    })
    if (this.#cancel !== undefined || this.#lockTimeoutMs === undefined) return
    this.#cancel = world.after(this.#lockTimeoutMs, `lock timeout of ${this.#label}`, undefined, () => {
      this.#tx.waitsFor = undefined
      this.#tx.state = 'aborted'
      this.#fail(new LockTimeout('canceling statement due to lock timeout'))
    })
  }

  #owner(): Process | undefined {
    return this.#process.alive ? this.#process : undefined
  }

  #fail(error: unknown): void {
    if (error instanceof Error && this.#tx.state === 'open' && !(error instanceof HapaxError))
      this.#tx.state = 'aborted'
    this.#settle(() => this.#reject(error))
  }

  #settle(answer: () => void): void {
    if (this.#over) return
    this.#over = true
    this.#cancel?.()
    if (!this.#silent) this.#process.deliver(this.#label, answer)
  }
}

/** The savepoint is there only in the transaction that was opened, and only while that is healthy. */
function guard(session: Session, tx: DbTransaction): void {
  if (session.gone) throw brokenAtomicity(undefined)
  if (tx.state === 'aborted') {
    throw new HapaxError('transaction-aborted', 'the handler went on after an SQL error')
  }
}

function brokenAtomicity(cause: unknown): HapaxError {
  return new HapaxError('broken-atomicity', 'the handler ended its transaction itself', { cause })
}

function commitUnknown(cause: unknown): HapaxError {
  return new HapaxError('commit-unknown', 'the connection was lost while committing', { cause })
}

function ofTransaction(error: unknown, phase: Phase, signal: Interrupt | undefined): unknown {
  if (phase === 'body') return error
  const aborted = signal?.aborted && error === signal.reason
  if (phase === 'committing') {
    if (aborted) return commitUnknown(error)
    return error instanceof Deadlock || error instanceof LockTimeout ? doomed('conflict', error) : error
  }
  if (aborted || error instanceof HapaxError) return error
  if (error instanceof LockTimeout) return new HapaxError('busy', 'another transaction holds the row', { cause: error })
  return error instanceof Deadlock ? doomed('conflict', error) : unavailable(error)
}

function ofQuery(error: unknown): unknown {
  if (error instanceof LockTimeout || error instanceof Deadlock) return doomed('conflict', error)
  return error instanceof LinkLost ? unavailable(error) : error
}

function unavailable(cause: unknown): unknown {
  if (!(cause instanceof LinkLost)) return cause
  return new HapaxError('store-unavailable', 'the simulator could not be reached', { cause })
}

function opened(opening: Opening): string {
  if (opening.kind === 'take') return `takes ${opening.messages.map((message) => message.id).join(' ')}`
  if (opening.kind === 'fail') return `fails ${opening.row.seq}`
  if (opening.kind === 'settle') return `settles ${opening.lease.seq}`
  return opening.kind === 'claim' ? `claims ${opening.seqs.join(' ')}` : 'plain'
}

function ageOf(db: Database, { firstDueAt }: WaitingRow): number | null {
  return firstDueAt === null ? null : db.world.now - firstDueAt
}

function asInboxRow(row: WaitingRow, ageMs: number | null): InboxRow {
  const { seq, consumer, message, ordered, attempts, lost, starts, crashes, leaseToken, fence } = row
  return { seq: rowName(seq), consumer, message, ordered, attempts, lost, starts, crashes, leaseToken, fence, ageMs }
}

function asEffectRow(row: JournalRow): EffectRow {
  return { ...row, firstAt: new Date(row.firstAt), lastAt: new Date(row.lastAt) }
}

function failedRows(db: Database, where: FailedWhere): FailedRecord[] {
  return [...db.committed('failed').values()].filter(
    (row) =>
      (where.origin === undefined || row.origin === where.origin) &&
      (where.consumer === undefined || row.consumer === where.consumer) &&
      (where.type === undefined || row.message.type === where.type) &&
      (where.reason === undefined || row.reason === where.reason) &&
      (row.replacedBy !== null) === (where.replaced ?? false),
  )
}

function asFailed(row: FailedRecord): FailedMessage {
  const { seq, origin, consumer, message, attempts, reason, error, failedAt, heldSeq, replacedBy } = row
  const held = heldSeq !== null
  const shown = { attempts, reason, error, errorHash: error.message, failedAt: new Date(failedAt), held, replacedBy }
  return { seq: rowName(seq), origin, consumer, message, ...shown, ...pastOf(row) }
}

function unused(method: string): Promise<never> {
  return Promise.reject(new Error(`the simulator has no ${method}`))
}

/** Statements that an aborted transaction still takes. */
const ENDING = /^(rolls back|commits)\b/
const NO_RECEIPTS: ReadonlyMap<string, Receipt> = new Map()
const NO_SEQS: ReadonlySet<string> = new Set()
const NO_ROWS: ReadonlyMap<string, InboxRow> = new Map()
const MOVE_LOCK_MS = 5_000
const QUERY_MS = 60_000

/** Requests and endpoints are no part of the simulation. */
const absent = (): Promise<never> => Promise.reject(new Error('not simulated'))
