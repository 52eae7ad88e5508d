import { readFileSync } from 'node:fs'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import type { StoreFeatures } from 'hapax/contracts'
import { fromDrizzle } from 'hapax/drizzle'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { sqlite } from 'hapax/sqlite'
import pg from 'pg'
import { expect, test } from 'vitest'
import { OLDEST_ORMS } from '../support/oldest-orms.ts'

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')

const columns: readonly StoreFeatures[] = [
  postgres({ url: 'postgres://localhost/none' }).features,
  postgres(fromDrizzle(drizzle(new pg.Pool()), sql)).features,
  mysql({ url: 'mysql://localhost/none' }).features,
  sqlite({ path: 'none.db' }).features,
]

/** The cells of a row of the README's table, without the marks of its notes. */
function cells(title: string): readonly string[] {
  const row = readme.split('\n').find((line) => line.startsWith(`| ${title}`)) ?? ''
  return row
    .split('|')
    .slice(2, -1)
    .map((cell) => cell.replace(/[¹²³]/g, '').trim())
}

test.for<[string, (features: StoreFeatures) => string]>([
  ['round trips', ({ roundTrips }) => (roundTrips === 0 ? 'none' : String(roundTrips))],
  ['isolation levels', ({ isolationLevels: all }) => (all.length === 3 ? 'all three' : all.join(', '))],
  ['publish in a transaction of your own', ({ ownTransactions }) => (ownTransactions ? 'yes' : 'no')],
  ['handlers at the same time', ({ parallelWriters }) => (parallelWriters ? 'yes' : 'one after another')],
  ['a handler uses its transaction after', ({ lateUse }) => lateUse],
  ['a handler forgets an `await`', ({ unawaited }) => unawaited],
])('the support table says of %s what the stores say', ([title, cell]) => {
  expect(cells(title)).toEqual(columns.map(cell))
})

test('the page about ORMs names the oldest releases that pass', () => {
  const page = readFileSync(new URL('../../docs/orms.md', import.meta.url), 'utf8')
  const [, said = ''] = /^\*\*The oldest releases\*\* that pass: ([\s\S]*?)\. hapax/m.exec(page) ?? []
  const named = Object.entries(OLDEST_ORMS).map(([name, version]) => `${name} ${version}`)
  expect(said.split(/,\s/).sort()).toEqual(named.sort())
})
