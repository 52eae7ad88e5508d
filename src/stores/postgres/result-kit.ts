// What makes a result of `pg` and its values, taken from the user's own `pg`: hapax does not import it.

import { carries, type Field } from './flight.ts'
import type { PgResult } from './pg.ts'
import type { Bound } from './wire.ts'

/** A result of `pg` that is being filled. */
export interface MutableResult extends PgResult {
  addFields(fields: readonly Field[]): void
  parseRow(values: readonly (string | null)[]): Record<string, unknown>
  addRow(row: Record<string, unknown>): void
  addCommandComplete(message: { readonly text: string }): void
}

/** Makes results as a client of `pg` makes them, with its type parsers. */
export interface ResultKit {
  /** A value of JavaScript as `pg` sends it. */
  mapValue(value: unknown): Bound
  result(): MutableResult
}

interface QueryClass {
  new (config: {
    readonly text: string
    readonly values: readonly unknown[]
  }): { readonly _result: { readonly constructor: unknown }; prepare(connection: object): void }
}

type ResultClass = new (rowMode: undefined, types: unknown) => MutableResult

interface Parts {
  readonly Result: ResultClass
  readonly mapValue: ResultKit['mapValue']
}

const found = new WeakMap<object, Parts | undefined>()
const kits = new WeakMap<object, { readonly kit: ResultKit | undefined }>()

/** Undefined for a client whose inside is not that of `pg`, or that wants its results in binary. */
export function resultKit(client: object): ResultKit | undefined {
  const known = kits.get(client)
  if (known !== undefined) return known.kit
  const kit = kitOf(client)
  kits.set(client, { kit })
  return kit
}

function kitOf(client: object): ResultKit | undefined {
  const { binary, _types, native }: { binary?: unknown; _types?: unknown; native?: unknown } = client
  const Query = queryOf(client)
  if (binary || native || Query === undefined || !carries(client)) return undefined
  if (!found.has(Query)) found.set(Query, partsOf(Query))
  const parts = found.get(Query)
  return parts && { mapValue: parts.mapValue, result: () => new parts.Result(undefined, _types) }
}

function queryOf(client: object): QueryClass | undefined {
  const Query: unknown = Reflect.get(client.constructor, 'Query')
  return isClass<QueryClass>(Query) ? Query : undefined
}

function isClass<C>(value: unknown): value is C {
  return typeof value === 'function'
}

/** `pg` tells how it maps values to whatever it binds them on. */
function partsOf(Query: QueryClass): Parts | undefined {
  let mapValue: unknown
  const nothing = (): void => {}
  const connection = {
    parsedStatements: {},
    submittedNamedStatements: {},
    parse: nothing,
    bind: ({ valueMapper }: { valueMapper?: unknown }) => {
      mapValue = valueMapper
    },
    describe: nothing,
    execute: nothing,
    sync: nothing,
    flush: nothing,
    close: nothing,
  }
  try {
    const query = new Query({ text: 'select', values: [''] })
    query.prepare(connection)
    const Result = query._result.constructor
    if (!isClass<ResultClass>(Result) || !isClass<Parts['mapValue']>(mapValue)) return undefined
    return isFillable(new Result(undefined, undefined)) ? { Result, mapValue } : undefined
  } catch {
    return undefined
  }
}

function isFillable(result: object): boolean {
  return ['addFields', 'parseRow', 'addRow', 'addCommandComplete'].every(
    (method) => typeof Reflect.get(result, method) === 'function',
  )
}
