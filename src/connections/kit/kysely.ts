// Statements through Kysely, which MikroORM works with as well.

import { expected, fieldOf } from '../../base/index.ts'
import type { Result, Statement } from '../../contracts/index.ts'

/** A database, a transaction or a connection of Kysely, as hapax calls it. */
export interface Executable {
  executeQuery(query: object): Promise<unknown>
}

/** A connection of Kysely's. */
export interface KyselySession extends Executable {
  executeQuery(query: object, ...more: unknown[]): Promise<unknown>
}

/** What lends the connection of a database, or of a transaction, to one caller at a time. */
export interface KyselyExecutor {
  provideConnection<T>(work: (session: KyselySession) => Promise<T>): Promise<T>
}

/** Runs a statement on it. */
export async function runByKysely(on: Executable, statement: Statement): Promise<Result> {
  return toResult(await on.executeQuery(compiled(statement)))
}

/** Runs a statement outside of transactions. */
export function runAlone(executor: KyselyExecutor, statement: Statement): Promise<Result> {
  return executor.provideConnection((session) => {
    watch(session)
    return runByKysely(session, statement)
  })
}

/**
 * Runs a statement in a transaction of the user's, unless the end of it was sent: Kysely sends COMMIT and ROLLBACK past the statements that wait
 * for their turn, and these would come after it.
 */
export function runInside(tx: object, executor: KyselyExecutor, statement: Statement): Promise<Result> {
  return executor.provideConnection((session) => {
    const span = spans.get(tx) ?? watch(session)
    spans.set(tx, span)
    if (span.over) throw new Error(OVER)
    return runByKysely(session, statement)
  })
}

/** As Kysely says it. */
export const OVER = 'Transaction is already committed or rolled back'

const BEGIN = /^\s*(begin|start transaction)\b/i
const END = /^\s*(commit|rollback)\b(?!\s+to\b)/i

/** A transaction on a connection, and whether its end was sent. */
interface Span {
  over: boolean
}

const current = new WeakMap<KyselySession, Span>()
const spans = new WeakMap<object, Span>()

/** The transaction that a connection is in. From now on, it is seen when one begins, and when it ends. */
function watch(session: KyselySession): Span {
  const known = current.get(session)
  if (known !== undefined) return known
  const first = { over: false }
  current.set(session, first)
  const execute = session.executeQuery.bind(session)
  session.executeQuery = (query, ...more) => {
    const text = String(fieldOf(query, 'sql'))
    if (BEGIN.test(text)) current.set(session, { over: false })
    else if (END.test(text)) (current.get(session) ?? first).over = true
    return execute(query, ...more)
  }
  return first
}

/** A statement as `CompiledQuery.raw` of Kysely makes it. */
function compiled({ text, params }: Statement): object {
  return {
    sql: text,
    parameters: params,
    query: { kind: 'RawNode', sqlFragments: [text], parameters: [] },
    queryId: { queryId: 'hapax' },
  }
}

function toResult(answer: unknown): Result {
  const rows = fieldOf(answer, 'rows')
  if (!Array.isArray(rows)) expected('db', 'a Kysely database whose results have rows', answer)
  return { rows, affected: rows.length > 0 ? rows.length : Number(fieldOf(answer, 'numAffectedRows') ?? 0) }
}
