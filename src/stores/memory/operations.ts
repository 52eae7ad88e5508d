// Changes to many rows, and the leases under which processes work on them.

import type {
  Audit,
  BulkOperation,
  OperationDraft,
  OperationProgress,
  OperationStep,
  OperationWork,
} from '../../contracts/index.ts'
import { compareSeq } from '../../message/index.ts'
import { frozen, leaseLost } from '../sql/index.ts'
import type { Data } from './data.ts'
import { failedRows, isOne } from './failed.ts'
import { sentRows } from './outbox.ts'
import type { OperationRow } from './rows.ts'

/** Freezes the rows that it is about, unless that is done already. */
export function beginOperation(data: Data, draft: OperationDraft, audit: Audit): BulkOperation {
  const known = data.operations.get(draft.id)
  if (known !== undefined) return shown(data, known)
  const { id, perSecond, limit } = draft
  const now = data.now()
  const work = frozen(structuredClone(draft), now.getTime())
  const rows = rowsOf(data, work).slice(0, limit ?? undefined)
  const progress = { after: null, done: 0, gone: 0, errors: 0, error: null, token: null, leasedUntil: 0 }
  const by = { actor: audit.actor, note: audit.note ?? null, createdAt: now, changedAt: now, endedAt: null }
  const ends = { upTo: rows.at(-1)?.seq ?? null, lastFailure: lastFailureOf(rows) }
  const about = { id, perSecond, ...ends, total: rows.length, state: 'running' } as const
  const row = { ...work, ...about, ...progress, ...by }
  data.operations.set(id, row)
  noteOf(data, row, audit)
  return shown(data, row)
}

/** Compares row names, whose order is that of their numbers: the mark can stay on. */
function lastFailureOf(rows: readonly Chosen[]): string | null {
  const failures = rows.flatMap(({ failureSeq }) => failureSeq ?? [])
  return failures.reduce<string | null>(later, null)
}

interface Chosen {
  readonly seq: string
  readonly failureSeq?: string
}

function rowsOf(data: Data, work: OperationWork): readonly Chosen[] {
  return work.kind === 'republish' ? sentRows(data, work.where) : failedRows(data, work.where)
}

function shown(data: Data, { token, leasedUntil, ...row }: OperationRow): BulkOperation {
  return { ...row, worked: row.state === 'running' && isLeased(data, { token, leasedUntil }) }
}

function isLeased(data: Data, { token, leasedUntil }: Pick<OperationRow, 'token' | 'leasedUntil'>): boolean {
  return token !== null && leasedUntil > data.clock.now()
}

/** One of them. */
export function getOperation(data: Data, id: string): BulkOperation | undefined {
  const row = data.operations.get(id)
  return row && shown(data, row)
}

/** The newest first. */
export function listOperations(data: Data, before: string | undefined, limit: number): readonly BulkOperation[] {
  const rows = sorted(data).filter((row) => before === undefined || row.id < before)
  return rows
    .reverse()
    .slice(0, limit)
    .map((row) => shown(data, row))
}

function sorted(data: Data): OperationRow[] {
  return data.operations.all().sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** Gives a process the right to work on one that is running and that no other one works on. */
export function leaseOperation(
  data: Data,
  token: string,
  leaseMs: number,
  id: string | undefined,
): BulkOperation | undefined {
  const row = sorted(data).find((each) => {
    return (id ?? each.id) === each.id && each.state === 'running' && !isLeased(data, each)
  })
  return row && write(data, { ...row, token, leasedUntil: data.clock.now() + leaseMs })
}

function write(data: Data, row: OperationRow): BulkOperation {
  data.operations.set(row.id, row)
  return shown(data, row)
}

/** The operation of a lease that is still held, even if its time has passed. */
function heldBy(data: Data, { id, token }: OperationStep): OperationRow | undefined {
  const row = data.operations.get(id)
  return row?.token === token ? row : undefined
}

/** Records what was visited and not changed, and prolongs the lease, or ends it. */
export function advanceOperation(
  data: Data,
  step: OperationStep,
  leaseMs: number,
  progress: OperationProgress,
  end: boolean,
): BulkOperation | undefined {
  const row = heldBy(data, step)
  if (row === undefined) return undefined
  const now = data.now()
  const ended = end && row.endedAt === null ? ({ state: 'done', endedAt: now } as const) : {}
  // What was recorded already, by a call whose answer was lost, does not count twice.
  const isNew = progress.after !== null && later(row.after, progress.after) !== row.after
  const errors = row.errors + (isNew ? progress.errors : 0)
  const gone = row.gone + (isNew ? progress.gone : 0)
  // What somebody else took away before it was listed was never visited.
  const counts = { errors, gone: end ? Math.max(gone, row.total - row.done - errors) : gone }
  const visited = { after: later(row.after, progress.after), error: progress.error ?? row.error, changedAt: now }
  const next = { ...row, ...counts, ...visited, ...ended }
  const lease = next.state === 'running' ? { leasedUntil: now.getTime() + leaseMs } : { token: null }
  return write(data, { ...next, ...lease })
}

function later(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b
  return compareSeq(a, b) < 0 ? b : a
}

/** Lets others work on it. */
export function releaseOperation(data: Data, step: OperationStep): void {
  const row = heldBy(data, step)
  if (row !== undefined) data.operations.set(row.id, { ...row, token: null })
}

/** What a person wants of it. Whoever works on it learns that with the next step. */
export function changeOperation(data: Data, id: string, to: 'running' | 'paused' | 'cancelled', audit: Audit): boolean {
  const row = data.operations.get(id)
  if (row === undefined || row.endedAt !== null || row.state === to) return false
  const now = data.now()
  data.operations.set(id, { ...row, state: to, changedAt: now, endedAt: to === 'cancelled' ? now : null })
  noteOf(data, row, audit)
  return true
}

/** Runs a change of a row and counts it, if it is a step of an operation. Throws `lease-lost` if it may not be made. */
export function counted(data: Data, step: OperationStep | undefined, seq: string, change: () => boolean): boolean {
  if (step === undefined) return change()
  const operation = heldBy(data, step)
  if (operation?.state !== 'running') throw leaseLost(step)
  if (
    operation.kind !== 'republish' &&
    !isOne(data, { ...operation.where, lastFailure: operation.lastFailure ?? undefined }, seq)
  )
    return false
  const changed = change()
  const row = heldBy(data, step)
  if (changed && row !== undefined) {
    write(data, { ...row, done: row.done + 1, after: later(row.after, seq), changedAt: data.now() })
  }
  return changed
}

function noteOf(data: Data, row: OperationRow, audit: Audit): void {
  const { id } = row
  if (row.kind === 'republish') data.note(audit, { origin: 'outbox', consumer: row.where.relay, id })
  else data.note(audit, { origin: row.where.origin, consumer: row.where.consumer, id })
}
