import { asError, isHapaxError, messageOf } from '../../base/index.ts'
import type { Finding, Result, Row, Statement } from '../../contracts/index.ts'
import type { MigrationSource } from './dialect/dialect.ts'

/** One thing to look at: a statement, and what its answer means. */
export interface Check {
  /** In a few words, for the finding. */
  readonly check: string
  readonly statement: Statement
  /** `now`: the time of this process in the middle of the round trip, and half of what that took. */
  judge(
    rows: readonly Row[],
    now: { readonly ms: number; readonly halfMs: number },
  ): CheckResult | readonly CheckResult[]
}

/** What was found, without the name of the check. */
export type CheckResult = Omit<Finding, 'check'>

/** Looks at each; one that may not be looked at is a warning and keeps no other from being looked at. */
export async function lookAt(
  query: (statement: Statement) => Promise<Result>,
  checks: readonly Check[],
): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  for (const { check, statement, judge } of checks) {
    try {
      const begun = performance.now()
      const { rows } = await query(statement)
      const halfMs = (performance.now() - begun) / 2
      const verdicts = [judge(rows, { ms: Date.now() - halfMs, halfMs })].flat()
      for (const verdict of verdicts) findings.push({ check, ...verdict })
    } catch (error) {
      if (isHapaxError(error, 'store-unavailable')) throw error
      findings.push({ check, ...unseen(error) })
    }
  }
  return findings
}

function unseen(error: unknown): CheckResult {
  return warning(
    `could not be checked: ${messageOf(asError(error))}`,
    'Run this as a user who may read it, or check it by hand.',
  )
}

/** Nothing to do. */
export function ok(message: string): CheckResult {
  return { level: 'ok', message, advice: '' }
}

/** Works today; `advice` says what to change before it does not. */
export function warning(message: string, advice: string): CheckResult {
  return { level: 'warning', message, advice }
}

/** Breaks a promise of hapax; `advice` says how to mend it. */
export function error(message: string, advice: string): CheckResult {
  return { level: 'error', message, advice }
}

/** A clock further off than this is worth a word. */
const CLOCK_MS = 1_000

/** Compares the database's clock (a column `ms`) with that of this process. */
export function clockCheck(statement: Statement): Check {
  return {
    check: 'clock',
    statement,
    judge: ([row], now) => {
      const offMs = Math.round(Number(row?.['ms']) - now.ms)
      const sure = Math.ceil(now.halfMs)
      if (Math.abs(offMs) <= CLOCK_MS + sure) return ok(`the clocks differ by ${offMs} ms, give or take ${sure}`)
      return warning(
        `the clock of the database is ${Math.abs(offMs)} ms ${offMs < 0 ? 'behind' : 'ahead of'} that of this process`,
        'Synchronise both (NTP). Delays and retention use the clock of the database; ids and message times use that of this process.',
      )
    },
  }
}

/** A table with its columns and indexes. */
export interface ExpectedTable {
  readonly columns: readonly string[]
  readonly indexes: readonly string[]
}

/** Words that begin a line of a table that is no column. */
const NO_COLUMN = ['constraint', 'primary', 'unique', 'index']

/** What the migrations make, read from their own text: by table, without schema or prefix. */
export function expectedTables(
  migrations: readonly MigrationSource[],
  bare: (name: string) => string,
): ReadonlyMap<string, ExpectedTable> {
  const tables = new Map<string, Parts>()
  const table = (name: string): Parts => {
    const known = tables.get(bare(name)) ?? { columns: new Set(), indexes: new Set() }
    tables.set(bare(name), known)
    return known
  }
  for (const text of migrations.flatMap(({ sql }) => sql)) read(text, table, tables, bare)
  return new Map([...tables].map(([name, each]) => [name, { columns: [...each.columns], indexes: [...each.indexes] }]))
}

interface Parts {
  readonly columns: Set<string>
  readonly indexes: Set<string>
}

function read(
  text: string,
  table: (name: string) => Parts,
  all: Map<string, Parts>,
  bare: (name: string) => string,
): void {
  const created = /^\s*create table (?:if not exists )?(\S+) \(\n([\s\S]*)\n\)/i.exec(text)
  const altered = /\balter table (\S+)/i.exec(text)
  for (const [, index = ''] of text.matchAll(/\bdrop index (?:if exists )?(?:\S+\.)?`?(\w+)/gi)) {
    for (const { indexes } of all.values()) indexes.delete(index)
  }
  const name = created?.[1] ?? altered?.[1]
  if (name !== undefined) {
    const { columns, indexes } = table(name)
    for (const line of created?.[2]?.split('\n') ?? []) {
      const word = /^\s*`?(\w+)/.exec(line)?.[1]
      if (word !== undefined && !NO_COLUMN.includes(word)) columns.add(word)
    }
    for (const [, column = ''] of text.matchAll(/\badd column (?:if not exists )?`?(\w+)/gi)) columns.add(column)
    for (const [, index = ''] of text.matchAll(
      /\b(?:constraint|index) (?:if not exists )?(\w+) (?:unique|primary key|\()/gi,
    )) {
      indexes.add(index)
    }
  }
  const [, dropped] = /^\s*drop table (?:if exists )?(\S+)/i.exec(text) ?? []
  if (dropped !== undefined) all.delete(bare(dropped))
  const [, before, after] = /^\s*alter table (\S+) rename to (\S+)/i.exec(text) ?? []
  if (before !== undefined && after !== undefined) {
    all.set(bare(after), table(before))
    all.delete(bare(before))
  }
  const [, index, indexed] = /^\s*create (?:unique )?index (?:if not exists )?(\S+) on (\S+)/i.exec(text) ?? []
  if (index !== undefined && indexed !== undefined) table(indexed).indexes.add(index)
}

/** Compares what is there, as `table.column` and `table.index`, with what should be. */
export function schemaVerdict(expected: ReadonlyMap<string, ExpectedTable>, found: ReadonlySet<string>): CheckResult {
  const missing: string[] = []
  for (const [name, { columns, indexes }] of expected) {
    if (!columns.some((column) => found.has(`${name}.${column}`))) {
      missing.push(`the whole table ${name}`)
      continue
    }
    for (const part of [...columns, ...indexes]) if (!found.has(`${name}.${part}`)) missing.push(`${name}.${part}`)
  }
  if (missing.length === 0) return ok(`${expected.size} tables with every column and index`)
  return error(
    `missing from the tables: ${missing.join(', ')}`,
    'The tables were changed by hand. npx hapax migrate --print shows how they are created: restore what is missing.',
  )
}

/** A size for people. */
export function size(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}
