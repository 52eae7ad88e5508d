import type {
  Ahead,
  AuditWhere,
  Numbered,
  Origin,
  Row,
  Statement,
  StoreWaiting,
  WaitingMessage,
  WaitingWhere,
} from '../../../contracts/index.ts'
import { compareSeq, keyRange, numberOf } from '../../../message/index.ts'
import { CONTROL_MS } from '../calls.ts'
import type { WaitingPath, WaitingStatements } from '../dialect/waiting.ts'
import { asAuditEntry, asWaiting } from '../operator-rows.ts'
import { asDate, asMessage, asNumber, asSeq, asText } from '../values.ts'
import { change } from './change.ts'
import type { SqlParts } from './context.ts'

/** How many rows one look reads at most. */
const LOOKED_AT = 1_000
/** Higher than every number. */
const BEHIND_ALL = '9223372036854775807'
/** Rows are written in the order of their numbers, give or take this: clocks are set, and transactions wait. */
const OUT_OF_ORDER_MS = 3_600_000
/** From so many scopes on, rows are looked for by their numbers. */
const MANY_SCOPES = 50

/** What waits in an SQL database, and the audit. */
export function sqlWaiting(parts: SqlParts): StoreWaiting {
  const { waiting } = parts.dialect
  return {
    waiting: (origin, where, before, limit) => list(parts, origin, where, before, limit),
    one: async (origin, seq) => {
      const [row] = await rowsOf(parts, waiting[origin].one(seq))
      return row && { row: asWaiting(origin, row), message: asMessage(row) }
    },
    ahead: (origin, seq) => ahead(parts, origin, seq),
    retries: (origin, limit) => retries(parts, origin, limit),
    hasten: (origin, seq, audit) => {
      const { held, admin } = parts.dialect
      return change(parts, held[origin].retrying(seq), (row) => {
        const [source, id, type] = [asText(row['source']), asText(row['id']), asText(row['type'])]
        const subject = { origin, consumer: asText(row['scope']), source, id, type }
        return [held[origin].hasten(seq), admin.audit(audit, subject)]
      })
    },
    audited: (where, before, limit) =>
      look(parts, where, before, limit, {
        conditions: Object.values(where).some((value) => value !== undefined),
        floor: (number, rows) => waiting.audited.floor(number, rows),
        page: (from, number, rows) => waiting.audited.page(where, from, number, rows),
        read: asAuditEntry,
      }),
  }
}

/** With the settings of a status: a planner that knows nothing of a table has to take the index whose order it is asked for. */
async function rowsOf({ calls, dialect }: SqlParts, statement: Statement): Promise<readonly Row[]> {
  return (await calls.look(dialect.status.settings(CONTROL_MS), statement, CONTROL_MS)).rows
}

async function list(
  parts: SqlParts,
  origin: Origin,
  where: WaitingWhere,
  before: string | undefined,
  limit: number,
): Promise<Numbered<WaitingMessage>> {
  const found = (await byId(parts, origin, where)) ?? (await byHeld(parts, origin, where))
  if (found !== undefined) return pageOf(found, before, limit)
  const paths = await pathsOf(parts, origin, where)
  const looked = await Promise.all(paths.map((path) => along(parts, origin, path, where, before, limit)))
  const merged = together(looked, limit)
  // Where order does not count, rows with a key are found by their numbers alone.
  const unordered = where.key !== undefined && origin === 'inbox' && merged.rows.length === 0
  return unordered && merged.before === undefined ? along(parts, origin, { by: 'all' }, where, before, limit) : merged
}

/** A message whose id is a UUIDv7 is found by its key. */
async function byId(
  parts: SqlParts,
  origin: Origin,
  where: WaitingWhere,
): Promise<readonly WaitingMessage[] | undefined> {
  const keys = where.id === undefined ? undefined : keyRange(where.id)
  if (keys === undefined) return undefined
  return read(origin, await rowsOf(parts, parts.dialect.waiting[origin].byId(keys, where, LOOKED_AT)))
}

/** Held rows where they are found in no order: all of them, unless there are many. Then they are also found among all rows. */
async function byHeld(
  parts: SqlParts,
  origin: Origin,
  where: WaitingWhere,
): Promise<readonly WaitingMessage[] | undefined> {
  const { held, numbered } = parts.dialect.waiting[origin]
  if (where.state !== 'held' || where.key !== undefined || held === undefined) return undefined
  const seqs = (await rowsOf(parts, held(LOOKED_AT + 1))).map((row) => numberOf(asSeq(row['seq'])))
  if (seqs.length > LOOKED_AT) return undefined
  return seqs.length === 0 ? [] : read(origin, await rowsOf(parts, numbered(seqs, where)))
}

/** How the rows are found that these conditions want. */
async function pathsOf(parts: SqlParts, origin: Origin, where: WaitingWhere): Promise<readonly WaitingPath[]> {
  const { key, state } = where
  const { scopes } = parts.dialect.waiting[origin]
  const all = [{ by: 'all' as const }]
  const by = key !== undefined ? 'key' : state
  if (by !== 'key' && by !== 'held' && by !== 'retrying') return all
  const statement = scopes[by]
  const given = where.scope === undefined ? undefined : [where.scope]
  if (statement === undefined && (by !== 'key' || given === undefined)) return all
  const names = given ?? (statement === undefined ? [] : await scopesOf(parts, statement))
  if (names.length > MANY_SCOPES) return all
  return names.map((scope) => (key !== undefined ? { by: 'key', scope, key } : { by: by as 'held', scope }))
}

async function scopesOf(parts: SqlParts, statement: Statement): Promise<readonly string[]> {
  return (await rowsOf(parts, statement)).flatMap((row) => (row['scope'] === null ? [] : [asText(row['scope'])]))
}

function along(
  parts: SqlParts,
  origin: Origin,
  path: WaitingPath,
  where: WaitingWhere,
  before: string | undefined,
  limit: number,
): Promise<Numbered<WaitingMessage>> {
  const statements: WaitingStatements = parts.dialect.waiting[origin]
  return look(parts, where, before, limit, {
    conditions: Object.values(where).some((value) => value !== undefined),
    floor: (number, rows) => statements.floor(path, number, rows),
    page: (from, number, rows) => statements.page(path, where, from, number, rows),
    read: (row) => asWaiting(origin, row),
  })
}

/** How rows of one kind are looked for. */
interface Kind<T> {
  /** Whether a row may not fit: then what is read has to be bounded, and not only what is found. */
  readonly conditions: boolean
  floor(before: string, rows: number): Statement
  page(from: string, before: string, limit: number): Statement
  read(row: Row): T
}

async function look<T extends { readonly seq: string }>(
  parts: SqlParts,
  { since }: Pick<AuditWhere, 'since'>,
  before: string | undefined,
  limit: number,
  kind: Kind<T>,
): Promise<Numbered<T>> {
  const behind = before === undefined ? BEHIND_ALL : numberOf(before)
  const [floor] = kind.conditions ? await rowsOf(parts, kind.floor(behind, LOOKED_AT)) : []
  const from = floor === undefined ? undefined : asSeq(floor['seq'])
  const rows = (await rowsOf(parts, kind.page(from === undefined ? '0' : numberOf(from), behind, limit + 1))).map(
    (row) => kind.read(row),
  )
  const found = rows.slice(0, limit)
  if (rows.length > limit) return { rows: found, before: found.at(-1)?.seq }
  const over = since !== undefined && floor !== undefined && asDate(floor['created_at']) < hourBefore(since)
  return { rows: found, before: over ? undefined : from }
}

function hourBefore(time: Date): Date {
  return new Date(time.getTime() - OUT_OF_ORDER_MS)
}

/** One page of looks along several paths: down to where all of them have looked. */
function together(looked: readonly Numbered<WaitingMessage>[], limit: number): Numbered<WaitingMessage> {
  const ends = looked.flatMap(({ before }) => before ?? []).sort(compareSeq)
  const end = ends.at(-1)
  const rows = looked.flatMap((each) => each.rows).filter(({ seq }) => end === undefined || compareSeq(seq, end) >= 0)
  const found = pageOf(rows, undefined, limit)
  return { rows: found.rows, before: found.before ?? end }
}

/** Of rows that are all there are. */
function pageOf(rows: readonly WaitingMessage[], before: string | undefined, limit: number): Numbered<WaitingMessage> {
  const older = rows.filter(({ seq }) => before === undefined || compareSeq(seq, before) < 0)
  const sorted = older.sort((a, b) => compareSeq(b.seq, a.seq))
  const found = sorted.slice(0, limit)
  return { rows: found, before: sorted.length > limit ? found.at(-1)?.seq : undefined }
}

async function ahead(parts: SqlParts, origin: Origin, seq: string): Promise<Ahead | undefined> {
  const { place, first, count } = parts.dialect.waiting[origin]
  const [row] = read(origin, await rowsOf(parts, place(seq)))
  if (row === undefined || !row.ordered || row.key === null) return undefined
  const number = numberOf(seq)
  const [before] = read(origin, await rowsOf(parts, first(row.scope, row.key, number)))
  if (before === undefined) return undefined
  const [counted] = await rowsOf(parts, count(row.scope, row.key, number, LOOKED_AT))
  return { count: Math.max(1, asNumber(counted?.['count'] ?? 0)), first: before }
}

/** Exact where there are few rows in all. Else those that are found in the bounded look of each scope. */
async function retries(parts: SqlParts, origin: Origin, limit: number): Promise<readonly WaitingMessage[]> {
  const { floor, page, scopes, due, numbered } = parts.dialect.waiting[origin]
  const where = { state: 'retrying' } as const
  const more = (await rowsOf(parts, floor({ by: 'all' }, BEHIND_ALL, LOOKED_AT))).length > 0
  if (!more) {
    const rows = await rowsOf(parts, page({ by: 'all' }, where, '0', BEHIND_ALL, LOOKED_AT))
    return byDue(read(origin, rows)).slice(0, limit)
  }
  const found: Due[] = []
  for (const scope of (await scopesOf(parts, scopes.due)).slice(0, MANY_SCOPES)) {
    const rows = (await rowsOf(parts, due(scope, LOOKED_AT))).filter((row) => asNumber(row['attempts']) > 0)
    found.push(...rows.map((row) => ({ seq: asSeq(row['seq']), dueAt: asDate(row['due_at']) })))
  }
  const next = byDue(found).slice(0, limit)
  if (next.length === 0) return []
  return byDue(
    read(
      origin,
      await rowsOf(
        parts,
        numbered(
          next.map(({ seq }) => numberOf(seq)),
          where,
        ),
      ),
    ),
  )
}

type Due = Pick<WaitingMessage, 'seq' | 'dueAt'>

function byDue<Row extends Due>(rows: readonly Row[]): readonly Row[] {
  return rows.toSorted((a, b) => a.dueAt.getTime() - b.dueAt.getTime() || compareSeq(a.seq, b.seq))
}

function read(origin: Origin, rows: readonly Row[]): readonly WaitingMessage[] {
  return rows.map((row) => asWaiting(origin, row))
}
