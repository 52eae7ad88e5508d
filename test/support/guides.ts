// What the tests of guides share: a page's commands and mappings are read from it, and done as it says.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createHapax, type MessageType, silentLogger } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { cli } from './cli.ts'
import { type OwnDatabase, ownDatabase } from './migration-tools.ts'
import { blocksOf } from './pages.ts'

/** The command that reads a table, and its output. */
const ASKED = [
  {
    form: /^psql "\$DATABASE_URL" -Atc (["'])(.*)\1 > processed\.txt$/,
    written: (values: string[]) => values.join('|'),
  },
  // Every value quoted, as many programs write CSV.
  { form: /^psql "\$DATABASE_URL" --csv -c (["'])(.*)\1 > processed\.csv$/, written: inQuotes, header: true },
  { form: /^mariadb -Nr -e (["'])(.*)\1 shop > processed\.txt$/, written: (values: string[]) => values.join('\t') },
]

function inQuotes(values: string[]): string {
  return values.map((value) => `"${value.replaceAll('"', '""')}"`).join(',')
}

/** The commands of a page that take over a table: what its client is asked, and how the answer is imported. */
export function takeOvers(page: string): TakeOver[] {
  const commands = blocksOf(page)
    .filter(({ language }) => language === 'sh')
    .map(({ code }) => code.trim().split('\n'))
  return commands.flatMap(([first = '', second = '']) => {
    return ASKED.flatMap(({ form, written, header = false }) => {
      const sql = form.exec(first)?.[2]?.replaceAll('\\"', '"')
      return sql === undefined ? [] : [{ sql, written, header, importing: second.split(' ').slice(2) }]
    })
  })
}

interface TakeOver {
  readonly sql: string
  readonly written: (values: string[]) => string
  /** Whether the first line has the column names. */
  readonly header: boolean
  readonly importing: string[]
}

/** Does what the two commands do. */
export async function takeOver(
  database: OwnDatabase,
  ask: pg.Client | ((sql: string) => Promise<object[]>),
  { sql, written, header, importing }: TakeOver,
) {
  const rows = typeof ask === 'function' ? await ask(sql) : (await ask.query<object>(sql)).rows
  const lines = rows.map((row) => Object.values(row).map(String))
  const whole = header ? [Object.keys(rows[0] ?? {}), ...lines] : lines
  const [, , file = ''] = importing
  writeFileSync(join(database.project, file), whole.map((values) => `${written(values)}\n`).join(''))
  const { exitCode, stdout, stderr } = await cli(importing, {
    cwd: database.project,
    env: { HAPAX_STORE: database.url },
  })
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  return stdout
}

export async function migrated(): Promise<{ database: OwnDatabase; client: pg.Client }> {
  const database = await ownDatabase('postgres')
  expect((await cli(['migrate', '--store', database.url])).exitCode).toBe(0)
  const client = new pg.Client(database.url)
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await database[Symbol.asyncDispose]()
  })
  return { database, client }
}

/** Delivers messages to the consumer billing and returns the outcomes. */
export async function delivered(
  url: string,
  type: MessageType<unknown>,
  source: string,
  ids: readonly string[],
): Promise<string[]> {
  const store = url.startsWith('mysql') ? mysql({ url }) : postgres({ url })
  const hapax = createHapax<typeof store>({ store, source: '/shop', logger: silentLogger })
  try {
    const billing = hapax.consumer('billing').on(type, () => {})
    const outcomes = []
    for (const id of ids) outcomes.push((await billing.handle({ id, source, type: type.type, data: {} })).status)
    return outcomes
  } finally {
    await hapax.close()
  }
}

export const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, 'a')}`

/** What the page gives to `billing.from`. */
export function mappings(page: string): object[] {
  const texts = blocksOf(page).flatMap(({ code }) => /^billing\.from\(.*?, (\{\n[\s\S]*\n\})\)$/m.exec(code)?.[1] ?? [])
  return texts.map((text) => new Function(`return ${text}`)())
}
