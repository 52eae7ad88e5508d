import type { Param, Result, Row, Statement } from '../../contracts/index.ts'
import { type Cargo, carries, type Field, fly } from './flight.ts'
import { script } from './literal.ts'
import type { PgClient, PgResult } from './pg.ts'
import type { PreparedNames } from './prepared.ts'
import type { Bound } from './wire.ts'

/** The result of a statement, and its command, such as `COMMIT`. */
export interface Answer extends Result {
  readonly command: string
}

/**
 * Sends statements of hapax's own in one round trip; a failing one stops the rest. A client that takes no query objects gets them as one
 * text with their values written in.
 */
export function send(
  client: PgClient,
  statements: readonly Statement[],
  names: PreparedNames,
): Promise<readonly Answer[]> {
  return carries(client) ? flown(client, statements, names) : scripted(client, statements)
}

function flown(
  client: Parameters<typeof fly>[0],
  statements: readonly Statement[],
  names: PreparedNames,
): Promise<readonly Answer[]> {
  const cargo = statements.map(
    ({ text, params, prepare }) => new OwnStatement(prepare ? names.of(client, text) : '', text, bound(params)),
  )
  return fly(client, cargo)
}

async function scripted(client: PgClient, statements: readonly Statement[]): Promise<readonly Answer[]> {
  // Without parameters `pg` uses the simple protocol, which returns one result per statement.
  const answer: PgResult | PgResult[] = await client.query(script(statements))
  return (Array.isArray(answer) ? answer : [answer]).map(asAnswer)
}

/** A result of `pg`. */
export function asAnswer({ rows, rowCount, command }: PgResult): Answer {
  return { rows, affected: rowCount ?? 0, command: command ?? '' }
}

function bound(params: readonly Param[]): readonly Bound[] {
  return params.length === 0 ? NO_VALUES : params.map((param) => (typeof param === 'number' ? String(param) : param))
}

const NO_VALUES: readonly Bound[] = []

/** One of hapax's own statements. Values stay texts, whatever type parsers the user has set; only bytes are decoded. */
class OwnStatement implements Cargo, Answer {
  readonly name: string
  readonly text: string
  readonly values: readonly Bound[]
  readonly rows: Row[] = []
  affected = 0
  command = ''
  #fields: readonly Field[] = []

  constructor(name: string, text: string, values: readonly Bound[]) {
    this.name = name
    this.text = text
    this.values = values
  }

  columns(fields: readonly Field[]): void {
    this.#fields = fields
  }

  row(values: readonly (string | null)[]): void {
    const row: Record<string, unknown> = {}
    for (let index = 0; index < values.length; index++) {
      const { name, dataTypeID } = this.#fields[index] ?? NO_FIELD
      const value = values[index] ?? null
      row[name] = dataTypeID === BYTEA && value !== null ? bytes(value) : value
    }
    this.rows.push(row)
  }

  complete(tag: string): void {
    const space = tag.indexOf(' ')
    this.command = space === -1 ? tag : tag.slice(0, space)
    if (space !== -1) this.affected = Number(tag.slice(tag.lastIndexOf(' ') + 1)) || 0
  }
}

const BYTEA = 17
const NO_FIELD: Field = { name: '', dataTypeID: 0 }

/** A bytea as text: hexadecimal digits, or escapes where the session says so. */
function bytes(text: string): Uint8Array {
  if (text.startsWith('\\x')) return Buffer.from(text.slice(2), 'hex')
  const unescaped = text.replace(/\\(\\|[0-7]{3})/g, (_, code: string) =>
    code === '\\' ? code : String.fromCharCode(Number.parseInt(code, 8)),
  )
  return Buffer.from(unescaped, 'latin1')
}
