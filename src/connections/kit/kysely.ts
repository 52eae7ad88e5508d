// Statements through Kysely, which MikroORM works with as well.

import { expected, fieldOf } from '../../base/index.ts'
import type { Result, Statement } from '../../contracts/index.ts'

/** A database, a transaction or a connection of Kysely, as hapax calls it. */
export interface Executable {
  executeQuery(query: object): Promise<unknown>
}

/** Runs a statement on it. */
export async function runByKysely(on: Executable, statement: Statement): Promise<Result> {
  return toResult(await on.executeQuery(compiled(statement)))
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
