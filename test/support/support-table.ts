import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { SqlDatabase } from 'hapax/contracts'
import type { HarnessFeatures } from 'hapax/testing'
import { type PageTable, rowsOf, writeRow } from './page-table.ts'

const root = join(import.meta.dirname, '..', '..')
const table: PageTable = { path: join(root, 'docs', 'orms.md'), head: '| pair |', keys: 2 }

/** Where they are called otherwise than users call them. */
const packages: Readonly<Record<string, string>> = {
  drizzle: 'drizzle-orm',
  libsql: '@libsql/client',
  'mikro-orm': '@mikro-orm/core',
  'postgres.js': 'postgres',
  prisma: '@prisma/client',
}

/** Packages of ORMs that may bring drivers of their own. */
const bringers: Readonly<Record<string, readonly string[]>> = {
  'mikro-orm': ['@mikro-orm/postgresql', '@mikro-orm/mysql', '@mikro-orm/sqlite'],
}

const databases: Readonly<Record<SqlDatabase, string>> = {
  postgres: 'PostgreSQL',
  mysql: 'MariaDB, MySQL',
  sqlite: 'SQLite',
}

/** What the table says of every pair, and so says nothing about one of them. */
const COMMON = ['statements that commit', 'row locks', 'a pool', 'sessions', 'a connection', 'something left open']

/** A pair, by the names that its row begins with. */
export interface Named {
  readonly orm: string
  readonly driver: string
  readonly database: SqlDatabase
}

/** The row of a pair in the table of docs/orms.md: what its features say and its suite has shown. */
export function rowOf({ orm, driver, database }: Named, features: HarnessFeatures): string {
  const names = orm === driver ? [driver] : [orm, driver]
  const versions = new Set(names.map((name) => packages[name] ?? name))
  const without = Object.keys(features.cannot).filter((need) => !COMMON.includes(need))
  const cells = [
    names.join(' on '),
    databases[database],
    [...versions].map((name) => `${name} ${versionOf(name, bringers[orm])}`).join(', '),
    features.roundTrips === 0 ? 'none' : String(features.roundTrips),
    features.lateUse,
    features.unawaited,
    features.ownTransactions ? 'yes' : 'no',
    without.length === 0 ? '' : without.join(', '),
  ]
  return `| ${cells.join(' | ')} |`.replaceAll('|  |', '| |')
}

/** The rows of the table as it stands. */
export function rows(): readonly string[] {
  return rowsOf(table)
}

/** Writes a row in the place of the one of the same pair, or adds it. */
export function writePair(row: string): void {
  writeRow(table, row)
}

function versionOf(name: string, bringers: readonly string[] = []): string {
  const modules = createRequire(join(root, 'package.json')).resolve.paths(name)?.[0] ?? ''
  const own = bringers.map((bringer) => join(modules, bringer, 'node_modules'))
  const home = own.find((each) => existsSync(join(each, name))) ?? modules
  const { version } = JSON.parse(readFileSync(join(home, name, 'package.json'), 'utf8')) as { version: string }
  return version
}
