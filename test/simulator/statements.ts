import type {
  Audit,
  Cleaned,
  CleanupStep,
  Deliveries,
  ErrorRecord,
  FailedRow,
  LocalDelivery,
  LocalResult,
  LocalRow,
  Look,
  Origin,
  OutboxRow,
  Peer,
  Receipt,
  RetryRow,
  Share,
  StoredMessage,
  WorkerHello,
} from 'hapax/contracts'
import { type Remembered, remember } from '../../src/message/history.ts'
import { compareSeq, laneOf } from '../../src/message/lanes.ts'
import { type Database, type DbTransaction, receiptKey, rowName, type WaitingRow } from './database.ts'
import { forget, leaseStatements } from './lease-statements.ts'
import { bySeqText, hasOlder, locked, writeAudit } from './rows.ts'

/** What is remembered of a row that has not failed. */
const NEVER_FAILED: Remembered = { failures: 0, history: null }
/** How many rows of one key a look lists. */
const RUN = 100

/**
 * What each statement of the store does to the tables, in one go. A statement that meets a locked row throws `Blocked` and
 * is run again later, so that what it did before must be done only once. Bugs on purpose replace some of these.
 */
export const statements = {
  ...leaseStatements,

  /** Writes receipts where there are none; answers the keys that are ours. */
  take(db: Database, tx: DbTransaction, consumer: string, token: string, messages: readonly StoredMessage[]) {
    const ours = new Set<string>()
    const sorted = messages.length > 1 ? [...messages].sort(byMessageKey) : messages
    for (const message of sorted) if (writeReceipt(db, tx, consumer, token, message)) ours.add(message.messageKey)
    return ours
  },

  /** Receipts, and the inbox rows of those that are new; answers their seqs by message key. */
  store(db: Database, tx: DbTransaction, deliveries: Deliveries): Map<string, string> {
    const { consumer, token, messages, ordered, starts } = deliveries
    const ours = statements.take(db, tx, consumer, token, messages)
    const seqs = new Map<string, string>()
    for (const message of messages) {
      if (!ours.has(message.messageKey)) continue
      const row = { consumer, message, ordered, attempts: 0, starts, delayMs: 0, error: null }
      seqs.set(message.messageKey, rowName(statements.addInbox(db, tx, row)))
    }
    return seqs
  },

  receipts(db: Database, tx: DbTransaction, consumer: string, keys: readonly string[]): Map<string, Receipt> {
    const found = new Map<string, Receipt>()
    for (const key of keys) {
      const row = db.get(tx, 'receipts', receiptKey(consumer, key))
      if (row !== undefined) found.set(key, { ...row, takenAt: new Date(row.takenAt) })
    }
    return found
  },

  /** Locks rows that are not held, leaves out those with an older row of their key outside these, deletes the rest. */
  claim(db: Database, tx: DbTransaction, seqs: readonly string[]): WaitingRow[] {
    const mine = lockFree(db, tx, seqs)
    const kept = mine.filter((row) => !hasOlder(db, tx, row, mine))
    for (const row of kept) db.write(tx, 'inbox', rowName(row.seq), undefined)
    return kept
  },

  /** Locks rows, held or not, after waiting for others; answers those that are there. */
  lockAll(db: Database, tx: DbTransaction, seqs: readonly string[]): string[] {
    return bySeqText(seqs).filter((seq) => locked(db, tx, 'inbox', seq) !== undefined)
  },

  /** `like`: a message whose lane it takes over. */
  addInbox(
    db: Database,
    tx: DbTransaction,
    row: RetryRow,
    like: StoredMessage = row.message,
    fence = 0,
    failedSeq: number | null = null,
    { failures, history }: Remembered = NEVER_FAILED,
  ): number {
    const seq = db.nextSeq()
    const { consumer, message, attempts, starts, delayMs, error, local, entry } = row
    const past = { failures, history }
    const own = entry === undefined ? past : remember(past, db.world.now, attempts, entry)
    const ordered = row.ordered && message.key !== null
    const lane = laneOf(like, ordered)
    const availableAt = db.world.now + delayMs
    const counts = { attempts, starts, lost: 0, crashes: 0, leaseToken: null, fence }
    const times = { availableAt, firstDueAt: local ? availableAt : null, heldAt: null }
    const waiting = { seq, consumer, message, ordered, lane, ...counts, ...times, error, failedSeq }
    db.insert(tx, 'inbox', rowName(seq), { ...waiting, ...own })
    return seq
  },

  addOutbox(
    db: Database,
    tx: DbTransaction,
    { relay, message, delayMs }: OutboxRow,
    like = message,
    failedSeq: number | null = null,
    { failures, history }: Remembered = NEVER_FAILED,
  ): void {
    const seq = db.nextSeq()
    const { now } = db.world
    const times = { createdAt: now, availableAt: now + delayMs, heldAt: null }
    db.insert(tx, 'outbox', rowName(seq), {
      seq,
      relay,
      message,
      lane: laneOf(like, true),
      attempts: 0,
      error: null,
      failedSeq,
      failures,
      history,
      ...times,
    })
  },

  addFailed(
    db: Database,
    tx: DbTransaction,
    row: FailedRow,
    origin: Origin = 'inbox',
    heldSeq: number | null = null,
    before: number | null = null,
    past: Remembered = NEVER_FAILED,
  ): void {
    const { consumer, message, ordered, attempts, reason, error } = row
    const known = db.rows(tx, 'failed').find((each) => {
      const same = each.message.messageKey === message.messageKey && each.message.fingerprint === message.fingerprint
      return same && each.consumer === consumer && each.origin === origin
    })
    if (known !== undefined) {
      db.write(tx, 'failed', rowName(known.seq), { ...known, heldSeq: known.heldSeq ?? heldSeq, replacedBy: null })
      return
    }
    const taken = before === null || db.rows(tx, 'failed').some((each) => each.seq === before)
    const seq = taken ? db.nextSeq() : before
    const failedAt = db.world.now
    const own = remember(past, failedAt, attempts, row.entry)
    const rest = { ordered, attempts, reason, error, failedAt, heldSeq, replacedBy: null, ...own }
    db.insert(tx, 'failed', rowName(seq), { seq, origin, consumer, message, ...rest })
  },

  /** Receipt and inbox row for every consumer that has no receipt yet. */
  local(db: Database, tx: DbTransaction, token: string, rows: readonly LocalRow[]): LocalResult[] {
    const targets = rows.map((row) => listeners(db, tx, row))
    const all = rows.flatMap(({ message }, index) =>
      [...(targets[index] as Map<string, boolean>).keys()].map((consumer) => ({ consumer, message, index })),
    )
    all.sort((a, b) =>
      a.consumer === b.consumer ? byMessageKey(a.message, b.message) : a.consumer < b.consumer ? -1 : 1,
    )
    const fresh = all.filter(({ consumer, message }) => writeReceipt(db, tx, consumer, token, message))
    return rows.map(({ message, delayMs }, index) => {
      const listening = targets[index] as Map<string, boolean>
      const written: LocalDelivery[] = []
      for (const [consumer, wanted] of listening) {
        if (!fresh.some((each) => each.index === index && each.consumer === consumer)) continue
        const row = { consumer, message, ordered: wanted, attempts: 0, starts: 0, delayMs, error: null, local: true }
        written.push({
          consumer,
          ordered: wanted && message.key !== null,
          seq: rowName(statements.addInbox(db, tx, row)),
        })
      }
      return { consumers: listening.size, fresh: written.length, rows: written }
    })
  },

  look(db: Database, share: Share): Look {
    const rows = share.table === 'inbox' ? inboxOf(db, share) : outboxOf(db, share)
    const page = Math.min(share.limit, Math.max(4, Math.ceil((2 * share.limit) / share.lanes.length)))
    const found = new Listing(db.world.now, page, share)
    for (const row of rows) found.add(row)
    const { overdueMs } = share
    if (overdueMs === undefined) return found.look()
    const isOverdue = ({ key, dueMs, deaths }: Look['entries'][number]): boolean =>
      key === null && dueMs <= -overdueMs && deaths === 0
    return { entries: found.look().entries.filter(isOverdue), nextMs: undefined, after: new Map() }
  },

  reschedule(
    db: Database,
    tx: DbTransaction,
    row: {
      seq: string
      attempts: number
      lost: number
      delayMs: number
      error: ErrorRecord
      entry: string
      leaseToken: string | null
    },
  ): boolean {
    const { seq, attempts, lost, delayMs, error, entry } = row
    const there = locked(db, tx, 'inbox', seq)
    if (there === undefined || there.leaseToken !== row.leaseToken) return false
    const availableAt = db.world.now + delayMs
    const again = there.attempts === attempts && there.lost === lost && there.history?.includes(entry)
    const past = again ? {} : remember(there, db.world.now, attempts, entry)
    db.write(tx, 'inbox', seq, { ...there, ...past, attempts, lost, error, starts: 0, availableAt, leaseToken: null })
    return true
  },

  fail(
    db: Database,
    tx: DbTransaction,
    row: {
      seq: string
      attempts: number
      reason: string
      error: ErrorRecord
      entry: string
      hold: boolean
      leaseToken: string | null
    },
  ): boolean {
    const { seq, attempts, reason, error, entry, hold } = row
    const there = locked(db, tx, 'inbox', seq)
    if (there === undefined || there.heldAt !== null || there.leaseToken !== row.leaseToken) return false
    const { consumer, message, ordered } = there
    const failed = { consumer, message, ordered, attempts, reason, error, entry }
    statements.addFailed(db, tx, failed, 'inbox', hold ? there.seq : null, there.failedSeq, there)
    const past = remember(there, db.world.now, attempts, entry)
    const held = { ...there, ...past, attempts, error, starts: 0, heldAt: db.world.now, leaseToken: null }
    db.write(tx, 'inbox', seq, hold ? held : undefined)
    return true
  },

  confirm(db: Database, tx: DbTransaction, seqs: readonly string[], keep: boolean): void {
    for (const seq of bySeqText(seqs)) {
      const row = locked(db, tx, 'outbox', seq)
      if (row === undefined) continue
      db.write(tx, 'outbox', seq, undefined)
      if (!keep) continue
      const sent = db.nextSeq()
      db.insert(tx, 'sent', rowName(sent), { seq: sent, relay: row.relay, message: row.message, sentAt: db.world.now })
    }
  },

  postpone(
    db: Database,
    tx: DbTransaction,
    rows: readonly { seq: string; delayMs: number; error: ErrorRecord; entry: string }[],
  ): void {
    for (const { seq, delayMs, error, entry } of [...rows].sort((a, b) => compareSeq(a.seq, b.seq))) {
      const row = locked(db, tx, 'outbox', seq)
      if (row === undefined || tx.changes.has(`outbox/${seq}`)) continue
      const availableAt = db.world.now + delayMs
      const attempts = row.attempts + 1
      const past = remember(row, db.world.now, attempts, entry)
      db.write(tx, 'outbox', seq, { ...row, ...past, attempts, availableAt, error })
    }
  },

  refuse(
    db: Database,
    tx: DbTransaction,
    {
      seq,
      reason,
      error,
      entry,
      hold,
    }: { seq: string; reason: string; error: ErrorRecord; entry: string; hold: boolean },
  ): boolean {
    const row = locked(db, tx, 'outbox', seq)
    if (row === undefined) return false
    const { relay, message } = row
    const attempts = row.attempts + 1
    const failed = { consumer: relay, message, ordered: message.key !== null, attempts, reason, error, entry }
    statements.addFailed(db, tx, failed, 'outbox', hold ? row.seq : null, row.failedSeq, row)
    const past = remember(row, db.world.now, attempts, entry)
    db.write(tx, 'outbox', seq, hold ? { ...row, ...past, attempts, error, heldAt: db.world.now } : undefined)
    return true
  },

  join(db: Database, tx: DbTransaction, { id, name, ttlMs, serves }: WorkerHello): void {
    if (locked(db, tx, 'workers', id) !== undefined) return
    const { now } = db.world
    db.write(tx, 'workers', id, { id, name, serves, ttlMs, startedAt: now, seenAt: now, inHand: [], alone: false })
  },

  note(db: Database, tx: DbTransaction, id: string, inHand: readonly string[], alone: boolean, beat: boolean): boolean {
    const row = locked(db, tx, 'workers', id)
    if (row === undefined) return false
    const seenAt = beat ? db.world.now : row.seenAt
    db.write(tx, 'workers', id, { ...row, inHand: [...inHand], alone, seenAt })
    return true
  },

  workers(db: Database, tx: DbTransaction): Peer[] {
    const { now } = db.world
    return db
      .rows(tx, 'workers')
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .map(({ id, name, serves, startedAt, seenAt, ttlMs, inHand }) => {
        const silentMs = now - seenAt
        const startedAtDate = new Date(startedAt)
        const times = { startedAt: startedAtDate, silentMs, listedAt: new Date(now) }
        return {
          id,
          name,
          serves,
          ...times,
          alive: silentMs <= ttlMs,
          inHand: inHand.length,
          seqs: [...inHand],
          doubtful: false,
        }
      })
  },

  /** Rows that a dead worker had in hand and nobody has locked become suspects, or count a crash. */
  bury(db: Database, tx: DbTransaction): number {
    const dead = db.rows(tx, 'workers').filter(({ id, seenAt, ttlMs }) => {
      return db.world.now - seenAt > ttlMs && !db.isLocked(tx, 'workers', id)
    })
    for (const { id, inHand, alone } of dead) {
      db.write(tx, 'workers', id, undefined)
      for (const seq of inHand) {
        const row = db.isLocked(tx, 'inbox', seq) ? undefined : db.get(tx, 'inbox', seq)
        if (row === undefined) continue
        const crashes = row.crashes + (alone ? 1 : 0)
        db.write(tx, 'inbox', seq, { ...row, starts: row.starts + 1, crashes })
      }
    }
    return dead.length
  },

  failedRetry(db: Database, tx: DbTransaction, seq: string, audit: Audit): boolean {
    const row = locked(db, tx, 'failed', seq)
    if (row === undefined || row.replacedBy !== null) return false
    const { origin, consumer, message, ordered, heldSeq } = row
    if (heldSeq !== null) unhold(db, tx, origin, rowName(heldSeq), message, row.seq)
    else if (origin === 'outbox')
      statements.addOutbox(db, tx, { relay: consumer, message, delayMs: 0 }, message, row.seq, row)
    else {
      const fresh = { attempts: 0, starts: 0, delayMs: 0, error: null }
      statements.addInbox(db, tx, { consumer, message, ordered, ...fresh }, message, 1, row.seq, row)
    }
    db.write(tx, 'failed', seq, undefined)
    writeAudit(db, tx, audit, consumer, message)
    return true
  },

  failedEdit(
    db: Database,
    tx: DbTransaction,
    seq: string,
    message: StoredMessage,
    audit: Audit,
    token: string,
  ): boolean {
    const row = locked(db, tx, 'failed', seq)
    if (row === undefined || row.replacedBy !== null) return false
    const { origin, consumer, ordered, heldSeq } = row
    if (origin === 'inbox') writeReceipt(db, tx, consumer, token, message)
    if (heldSeq !== null) unhold(db, tx, origin, rowName(heldSeq), message, null)
    else if (origin === 'outbox') statements.addOutbox(db, tx, { relay: consumer, message, delayMs: 0 }, row.message)
    else {
      const fresh = { attempts: 0, starts: 0, delayMs: 0, error: null }
      statements.addInbox(db, tx, { consumer, message, ordered, ...fresh }, row.message)
    }
    db.write(tx, 'failed', seq, { ...row, heldSeq: null, replacedBy: message.id })
    writeAudit(db, tx, audit, consumer, row.message)
    return true
  },

  failedDiscard(db: Database, tx: DbTransaction, seq: string, audit: Audit): boolean {
    const row = locked(db, tx, 'failed', seq)
    if (row === undefined) return false
    const { origin, heldSeq } = row
    if (heldSeq !== null && locked(db, tx, origin, rowName(heldSeq))) db.write(tx, origin, rowName(heldSeq), undefined)
    db.write(tx, 'failed', seq, undefined)
    writeAudit(db, tx, audit, row.consumer, row.message)
    return true
  },

  /** Lets a key go on without its held message, which stays in the failed store. */
  release(db: Database, tx: DbTransaction, origin: Origin, scope: string, key: string, audit: Audit): boolean {
    const held = db
      .rows(tx, origin)
      .filter((row) => row.heldAt !== null && row.message.key === key && scopeOf(row) === scope)
      .sort((a, b) => a.seq - b.seq)[0]
    if (held === undefined || locked(db, tx, origin, rowName(held.seq)) === undefined) return false
    const failed = db.rows(tx, 'failed').find((row) => row.origin === origin && row.heldSeq === held.seq)
    if (failed !== undefined) {
      db.lock(tx, 'failed', rowName(failed.seq))
      db.write(tx, 'failed', rowName(failed.seq), { ...failed, heldSeq: null })
    }
    db.write(tx, origin, rowName(held.seq), undefined)
    writeAudit(db, tx, audit, scope, held.message)
    return true
  },

  /** One step of the cleaning of receipts: only those whose message is finished. */
  cleanup(db: Database, tx: DbTransaction, step: CleanupStep, olderThanMs: number, limit: number): Cleaned {
    const before = db.world.now - olderThanMs
    if (step.kind === 'sent') {
      const old = db.rows(tx, 'sent').filter((row) => row.relay === step.relay && row.sentAt < before)
      for (const row of old.slice(0, limit)) db.write(tx, 'sent', rowName(row.seq), undefined)
      return { deleted: Math.min(limit, old.length), after: old.length > limit ? '' : undefined }
    }
    if (step.kind === 'audit') return { deleted: 0, after: undefined }
    const { consumer, after = '' } = step
    const page = db
      .rows(tx, 'receipts')
      .filter((row) => row.consumer === consumer && row.messageKey > after)
      .sort(byMessageKey)
      .slice(0, limit)
    let deleted = 0
    let oldestMs: number | undefined
    for (const row of page) {
      const key = receiptKey(consumer, row.messageKey)
      if (row.takenAt >= before || !statements.finished(db, tx, row) || db.isLocked(tx, 'receipts', key)) {
        oldestMs = Math.max(oldestMs ?? 0, db.world.now - row.takenAt)
        continue
      }
      db.write(tx, 'receipts', key, undefined)
      deleted += 1
    }
    forget(db, tx, consumer)
    return { deleted, oldestMs, after: page.length < limit ? undefined : page.at(-1)?.messageKey }
  },

  /** Whether nothing waits under this receipt any more. */
  finished(
    db: Database,
    tx: DbTransaction,
    { consumer, messageKey }: { consumer: string; messageKey: string },
  ): boolean {
    const same = (row: { consumer: string; message: StoredMessage }): boolean =>
      row.consumer === consumer && row.message.messageKey === messageKey
    return !db.rows(tx, 'inbox').some(same) && !db.rows(tx, 'failed').some(same)
  },
}

/** All statements of the store. */
export type Statements = typeof statements

function byMessageKey(a: { messageKey: string }, b: { messageKey: string }): number {
  return a.messageKey < b.messageKey ? -1 : 1
}

/** Whoever inserts a receipt that another open transaction has inserted, or deleted, waits for it. */
function writeReceipt(
  db: Database,
  tx: DbTransaction,
  consumer: string,
  token: string,
  { messageKey, source, id, type, fingerprint }: StoredMessage,
): boolean {
  const key = receiptKey(consumer, messageKey)
  const there = db.get(tx, 'receipts', key)
  if (there?.token === token) return true
  if (there !== undefined && !db.isLocked(tx, 'receipts', key)) {
    if (db.locksDuplicates) db.lock(tx, 'receipts', key)
    return false
  }
  db.lock(tx, 'receipts', key)
  const row = { consumer, token, messageKey, source, id, type, fingerprint, takenAt: db.world.now }
  db.write(tx, 'receipts', key, row)
  return true
}

/** Locks the rows that nobody else has locked and that are not held. */
function lockFree(db: Database, tx: DbTransaction, seqs: readonly string[]): WaitingRow[] {
  const rows: WaitingRow[] = []
  for (const seq of bySeqText(seqs)) {
    const row = db.get(tx, 'inbox', seq)
    if (row === undefined || row.heldAt !== null || db.isLocked(tx, 'inbox', seq)) continue
    if (row.leaseToken !== null && row.availableAt > db.world.now) continue
    db.lock(tx, 'inbox', seq)
    rows.push(row)
  }
  return rows
}

function listeners(db: Database, tx: DbTransaction, { message, consumers }: LocalRow): Map<string, boolean> {
  const found = new Map(consumers.map(({ name, ordered }) => [name, ordered]))
  for (const { consumer, type, ordered } of db.rows(tx, 'subscriptions')) {
    if (type === message.type) found.set(consumer, ordered || found.get(consumer) === true)
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function unhold(
  db: Database,
  tx: DbTransaction,
  origin: Origin,
  seq: string,
  message: StoredMessage,
  failedSeq: number | null,
): void {
  const availableAt = db.world.now
  const past = failedSeq === null ? NEVER_FAILED : {}
  const clear = { heldAt: null, attempts: 0, availableAt, error: null, message, failedSeq, ...past }
  if (origin === 'inbox') {
    const row = locked(db, tx, 'inbox', seq)
    if (row) db.write(tx, 'inbox', seq, { ...row, ...clear, lost: 0, starts: 0, crashes: 0, leaseToken: null })
  } else {
    const row = locked(db, tx, 'outbox', seq)
    if (row) db.write(tx, 'outbox', seq, { ...row, ...clear })
  }
}

function scopeOf(row: { consumer: string } | { relay: string }): string {
  return 'consumer' in row ? row.consumer : row.relay
}

/** A row of inbox or outbox as a look sees it. */
interface Listed {
  readonly seq: number
  readonly type: string
  readonly lane: number
  readonly key: string | null
  readonly bytes: number
  readonly availableAt: number
  readonly held: boolean
  readonly deaths: number
}

function inboxOf(db: Database, { scope, lanes, types }: Share): Listed[] {
  const listed: Listed[] = []
  for (const row of db.committed('inbox').values()) {
    const { seq, consumer, message, ordered, lane, availableAt, heldAt, starts } = row
    if (consumer !== scope || !lanes.includes(lane) || (!ordered && !isWanted(db, consumer, types, message.type)))
      continue
    const { type, data } = message
    const key = ordered ? message.key : null
    listed.push({ seq, type, lane, key, bytes: data.length, availableAt, held: heldAt !== null, deaths: starts })
  }
  return listed
}

/** '' stands for all types that are not in `subscriptions`. */
function isWanted(db: Database, consumer: string, types: readonly string[], type: string): boolean {
  if (types.includes(type)) return true
  return types.includes('') && !db.committed('subscriptions').has(`${consumer}/${type}`)
}

function outboxOf(db: Database, { scope, lanes }: Share): Listed[] {
  const listed: Listed[] = []
  for (const { seq, relay, message, lane, availableAt, heldAt } of db.committed('outbox').values()) {
    if (relay !== scope || !lanes.includes(lane)) continue
    const { type, key, data } = message
    listed.push({ seq, type, lane, key, bytes: data.length, availableAt, held: heldAt !== null, deaths: 0 })
  }
  return listed
}

/** What a look lists: what is due without order, and the first rows of each key. */
class Listing {
  readonly #now: number
  readonly #page: number
  readonly #after: ReadonlyMap<number, string>
  readonly #others = new Map<number, Listed[]>()
  readonly #keys = new Map<number, Map<string, Listed[]>>()
  #nextMs: number | undefined

  constructor(now: number, page: number, { after }: Share) {
    this.#now = now
    this.#page = page
    this.#after = after
  }

  add(row: Listed): void {
    const { lane, key } = row
    if (key === null) {
      const dueMs = row.availableAt - this.#now
      if (dueMs > 0) this.#nextMs = Math.min(this.#nextMs ?? Number.POSITIVE_INFINITY, dueMs)
      else this.#others.set(lane, [...(this.#others.get(lane) ?? []), row])
      return
    }
    const keys = this.#keys.get(lane) ?? new Map<string, Listed[]>()
    this.#keys.set(lane, keys)
    if (key > (this.#after.get(lane) ?? '')) keys.set(key, [...(keys.get(key) ?? []), row])
  }

  look(): Look {
    const others: Listed[] = []
    for (const rows of this.#others.values()) others.push(...rows.sort(byAge).slice(0, this.#page))
    const keyed: Listed[] = []
    const after = new Map<number, string>()
    for (const [lane, keys] of this.#keys) {
      const page = [...keys.keys()].sort().slice(0, this.#page)
      for (const key of page) keyed.push(...this.#head(keys.get(key) as Listed[]))
      if (page.length >= this.#page) after.set(lane, page.at(-1) as string)
    }
    const listed = [...others.sort(byAge), ...keyed.sort((a, b) => a.seq - b.seq)]
    const entries = listed.map(({ seq, availableAt, ...rest }) => {
      return { seq: rowName(seq), dueMs: availableAt - this.#now, ...rest }
    })
    return { entries, nextMs: this.#nextMs, after }
  }

  #head(rows: Listed[]): Listed[] {
    rows.sort((a, b) => a.seq - b.seq)
    const [first] = rows as [Listed]
    const ready = !first.held && first.availableAt <= this.#now
    return rows.slice(0, ready ? RUN : 1)
  }
}

function byAge(a: Listed, b: Listed): number {
  return a.availableAt - b.availableAt || a.seq - b.seq
}
