import type {
  Deliveries,
  FinalFailure,
  InboxRow,
  LocalDelivery,
  LocalResult,
  LocalRow,
  Opening,
  Receipt,
  Rescheduled,
  StoredDeliveries,
} from '../../contracts/index.ts'
import { compareSeq, laneOfKey, remember } from '../../message/index.ts'
import { addFailed, addInbox, receive } from './add.ts'
import type { Data } from './data.ts'
import { rowOf } from './leases.ts'
import { withResponse } from './responses.ts'
import { bySeq, receiptKey, type WaitingRow } from './rows.ts'

/** Writes receipts where there are none; returns those that were there. */
export function take(
  data: Data,
  { consumer, token, messages, responses = false }: Opening & { kind: 'take' },
): ReadonlyMap<string, Receipt> {
  const existing = new Map<string, Receipt>()
  for (const message of messages) {
    const receipt = data.receipts.get(receiptKey(consumer, message))
    if (receipt === undefined) receive(data, consumer, token, message)
    else if (responses) existing.set(message.messageKey, withResponse(data, consumer, message.messageKey, receipt))
    else existing.set(message.messageKey, receipt)
  }
  return existing
}

/** Writes receipts and inbox rows of deliveries that have no receipt yet. */
export function store(data: Data, deliveries: Deliveries): StoredDeliveries {
  const { consumer, messages, ordered, starts } = deliveries
  const existing = take(data, { kind: 'take', ...deliveries })
  const seqs = new Map<string, string>()
  for (const message of messages) {
    if (existing.has(message.messageKey)) continue
    const row = { consumer, message, ordered, starts, attempts: 0, delayMs: 0, error: null }
    seqs.set(message.messageKey, addInbox(data, row))
  }
  return { existing, seqs }
}

/** Takes rows out of the inbox, as `Opening` says. Transactions run one after the other here, so nothing is locked. */
export function claim(data: Data, { seqs, aged }: Opening & { kind: 'claim' }): ReadonlyMap<string, InboxRow> {
  const free = (row: WaitingRow): boolean =>
    row.heldAt === null && (row.leaseToken === null || row.availableAt <= data.clock.now())
  const claimed = notBlocked(data, seqs.flatMap((seq) => data.inbox.get(seq) ?? []).filter(free))
  for (const { seq } of claimed) data.inbox.delete(seq)
  return new Map(claimed.map((row) => [row.seq, aged ? { ...row, ageMs: ageOf(data, row) } : row]))
}

/** How long ago a message of local delivery was due first. */
export function ageOf(data: Data, { firstDueAt }: WaitingRow): number | null {
  return firstDueAt === null ? null : Math.max(0, data.clock.now() - firstDueAt)
}

/** Those that have no older row of their key outside these, in the order of seq. */
export function notBlocked(data: Data, rows: readonly WaitingRow[]): readonly WaitingRow[] {
  const heads = rows.some((row) => row.ordered) ? oldestOthers(data, rows) : new Map<string, string>()
  const free = rows.filter((row) => {
    const other = heads.get(keyOf(row))
    return !row.ordered || other === undefined || compareSeq(other, row.seq) > 0
  })
  return free.sort(bySeq)
}

/** Takes the row of a lease out of the inbox. */
export function settle(data: Data, { lease }: Opening & { kind: 'settle' }): ReadonlyMap<string, InboxRow> {
  const row = rowOf(data, lease)
  if (row === undefined) return new Map()
  data.inbox.delete(row.seq)
  return new Map([[row.seq, row]])
}

/** The seqs of those rows that are there. */
export function present(data: Data, { seqs, locked }: Opening & { kind: 'claim' }): ReadonlySet<string> {
  return new Set(locked === 'wait' ? seqs.filter((seq) => data.inbox.get(seq)) : [])
}

/** By key, the oldest row that is not one of these. */
function oldestOthers(data: Data, these: readonly WaitingRow[]): ReadonlyMap<string, string> {
  const own = new Set(these)
  const oldest = new Map<string, string>()
  for (const row of data.inbox.all()) {
    if (!row.ordered || own.has(row)) continue
    const known = oldest.get(keyOf(row))
    if (known === undefined || compareSeq(row.seq, known) < 0) oldest.set(keyOf(row), row.seq)
  }
  return oldest
}

function keyOf({ consumer, message }: WaitingRow): string {
  return JSON.stringify([consumer, message.key])
}

/** Receipt and inbox row for each consumer that has no receipt yet. */
export function deliver(data: Data, { message, consumers, delayMs }: LocalRow, token: string): LocalResult {
  const listed = data.subscriptions.all().filter((row) => row.type === message.type)
  const listening = new Map(listed.map((row) => [row.consumer, row.ordered]))
  // Order counts if this process, or what is listed, wants it.
  for (const { name, ordered } of consumers) listening.set(name, ordered || listening.get(name) === true)
  const rows: LocalDelivery[] = []
  for (const [consumer, ordered] of listening) {
    if (data.receipts.get(receiptKey(consumer, message))) continue
    receive(data, consumer, token, message)
    const seq = addInbox(data, {
      consumer,
      message,
      ordered,
      attempts: 0,
      starts: 0,
      delayMs,
      error: null,
      local: true,
    })
    rows.push({ consumer, ordered: ordered && message.key !== null, seq })
  }
  return { consumers: listening.size, fresh: rows.length, rows }
}

/** Records a failed attempt. */
export function reschedule(data: Data, row: Rescheduled): boolean {
  const { seq, delayMs, leaseToken, entry, ...end } = row
  const found = data.inbox.get(seq)
  if (found?.leaseToken !== leaseToken) return false
  const now = data.clock.now()
  const past = isRepeated(found, row) ? {} : remember(found, now, end.attempts, entry)
  const due = { availableAt: now + delayMs, setAt: now }
  data.inbox.set(seq, { ...found, ...end, ...past, ...due, starts: 0, leaseToken: null })
  return true
}

/** Makes the rows of a consumer ordered that have a key and were stored without order. */
export function addOrder(data: Data, consumer: string): number {
  const loose = data.inbox.all().filter((row) => row.consumer === consumer && !row.ordered)
  return loose.filter(({ seq, message }) => message.key !== null && addKey(data, seq, message.key)).length
}

/** Gives an unordered row this key and makes it ordered. */
export function addKey(data: Data, seq: string, key: string): boolean {
  const row = data.inbox.get(seq)
  if (row === undefined || row.ordered) return false
  data.inbox.set(seq, { ...row, message: { ...row.message, key }, ordered: true, lane: laneOfKey(key) })
  return true
}

/** Whether the failure is on record: the answer to the first call was lost. */
function isRepeated(found: WaitingRow, { attempts, lost, entry }: Rescheduled): boolean {
  return found.attempts === attempts && found.lost === lost && found.history?.includes(entry) === true
}

/** Copies a row into the failed store; it goes, or stays and holds its key. */
export function fail(data: Data, { seq, hold, leaseToken, entry, ...end }: FinalFailure): boolean {
  const row = data.inbox.get(seq)
  if (row?.leaseToken !== leaseToken || row.heldAt !== null) return false
  const past = remember(row, data.clock.now(), end.attempts, entry)
  addFailed(data, { ...row, ...end, ...past, origin: 'inbox', heldSeq: hold ? seq : null }, row.failedSeq)
  const { attempts, error } = end
  if (hold) data.inbox.set(seq, { ...row, ...past, attempts, error, starts: 0, leaseToken: null, heldAt: data.now() })
  else data.inbox.delete(seq)
  return true
}

/** The seq of the row of a message. */
export function seqOf(data: Data, consumer: string, messageKey: string): string | undefined {
  const rows = data.inbox.all().filter((row) => row.consumer === consumer && row.message.messageKey === messageKey)
  return rows.sort(bySeq)[0]?.seq
}
