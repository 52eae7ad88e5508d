import { DatabaseSync } from 'node:sqlite'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import type { Statement } from '../../src/contracts/connection.ts'
import type { Checker, DurableStore, Place } from './databases.ts'
import { LARGE } from './large-tables.ts'

/** Rows that a step of a plan may read; far less than the tables have. */
const MANY = 5_000

/** What reads a large table from end to end, or much of it: one line per step of a plan, with its statement. */
export async function scansOf({ place }: Checker, statements: readonly Statement[]): Promise<readonly string[]> {
  const planned = statements.filter(({ text }) =>
    /^\s*(\/\*.*?\*\/)?\s*\(?\s*(select|with|insert|update|delete)/i.test(text),
  )
  return readers[place.store](place, planned)
}

/** Rows by their own number, and not all of them. */
const BY_NUMBER = /order by seq (desc )?limit [?\d]/

type Reader = (place: Place, statements: readonly Statement[]) => Promise<readonly string[]>

const readers: Record<DurableStore, Reader> = {
  postgres: async ({ url }, statements) => {
    const client = new pg.Client(url)
    await client.connect()
    const scans: string[] = []
    for (const { text, params } of statements) {
      await client.query('begin')
      try {
        const explain = `explain (analyze, timing off, format json) ${text}`
        const { rows } = await client.query(explain, params as unknown[])
        for (const step of steps(rows[0]['QUERY PLAN'][0].Plan)) scans.push(`${step}: ${short(text)}`)
      } catch (error) {
        // What was done once may not be possible again.
        if (!(error instanceof pg.DatabaseError)) throw error
      }
      await client.query('rollback')
    }
    await client.end()
    return scans
  },
  mysql: async ({ url }, statements) => {
    const client = await createConnection(url)
    const scans: string[] = []
    for (const { text, params } of statements) {
      const plain = text.replaceAll(/\/\*M?!.*?\*\//g, '')
      if (/^\s*insert into \S+ \([^)]*\)\s*values/i.test(plain)) continue
      const [rows] = await client.query(`explain ${plain}`, params as unknown[])
      for (const { table, type, rows: read } of rows as { table: string | null; type: string; rows: number }[]) {
        const whole = (type === 'ALL' || type === 'index') && table !== null && !table.startsWith('<')
        // What a limit leaves is not said of a table that another one is made of.
        if (whole && Number(read) > MANY && !BY_NUMBER.test(text))
          scans.push(`${type} of ${read} rows of ${table}: ${short(text)}`)
      }
    }
    await client.end()
    return scans
  },
  sqlite: async ({ url }, statements) => {
    const client = new DatabaseSync(url)
    const scans: string[] = []
    for (const { text, params } of statements) {
      const steps = client.prepare(`explain query plan ${text}`).all(...(params as string[]))
      for (const { detail } of steps) {
        const table = /^SCAN (\w+)\b(?! VIRTUAL)/.exec(String(detail))?.[1]
        // By its own number, and with a limit.
        const limited = table?.startsWith('hapax_') && BY_NUMBER.test(text)
        if (table !== undefined && !limited && !SMALL.has(table)) scans.push(`${String(detail)}: ${short(text)}`)
      }
    }
    client.close()
    return scans
  },
}

/** What SQLite scans that is small: lists that statements are given or make, and the tables that do not grow. */
const SMALL = new Set([
  ...['json_each', 'lane', 'head', 'given', 'k', 'CONSTANT', 'known', 'f', 'h'],
  ...['hapax_subscriptions', 'hapax_workers', 'hapax_relays', 'hapax_migrations'],
])

function short(text: string): string {
  return text.replaceAll(/\s+/g, ' ').slice(0, 300)
}

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Node[]
}

function steps(node: Node): readonly string[] {
  const { 'Node Type': type, 'Relation Name': table, 'Actual Loops': loops } = node
  const read = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * loops
  const large = LARGE.some((each) => each === table)
  const here =
    large && loops > 0 && (type === 'Seq Scan' || read > 4 * MANY) ? [`${type} of ${read} rows of ${table}`] : []
  return [...here, ...(node.Plans ?? []).flatMap(steps)]
}
