import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { drizzle as drizzleBetterSqlite3 } from 'drizzle-orm/better-sqlite3'
import { migrate as migrateBetterSqlite3 } from 'drizzle-orm/better-sqlite3/migrator'
import { drizzle as drizzleMysql2 } from 'drizzle-orm/mysql2'
import { migrate as migrateMysql2 } from 'drizzle-orm/mysql2/migrator'
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres'
import { migrate as migratePg } from 'drizzle-orm/node-postgres/migrator'
import knex, { type Knex } from 'knex'
import { type Dialect, Kysely, MysqlDialect, PostgresDialect, SqliteDialect } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { createPool as createCallbackPool } from 'mysql2'
import { createConnection, createPool } from 'mysql2/promise'
import pg from 'pg'
import { DataSource } from 'typeorm'
import manifest from '../../package.json' with { type: 'json' }
import { installed } from './registry.ts'
import { requireServer } from './servers.ts'

/** A database of its own: tools write tables beside those of hapax, under fixed names. */
export interface OwnDatabase extends AsyncDisposable {
  readonly store: 'postgres' | 'mysql' | 'sqlite'
  readonly url: string
  /** The path of the file, on SQLite. */
  readonly file: string
  /** A project in which the packages of this one are installed. */
  readonly project: string
}

// It has no types of its own.
const BetterSqlite3 = createRequire(import.meta.url)('better-sqlite3')

const root = join(import.meta.dirname, '..', '..')

/** Installs what this package has installed, and this package itself. */
function linkPackages(project: string): void {
  const modules = join(project, 'node_modules')
  mkdirSync(modules)
  for (const name of readdirSync(join(root, 'node_modules')))
    symlinkSync(join(root, 'node_modules', name), join(modules, name))
  symlinkSync(root, join(modules, 'hapax'))
}

/** Makes an empty database, and an empty project beside it. */
export async function ownDatabase(
  store: OwnDatabase['store'],
  manifest: object = { type: 'module' },
): Promise<OwnDatabase> {
  const project = mkdtempSync(join(tmpdir(), 'hapax-tool-'))
  linkPackages(project)
  writeFileSync(join(project, 'package.json'), JSON.stringify(manifest))
  const name = `tool_${randomBytes(5).toString('hex')}`
  const file = join(project, 'shop.db')
  const url = store === 'sqlite' ? `sqlite:${file}` : await created(store, name)
  return {
    store,
    url,
    file,
    project,
    [Symbol.asyncDispose]: async () => {
      if (store !== 'sqlite')
        await onServer(store, `drop database ${name}${store === 'postgres' ? ' with (force)' : ''}`)
      rmSync(project, { recursive: true, force: true })
    },
  }
}

async function created(store: 'postgres' | 'mysql', name: string): Promise<string> {
  await onServer(store, `create database ${name}`)
  // The role of the tests is called hapax. By default, tools would find the tables of a schema of that name instead of their own.
  if (store === 'postgres') await onServer(store, `alter database ${name} set search_path = public`)
  const url = new URL(requireServer(store))
  url.pathname = `/${name}`
  return url.href
}

async function onServer(store: 'postgres' | 'mysql', text: string): Promise<void> {
  const url = requireServer(store)
  if (store === 'postgres') {
    const client = new pg.Client(url)
    await client.connect()
    await client.query(text)
    await client.end()
  } else {
    const client = await createConnection(url)
    await client.query(text)
    await client.end()
  }
}

/** A tool that applies migrations, through its own programs. */
export interface MigrationTool {
  readonly format: string
  /** Applies the migrations of a folder. */
  up(database: OwnDatabase, folder: string): Promise<void>
  /** Takes the last migration back, if the tool can. */
  readonly down?: (database: OwnDatabase, folder: string) => Promise<void>
}

/** The tools, by their formats. */
export const migrationTools: readonly MigrationTool[] = [
  { format: 'drizzle', up: drizzleUp },
  // `prisma migrate deploy` sends the whole file at once; its engine is a program that has to be downloaded, so this sends it instead.
  { format: 'prisma', up: whole },
  {
    format: 'kysely',
    up: (database, folder) => withKysely(database, folder, (migrator) => migrator.migrateToLatest()),
    down: (database, folder) => withKysely(database, folder, (migrator) => migrator.migrateDown()),
  },
  {
    format: 'knex',
    up: (database, folder) => withKnex(database, (db) => db.migrate.latest(knexFiles(folder))),
    down: (database, folder) => withKnex(database, (db) => db.migrate.rollback(knexFiles(folder))),
  },
  {
    format: 'typeorm',
    up: (database, folder) => withTypeorm(database, folder, (source) => source.runMigrations()),
    down: (database, folder) => withTypeorm(database, folder, (source) => source.undoLastMigration()),
  },
  {
    format: 'mikro-orm',
    up: (database, folder) => withMikroOrm(database, folder, (migrator) => migrator.up()),
    down: (database, folder) => withMikroOrm(database, folder, (migrator) => migrator.down()),
  },
]

async function drizzleUp({ store, url, file }: OwnDatabase, migrationsFolder: string): Promise<void> {
  if (store === 'postgres') {
    const pool = new pg.Pool({ connectionString: url })
    await migratePg(drizzlePg(pool), { migrationsFolder }).finally(() => pool.end())
  } else if (store === 'mysql') {
    const pool = createPool(url)
    await migrateMysql2(drizzleMysql2(pool), { migrationsFolder }).finally(() => pool.end())
  } else {
    const client = new BetterSqlite3(file)
    migrateBetterSqlite3(drizzleBetterSqlite3(client), { migrationsFolder })
    client.close()
  }
}

async function whole({ store, url, file }: OwnDatabase, folder: string): Promise<void> {
  const [name = ''] = await readdir(folder)
  const text = readFileSync(join(folder, name, 'migration.sql'), 'utf8')
  if (store === 'postgres') {
    const client = new pg.Client(url)
    await client.connect()
    await client.query(text).finally(() => client.end())
  } else if (store === 'mysql') {
    const client = await createConnection({ uri: url, multipleStatements: true })
    await client.query(text).finally(() => client.end())
  } else {
    const client = new DatabaseSync(file)
    client.exec(text)
    client.close()
  }
}

async function withKysely(
  database: OwnDatabase,
  folder: string,
  work: (migrator: Migrator) => ReturnType<Migrator['migrateToLatest']>,
): Promise<void> {
  const db = new Kysely<unknown>({ dialect: kyselyDialect(database) })
  try {
    const { error } = await work(new Migrator({ db, provider: { getMigrations: () => kyselyModules(folder) } }))
    if (error !== undefined) throw error
  } finally {
    await db.destroy()
  }
}

function kyselyDialect({ store, url, file }: OwnDatabase): Dialect {
  if (store === 'postgres') return new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) })
  if (store === 'mysql') return new MysqlDialect({ pool: createCallbackPool(url) })
  return new SqliteDialect({ database: new BetterSqlite3(file) })
}

/** What Kysely's own provider does, which would hide from Vitest where modules are. */
async function kyselyModules(folder: string): Promise<Record<string, Migration>> {
  const names = await readdir(folder)
  const modules = names.map(async (name) => [name, await import(pathToFileURL(join(folder, name)).href)])
  return Object.fromEntries(await Promise.all(modules))
}

const knexFiles = (directory: string): Knex.MigratorConfig => ({
  directory,
  extension: 'ts',
  loadExtensions: ['.ts', '.js'],
})

async function withKnex({ store, url, file }: OwnDatabase, work: (db: Knex) => Promise<unknown>): Promise<void> {
  const clients = { postgres: 'pg', mysql: 'mysql2', sqlite: 'better-sqlite3' }
  const connection = store === 'sqlite' ? { filename: file } : url
  const db = knex({ client: clients[store], connection, useNullAsDefault: true })
  await work(db).finally(() => db.destroy())
}

async function withTypeorm(
  { store, url, file }: OwnDatabase,
  folder: string,
  work: (source: DataSource) => Promise<unknown>,
): Promise<void> {
  const migrations = [join(folder, '*.{ts,js}')]
  const source = new DataSource(
    store === 'sqlite' ? { type: 'better-sqlite3', database: file, migrations } : { type: store, url, migrations },
  )
  await source.initialize()
  await work(source).finally(() => source.destroy())
}

interface MikroMigrator {
  up(): Promise<unknown>
  down(): Promise<unknown>
}

/** From a project of its own: its migrations are a package that nothing else here needs. */
async function withMikroOrm(
  database: OwnDatabase,
  folder: string,
  work: (migrator: MikroMigrator) => Promise<unknown>,
): Promise<void> {
  const packages = await withMikroOrmPackages(database)
  const { store, url, file } = database
  const require = createRequire(join(packages, 'package.json'))
  const load = (name: string) => import(pathToFileURL(require.resolve(name)).href)
  const { Migrator: extension } = await load('@mikro-orm/migrations')
  const { MikroORM } = await load(`@mikro-orm/${{ postgres: 'postgresql', mysql: 'mariadb', sqlite: 'sqlite' }[store]}`)
  const orm = await MikroORM.init({
    ...(store === 'sqlite' ? { dbName: file } : { clientUrl: url }),
    entities: [],
    discovery: { warnWhenNoEntities: false },
    extensions: [extension],
    migrations: { path: folder, snapshot: false },
  })
  await work(orm.migrator).finally(() => orm.close())
}

/** Gives a project the packages of MikroORM, with its migrations; returns where they are. */
export async function withMikroOrmPackages({ project }: OwnDatabase): Promise<string> {
  const version = manifest.devDependencies['@mikro-orm/core']
  const names = ['core', 'migrations', 'postgresql', 'mariadb', 'sqlite'].map((name) => `@mikro-orm/${name}`)
  const packages = await installed(Object.fromEntries(names.map((name) => [name, version])))
  const modules = join(project, 'node_modules', '@mikro-orm')
  rmSync(modules, { force: true })
  symlinkSync(join(packages, 'node_modules', '@mikro-orm'), modules)
  return packages
}
