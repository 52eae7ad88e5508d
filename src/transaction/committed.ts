import type { Entry, LocalDelivery, LocalResult, LocalRow, Origin, OutboxRow, Outcome } from '../contracts/index.ts'
import { laneOf, type StoredMessage } from '../message/index.ts'

/** A row that this process has committed. */
export interface Committed {
  readonly table: Origin
  /** The consumer, or the relay. */
  readonly scope: string
  readonly lane: number
  /** What a look would show of it, if that is known. */
  readonly entry?: Entry
}

/** Local messages as they were written, and what became of them. */
interface LocalWritten {
  readonly rows: readonly LocalRow[]
  readonly results: readonly LocalResult[]
}

/** The rows of published messages. Undefined: there are many, or the database did not tell. */
export function committedRows(
  outbox: readonly OutboxRow[],
  local: readonly LocalWritten[],
): readonly Committed[] | undefined {
  const found = committedOutbox(outbox)
  if (local.length === 0 || found === undefined) return found
  const others = committedLocal(local)
  return others && [...found, ...others]
}

/** Inbox rows of local messages. */
function committedLocal(written: readonly LocalWritten[]): readonly Committed[] | undefined {
  const found: Committed[] = []
  for (const { rows, results } of written) {
    if (rows.length > MOST) return undefined
    for (const [index, row] of rows.entries()) {
      const delivered = results[index]?.rows
      if (delivered === undefined) return undefined
      for (const each of delivered) found.push(committedRow(row, each))
    }
  }
  return found.length > MOST ? undefined : found
}

/** Inbox rows of deliveries, those of which were stored. Undefined: there are many. */
export function committedInbox(
  { name, ordered }: { readonly name: string; readonly ordered: boolean },
  messages: readonly StoredMessage[],
  outcomes: readonly Outcome[],
): readonly Committed[] | undefined {
  const stored = messages.filter((_, index) => outcomes[index]?.status === 'stored')
  if (stored.length > MOST) return undefined
  return stored.map((message) => ({ table: 'inbox', scope: name, lane: laneOf(message, ordered) }))
}

/** Outbox rows. */
function committedOutbox(rows: readonly OutboxRow[]): readonly Committed[] | undefined {
  if (rows.length > MOST) return undefined
  return rows.map(({ relay, message }) => ({ table: 'outbox', scope: relay, lane: laneOf(message, true) }))
}

function committedRow({ message, delayMs }: LocalRow, { consumer, ordered, seq }: LocalDelivery): Committed {
  const { type, data } = message
  const lane = laneOf(message, ordered)
  const key = ordered ? message.key : null
  const bytes = data.byteLength
  const entry = { seq, type, lane, key, bytes, dueMs: delayMs, held: false, deaths: 0 }
  return { table: 'inbox', scope: consumer, lane, entry }
}

/** With more rows a look is worth its cost. */
const MOST = 100
