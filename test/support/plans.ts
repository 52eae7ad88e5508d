import { readFileSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import pg from 'pg'
import type { Statement } from '../../src/contracts/connection.ts'
import type { Checker, DurableStore, Place } from './databases.ts'
import { LARGE } from './large-tables.ts'
import type { RecordedStatement } from './recorded.ts'

/** Rows that a statement may read of large tables: less than any of their parts has, and more than the largest look. */
const MANY = 45_000
/** Pages that one step of a plan may read each time that it runs, however few rows it finds in them. */
const MANY_PAGES = 1_000

/** Why a statement reads more rows than it may; undefined: it does not. */
type Reader = (statement: RecordedStatement, most: number) => Promise<string | undefined>

/**
 * Runs statements again, each in a transaction that is rolled back, and returns those that read a large table from end to end, or much
 * of it, with the reason. What counts is what they read, not how long it takes.
 */
export async function scansOf(
  { place }: Checker,
  statements: readonly RecordedStatement[],
  nameOf: (statement: Statement) => string,
  most: number = MANY,
): Promise<readonly string[]> {
  const scans: string[] = []
  await using reader = await readers[place.store](place)
  for (const statement of statements.filter(isPlanned)) {
    const why = await reader.read(statement, most)
    if (why !== undefined) scans.push(`${nameOf(statement)}: ${why}: ${short(statement.text)}`)
  }
  return scans
}

/** The schema of a file is read as a whole, and is small. */
function isPlanned({ text }: Statement): boolean {
  return !text.includes('sqlite_schema') && /^\s*(\/\*.*?\*\/)?\s*\(?\s*(select|with|insert|update|delete)/i.test(text)
}

function short(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim().slice(0, 200)
}

interface Reading extends AsyncDisposable {
  readonly read: Reader
}

const readers: Record<DurableStore, (place: Place) => Promise<Reading>> = {
  postgres: async ({ url }) => {
    const client = new pg.Client(url)
    await client.connect()
    return {
      read: (statement, most) => readOfPostgres(client, statement, most),
      [Symbol.asyncDispose]: () => client.end(),
    }
  },
  mysql: async ({ url }) => {
    const client = await createConnection(url)
    /** How many rows the connection has read so far. */
    const rowsRead = async (): Promise<number> => {
      const [rows] = await client.query<RowDataPacket[]>(`show session status like 'Handler_read%'`)
      return rows.reduce((sum, row) => sum + Number(row['Value']), 0)
    }
    const before = await rowsRead()
    const asking = (await rowsRead()) - before
    return {
      read: async ({ text, params }, most) => {
        const begun = await rowsRead()
        await client.query('start transaction')
        // What was done once may not be possible again.
        await client.query(text, [...params]).catch(() => {})
        await client.query('rollback')
        const read = (await rowsRead()) - begun - asking
        return read > most * countsIn(text) ? `${read} rows` : undefined
      },
      [Symbol.asyncDispose]: () => client.end(),
    }
  },
  sqlite: async ({ url }) => {
    const client = new DatabaseSync(url)
    // Nothing is remembered from one page to the next, so that what is read can be seen from outside.
    client.exec('pragma cache_size = 10; pragma mmap_size = 0')
    return {
      read: async (statement, most) => stepOfSqlite(client, statement) ?? pagesOfSqlite(client, statement, most),
      [Symbol.asyncDispose]: async () => client.close(),
    }
  },
}

/** How many things a statement counts, each up to a limit. */
function countsIn(text: string): number {
  return Math.max(1, text.split(' as counted').length - 1)
}

/** Statements that are prepared get the plan that they have with any values. */
async function readOfPostgres(
  client: pg.Client,
  statement: RecordedStatement,
  most: number,
): Promise<string | undefined> {
  const { text, params, settings = [] } = statement
  const explain = 'explain (analyze, buffers, timing off, format json)'
  await client.query('begin')
  try {
    for (const each of settings) await client.query(each.text, [...each.params])
    if ('prepare' in statement && params.length > 0) {
      await client.query('set local plan_cache_mode = force_generic_plan')
      await client.query(`prepare planned as ${text}`)
      const values = params.map((value) => (value === null ? 'null' : client.escapeLiteral(String(value))))
      const { rows } = await client.query(`${explain} execute planned (${values.join(', ')})`)
      return stepOf(rows[0]['QUERY PLAN'][0].Plan, most)
    }
    const { rows } = await client.query(`${explain} ${text}`, [...params])
    return stepOf(rows[0]['QUERY PLAN'][0].Plan, most)
  } catch (error) {
    // What was done once may not be possible again.
    if (!(error instanceof pg.DatabaseError)) throw error
    return undefined
  } finally {
    await client.query('rollback')
    await client.query('deallocate all')
  }
}

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Shared Hit Blocks'?: number
  readonly 'Shared Read Blocks'?: number
  readonly Plans?: readonly Node[]
}

/** The step of a plan that reads too much. */
function stepOf(node: Node, most: number): string | undefined {
  const { 'Node Type': type, 'Relation Name': table, 'Actual Loops': loops, Plans: below = [] } = node
  const rows = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * loops
  const pages = (node['Shared Hit Blocks'] ?? 0) + (node['Shared Read Blocks'] ?? 0)
  const large = LARGE.some((each) => each === table) && loops > 0 && type.includes('Scan')
  if (large && (type === 'Seq Scan' || rows > most || pages > MANY_PAGES * loops + 10 * rows))
    return `${type} by ${node['Index Name']} of ${rows} rows on ${pages} pages of ${table}, ${loops} times`
  return below.map((each) => stepOf(each, most)).find((each) => each !== undefined)
}

/** What SQLite scans that is small: lists that statements are given or make, and the tables that do not grow. */
const SMALL = new Set([
  ...['json_each', 'lane', 'head', 'given', 'k', 'CONSTANT', 'known', 'f', 'h', 's', 'w', 'l', 'n', 'receipt_scope'],
  // What a statement counts, up to a limit of its own.
  'counted',
  ...['inbox', 'outbox', 'failed'].flatMap((name) =>
    ['loose', 'keyed', 'scope', 'layer', 'window', 'sample'].map((part) => `${name}_${part}`),
  ),
  ...['hapax_subscriptions', 'hapax_workers', 'hapax_relays', 'hapax_endpoints', 'hapax_migrations'],
  ...['hapax_operations', 'hapax_pauses'],
])
/** Rows by their own number, and not all of them. */
const BY_NUMBER = /order by seq (desc )?limit [?\d]/

function stepOfSqlite(client: DatabaseSync, { text, params }: Statement): string | undefined {
  for (const { detail } of client.prepare(`explain query plan ${text}`).all(...values(params))) {
    const table = /^SCAN (\w+)\b(?! VIRTUAL)/.exec(String(detail))?.[1]
    const limited = table?.startsWith('hapax_') && BY_NUMBER.test(text)
    if (table !== undefined && !limited && !SMALL.has(table)) return String(detail)
  }
  return undefined
}

/** Where the operating system counts what a process reads, every page of the file that a statement needs is one. */
function pagesOfSqlite(client: DatabaseSync, { text, params }: Statement, most: number): string | undefined {
  const begun = bytesRead()
  client.exec('begin')
  try {
    client.prepare(text).all(...values(params))
  } catch {
    // What was done once may not be possible again.
  }
  client.exec('rollback')
  const pages = Math.round((bytesRead() - begun) / 4096)
  return pages > most ? `${pages} pages` : undefined
}

function values(params: Statement['params']): readonly SQLInputValue[] {
  return [...params]
}

function bytesRead(): number {
  if (process.platform !== 'linux') return 0
  return Number(/^rchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1])
}
