import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, type TestContext } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { temporaryDirectory } from '../support/cli.ts'
import { OLDEST_ORMS } from '../support/oldest-orms.ts'
import { npmInstall, oldestNode, orSkip } from '../support/registry.ts'
import { directoryIn, nodeOf, packed, run, tsc } from './app.ts'

type Versions = Readonly<Record<string, string>>

const { devDependencies, peerDependencies } = manifest

/** A project with these packages; what hapax adds to them. */
async function project(context: TestContext, dependencies: Versions): Promise<{ directory: string; added: string[] }> {
  const directory = temporaryDirectory()
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ private: true, type: 'module', dependencies }))
  await orSkip(npmInstall(directory), context.skip)
  const before = packagesIn(directory)
  await orSkip(npmInstall(directory, packed(context).tarball), context.skip)
  const added = packagesIn(directory).filter((name) => !before.includes(name))
  // An ORM may have another commander.
  return { directory, added: added.map((name) => name.replace('hapax/node_modules/', '')).sort() }
}

/** What is in `node_modules`, also in those of packages. */
function packagesIn(directory: string): string[] {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  return names.flatMap((name) => /^(?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/@.][^/]*)$/.exec(name)?.[0] ?? []).sort()
}

/** What the documentation does with each. */
const apps = {
  many: `
import { PGlite } from '@electric-sql/pglite'
import { createClient } from '@libsql/client'
import type { getPrismaClient } from '@prisma/client/runtime/client'
import Database from 'better-sqlite3'
import { sql } from 'drizzle-orm'
import { drizzle as drizzleOnSqlite } from 'drizzle-orm/better-sqlite3'
import { drizzle as drizzleOnLibsql } from 'drizzle-orm/libsql'
import { drizzle as drizzleOnMysql } from 'drizzle-orm/mysql2'
import { drizzle } from 'drizzle-orm/node-postgres'
import { createHapax, defineMessage } from 'hapax'
import { fromBetterSqlite3 } from 'hapax/better-sqlite3'
import { fromDrizzle } from 'hapax/drizzle'
import { fromKnex } from 'hapax/knex'
import { fromKysely } from 'hapax/kysely'
import { fromLibsql } from 'hapax/libsql'
import { mysql } from 'hapax/mysql'
import { fromPglite } from 'hapax/pglite'
import { postgres } from 'hapax/postgres'
import { fromPrisma } from 'hapax/prisma'
import { fromSequelize } from 'hapax/sequelize'
import { sqlite } from 'hapax/sqlite'
import knex from 'knex'
import { Kysely, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import { Sequelize, type Transaction as SequelizeTransaction } from 'sequelize'

const OrderPlaced = defineMessage<{ id: string }>('order.placed')
const source = '/shop'
const url = 'postgres://localhost/shop'

const db = drizzle(url)
const onDrizzle = createHapax({ store: postgres(fromDrizzle(db, sql)), source })
onDrizzle.consumer('billing').on(OrderPlaced, async ({ id }, ctx) => void (await ctx.tx.execute(sql\`select \${id}\`)))
void db.transaction((tx) => onDrizzle.publish(tx, OrderPlaced, { id: 'A1' }))
export const drizzles = [
  mysql(fromDrizzle(drizzleOnMysql('mysql://localhost/shop'), sql), { database: 'shop' }),
  sqlite(fromDrizzle(drizzleOnSqlite('shop.db'), sql)),
  sqlite(fromDrizzle(drizzleOnLibsql('file:shop.db'), sql)),
]

interface Tables { orders: { id: string } }
const pool = new pg.Pool({ connectionString: url })
const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
const onKysely = createHapax({ store: postgres(fromKysely(kysely, { pool })), source })
onKysely.consumer('billing').on(OrderPlaced, async ({ id }, ctx) => {
  const tx: Transaction<Tables> = ctx.tx
  await tx.insertInto('orders').values({ id }).execute()
})
void kysely.transaction().execute((tx) => onKysely.publish(tx, OrderPlaced, { id: 'A1' }))

const k = knex({ client: 'pg', connection: url })
const onKnex = createHapax({ store: postgres(fromKnex(k)), source })
onKnex.consumer('billing').on(OrderPlaced, async ({ id }, ctx) => void (await ctx.tx('orders').insert({ id })))
void k.transaction((tx) => onKnex.publish(tx, OrderPlaced, { id: 'A1' }))

const sequelize = new Sequelize(url)
const onSequelize = createHapax({ store: postgres(fromSequelize(sequelize)), source })
onSequelize.consumer('billing').on(OrderPlaced, async ({ id }, ctx) => {
  const transaction: SequelizeTransaction = ctx.tx
  await sequelize.query('insert into orders values (?)', { replacements: [id], transaction })
})

declare const prisma: InstanceType<ReturnType<typeof getPrismaClient>>
export const onPrisma = createHapax({ store: postgres(fromPrisma(prisma)), source })
export const onPglite = createHapax({ store: postgres(fromPglite(new PGlite())), source })
export const onLibsql = createHapax({ store: sqlite(fromLibsql(createClient({ url: 'file:shop.db' }))), source })
export const onSqlite = createHapax({ store: sqlite(fromBetterSqlite3(new Database('shop.db'))), source })
`,
  typeorm: `
import { createHapax, defineMessage } from 'hapax'
import { postgres } from 'hapax/postgres'
import { fromTypeorm } from 'hapax/typeorm'
import { DataSource, type EntityManager } from 'typeorm'

const OrderPlaced = defineMessage<{ id: string }>('order.placed')
const dataSource = new DataSource({ type: 'postgres', url: 'postgres://localhost/shop' })
const hapax = createHapax({ store: postgres(fromTypeorm(dataSource)), source: '/shop' })
hapax.consumer('billing').on(OrderPlaced, async ({ id }, ctx) => {
  const manager: EntityManager = ctx.tx
  await manager.query('insert into orders values ($1)', [id])
})
void dataSource.transaction((tx) => hapax.publish(tx, OrderPlaced, { id: 'A1' }))
`,
}

/** The same program without hapax: what is wrong with the types of the ORMs by themselves. */
function withoutHapax(app: string): string {
  const imports = app.split('\n').filter((line) => line.startsWith('import ') && !line.includes("'hapax"))
  return `${imports.join('\n')}\nexport {}\n`
}

/** Where `tsc` sees errors. */
async function errors(project: string, app: string): Promise<string[]> {
  const directory = directoryIn(project)
  writeFileSync(join(directory, 'app.ts'), app)
  const options = { module: 'nodenext', noEmit: true, lib: ['es2024', 'dom'] }
  const said = await tsc(project, directory, options).catch((error: Error) => error.message)
  return [...(said ?? '').matchAll(/^(\S.*?)\(\d+,\d+\): error .*$/gm)].map(([line]) => line).sort()
}

const MANY = ['@libsql/client', '@prisma/client', 'better-sqlite3', 'drizzle-orm', 'knex', 'kysely', 'sequelize']
const TOOLS: Versions = {
  '@types/better-sqlite3': '^7.6.0',
  '@types/node': devDependencies['@types/node'],
  '@types/pg': devDependencies['@types/pg'],
  typescript: devDependencies.typescript,
  mysql2: devDependencies.mysql2,
  pg: devDependencies.pg,
}

/** These packages, as old as they may be or as they are today. */
function releases(age: 'oldest' | 'newest', names: readonly string[]): Versions {
  return Object.fromEntries(names.map((name) => [name, age === 'oldest' ? (OLDEST_ORMS[name] ?? '') : 'latest']))
}

describe.for(['oldest', 'newest'] as const)('the %s ORMs', (age) => {
  it.for([
    ['many', { ...releases(age, MANY), '@electric-sql/pglite': age === 'oldest' ? '0.4.0' : 'latest' }],
    // It asks for an older better-sqlite3 than hapax works with.
    ['typeorm', releases(age, ['typeorm'])],
  ] as const)(
    '%s: hapax installs beside them, adds its one dependency, and has types that fit',
    { timeout: 600_000 },
    async ([name, orms], context) => {
      const { directory, added } = await project(context, { ...TOOLS, ...orms })
      expect(added).toEqual(['node_modules/commander', 'node_modules/hapax'])
      const theirs = await errors(directory, withoutHapax(apps[name]))
      expect(theirs.filter((line) => !line.includes('node_modules/'))).toEqual([])
      expect((await errors(directory, apps[name])).filter((line) => !theirs.includes(line))).toEqual([])
    },
  )
})

it.for<[string, Versions]>([
  [
    'TypeORM with the better-sqlite3 and the ioredis that it asks for',
    { typeorm: '^1.1.1', 'better-sqlite3': '^12.0.0', ioredis: '^5.3.0' },
  ],
  ['an old TypeORM', { typeorm: '0.2.45', pg: '^8.9.0' }],
  ['an old Prisma', { prisma: '^6.0.0', '@prisma/client': '^6.0.0', pg: '^8.9.0' }],
  ['an old Drizzle and better-sqlite3', { 'drizzle-orm': '0.36.0', 'better-sqlite3': '^11.0.0' }],
  ['old query builders', { kysely: '0.26.0', knex: '2.0.0', sequelize: '5.22.0' }],
])(
  'installs beside %s, which it may have nothing to do with',
  { timeout: 300_000 },
  async ([, dependencies], context) => {
    const directory = temporaryDirectory()
    writeFileSync(join(directory, 'package.json'), JSON.stringify({ private: true, dependencies }))
    await orSkip(npmInstall(directory, packed(context).tarball, '--package-lock-only'), context.skip)
  },
)

it('every subpath is there without any client library, except those that are about a framework', async (context) => {
  const { directory, added } = await project(context, {})
  expect(added).toEqual(['node_modules/commander', 'node_modules/hapax'])
  const paths = Object.keys(manifest.exports).filter((path) => path !== './package.json')
  for (const load of ['import', 'require']) {
    const program = `
      import { createRequire } from 'node:module'
      const require = createRequire(import.meta.url)
      for (const path of ${JSON.stringify(paths.map((path) => path.replace('.', 'hapax')))}) {
        try { await ${load}(path) } catch (error) { console.log(path, error.code, error.message.split("'")[1]) }
      }`
    const args = ['--no-warnings', '--input-type=module', '--eval', program]
    const { stdout, stderr } = await run(nodeOf(packed(context), oldestNode), args, { cwd: directory })
    expect(stderr).toBe('')
    expect(stdout.trim().split('\n')).toEqual([
      'hapax/nestjs ERR_MODULE_NOT_FOUND @nestjs/common',
      'hapax/opentelemetry ERR_MODULE_NOT_FOUND @opentelemetry/api',
    ])
  }
}, 300_000)

it('npm is told of no package that hapax does not import', () => {
  expect(Object.keys(OLDEST_ORMS).filter((name) => name in peerDependencies)).toEqual([])
})
