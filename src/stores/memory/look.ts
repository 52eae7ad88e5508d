import type { Entry, Look, Share } from '../../contracts/index.ts'
import { pageOf } from '../sql/index.ts'
import type { Data } from './data.ts'
import { bySeq } from './rows.ts'
import { isRecorded } from './subscriptions.ts'

/** How many rows of one key a look lists at most. */
const RUN = 100

/** What waits in one share. */
export function look(data: Data, share: Share): Look {
  const entries = share.table === 'inbox' ? inboxEntries(data, share) : outboxEntries(data, share)
  const mine = entries.filter((entry) => share.lanes.includes(entry.lane))
  const loose = mine.filter((entry) => entry.key === null && handled(data, share, entry))
  const due = loose.filter((entry) => entry.dueMs <= 0).sort((a, b) => a.dueMs - b.dueMs || bySeq(a, b))
  const { overdueMs } = share
  if (overdueMs !== undefined) {
    const overdue = due.filter(({ dueMs, deaths }) => dueMs <= -overdueMs && deaths === 0)
    return { entries: overdue.slice(0, share.limit), nextMs: undefined, after: new Map() }
  }
  const later = loose.filter((entry) => entry.dueMs > 0).map((entry) => entry.dueMs)
  const { keyed, after } = inOrder(mine, share)
  const nextMs = later.length === 0 ? undefined : later.reduce((least, ms) => Math.min(least, ms))
  return { entries: [...due.slice(0, share.limit), ...keyed], nextMs, after }
}

function inboxEntries(data: Data, { scope }: Share): readonly Entry[] {
  const rows = data.inbox.all().filter((row) => row.consumer === scope)
  const now = data.clock.now()
  return rows.map((row) => entryOf(now, row, row.ordered ? row.message.key : null, row.starts))
}

function outboxEntries(data: Data, { scope }: Share): readonly Entry[] {
  const rows = data.outbox.all().filter((row) => row.relay === scope)
  const now = data.clock.now()
  return rows.map((row) => entryOf(now, row, row.message.key, 0))
}

type Queued = Parameters<Data['inbox']['set']>[1] | Parameters<Data['outbox']['set']>[1]

/** `now` is the same for all of a look, or rows would change places where it goes on in between. */
function entryOf(now: number, row: Queued, key: string | null, deaths: number): Entry {
  const { seq, lane, message, availableAt, heldAt } = row
  const dueMs = availableAt - now
  return { seq, type: message.type, lane, key, bytes: message.data.byteLength, dueMs, held: heldAt !== null, deaths }
}

/** With order, a type that this worker does not know makes the key wait; without order, another worker handles it. */
function handled(data: Data, { table, types, scope }: Share, { type }: Entry): boolean {
  return table === 'outbox' || types.includes(type) || (types.includes('') && !isRecorded(data, scope, type))
}

/** A page of keys per lane, in the order of keys. */
function inOrder(entries: readonly Entry[], share: Share): { keyed: readonly Entry[]; after: Map<number, string> } {
  const page = pageOf(share)
  const keyed: Entry[] = []
  const after = new Map<number, string>()
  for (const [lane, own] of Map.groupBy(entries.filter(hasKey), (entry) => entry.lane)) {
    const from = share.after.get(lane)
    const byKey = Map.groupBy(own, (entry) => entry.key)
    const keys = [...byKey.keys()].filter((key) => from === undefined || key > from).sort()
    const listed = keys.slice(0, page)
    for (const key of listed) keyed.push(...firstRows(byKey.get(key) ?? []))
    const last = listed.at(-1)
    if (last !== undefined && keys.length > listed.length) after.set(lane, last)
  }
  return { keyed: keyed.sort(bySeq), after }
}

function hasKey(entry: Entry): entry is Entry & { readonly key: string } {
  return entry.key !== null
}

/** Behind a row that cannot run now nothing else of its key can. */
function firstRows(entries: Entry[]): readonly Entry[] {
  const [head, ...others] = entries.sort(bySeq)
  if (head === undefined) return []
  return head.held || head.dueMs > 0 ? [head] : [head, ...others.slice(0, RUN - 1)]
}
