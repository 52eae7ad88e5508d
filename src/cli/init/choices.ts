import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CliError } from '../io/errors.ts'
import type { Io } from '../io/io.ts'
import type { Project } from '../project.ts'
import { ACCESSES, type Access, type Database } from './accesses.ts'
import { BROKERS, type Broker } from './brokers.ts'

/** A framework that init writes something for, or tells what to do. */
type Framework = 'nestjs' | 'express' | 'fastify' | 'hono' | 'next' | 'none'

/** What `hapax init` sets up. */
export interface Choices {
  readonly access: Access
  readonly database: Database
  readonly broker: Broker
  readonly framework: Framework
}

/** What the command line says of it. */
export interface Given {
  readonly orm?: string
  readonly store?: Database
  readonly broker?: Broker
  readonly framework?: Framework
  /** Take the first of several instead of asking. */
  readonly yes?: true
}

const FRAMEWORKS: readonly (readonly [Framework, string])[] = [
  ['nestjs', '@nestjs/core'],
  ['next', 'next'],
  ['fastify', 'fastify'],
  ['hono', 'hono'],
  ['express', 'express'],
]

/** The names of the frameworks. */
export const FRAMEWORK_NAMES: readonly string[] = [...FRAMEWORKS.map(([name]) => name), 'none']

/** Packages that say which database is used. */
const DRIVERS: Readonly<Record<Database, readonly string[]>> = {
  postgres: ['pg', 'postgres', '@prisma/adapter-pg', '@mikro-orm/postgresql', '@neondatabase/serverless'],
  mysql: ['mysql2', 'mariadb', '@prisma/adapter-mariadb', '@mikro-orm/mysql', '@mikro-orm/mariadb'],
  sqlite: ['better-sqlite3', '@libsql/client', '@prisma/adapter-better-sqlite3', '@mikro-orm/sqlite', 'sqlite3'],
}

/** Finds out from package.json what to set up, and asks where that says too little or too much. */
export async function choose(project: Project, given: Given, io: Io): Promise<Choices> {
  const ask = asker(given, io)
  const access = await chooseAccess(project, given, ask)
  const database = await chooseDatabase(project, access, given, ask)
  const brokers = Object.entries(BROKERS).filter(([, { clients }]) =>
    clients.some((name) => project.packages.has(name)),
  )
  const frameworks = FRAMEWORKS.filter(([, name]) => project.packages.has(name)).map(([name]) => name)
  return {
    access,
    database,
    // Clients of Redis are more often there for a cache.
    broker: given.broker ?? (await ask('broker', brokerNames(brokers.map(([name]) => name)), 'none')),
    // Next to Nest, its platform is a package of the project too.
    framework: given.framework ?? frameworks[0] ?? 'none',
  }
}

async function chooseAccess(project: Project, given: Given, ask: Ask): Promise<Access> {
  if (given.orm !== undefined) return accessOf(given.orm)
  const has = (access: Access): boolean => access.packages.some((name) => project.packages.has(name))
  const orms = ACCESSES.filter((each) => each.isOrm && has(each))
  const found = orms.length > 0 ? orms : ACCESSES.filter(has)
  const fits = found.filter(({ on }) => given.store === undefined || on[given.store] !== undefined)
  if (fits.length === 0) refuseWorkspace(project)
  const all = fits.length > 0 ? fits : ACCESSES.filter(({ on }) => given.store === undefined || on[given.store])
  return accessOf(
    await ask(
      'orm',
      all.map(({ name }) => name),
      fits.length === 0 ? 'unknown' : undefined,
    ),
  )
}

/** In the root of a monorepo, packages do not say what one of its services uses. */
function refuseWorkspace({ isWorkspace }: Project): void {
  if (!isWorkspace) return
  throw new CliError('refused', 'this is the root of a monorepo, and its package.json names no database client', [
    'run it in the package of the service that has the database',
    'or say what to set up here: --orm drizzle --store postgres',
  ])
}

async function chooseDatabase(project: Project, access: Access, given: Given, ask: Ask): Promise<Database> {
  const able = DATABASES.filter((name) => access.on[name] !== undefined)
  if (given.store !== undefined) {
    if (able.includes(given.store)) return given.store
    throw new CliError('usage', `${access.name} does not work on ${given.store} here`, [
      `databases of ${access.name}: ${able.join(', ')}`,
    ])
  }
  const [only, another] = able
  if (only !== undefined && another === undefined) return only
  const said = access.name === 'prisma' ? prismaDatabase(project.directory) : undefined
  if (said !== undefined) return said
  const found = able.filter((name) => DRIVERS[name].some((driver) => project.packages.has(driver)))
  return databaseOf(await ask('store', found.length > 0 ? found : able, found.length === 0 ? 'unknown' : undefined))
}

/** The provider of the data source in schema.prisma. */
function prismaDatabase(directory: string): Database | undefined {
  const file = join(directory, 'prisma', 'schema.prisma')
  if (!existsSync(file)) return undefined
  const provider = /datasource\s+\w+\s*\{[^}]*provider\s*=\s*"(\w+)"/.exec(readFileSync(file, 'utf8'))?.[1]
  return provider === 'postgresql' ? 'postgres' : DATABASES.find((name) => name === provider)
}

const DATABASES: readonly Database[] = ['postgres', 'mysql', 'sqlite']

type Ask = <Name extends string>(
  option: 'orm' | 'store' | 'broker',
  names: readonly Name[],
  otherwise?: Name | 'unknown',
) => Promise<Name>

const QUESTIONS = { orm: 'Which ORM or driver', store: 'Which database', broker: 'Which broker' }

/** Asks only where there is a choice. `unknown`: nothing says which one, so that it is asked even if there is one only. */
function asker({ yes }: Given, io: Io): Ask {
  return async (option, names, otherwise) => {
    const [first] = names
    if (otherwise !== undefined && otherwise !== 'unknown' && first === undefined) return otherwise
    if (first === undefined) throw new CliError('usage', `expected --${option} to be given`)
    if ((names.length === 1 && otherwise !== 'unknown') || yes) return first
    const listed = names.join(', ')
    if (io.ask === undefined) {
      const found =
        otherwise === 'unknown'
          ? 'package.json does not say'
          : `package.json names several (${listed}) and does not say`
      throw new CliError('usage', `${found} which ${option === 'orm' ? 'ORM or driver' : option} to set up`, [
        `--${option} ${first}    (or ${names.slice(1).join(', ') || 'another one'})`,
        '--yes takes the first of them',
      ])
    }
    return askOne(io.ask, `${QUESTIONS[option]}? ${listed} [${first}]`, names, first)
  }
}

async function askOne<Name extends string>(
  ask: NonNullable<Io['ask']>,
  question: string,
  names: readonly Name[],
  first: Name,
): Promise<Name> {
  for (;;) {
    const answer = await ask(question)
    if (answer === undefined) throw new CliError('refused', 'nothing was written')
    const chosen = answer === '' ? first : names.find((name) => name === answer.toLowerCase())
    if (chosen !== undefined) return chosen
  }
}

function accessOf(name: string): Access {
  const access = ACCESSES.find((each) => each.name === name)
  if (access !== undefined) return access
  throw new CliError('usage', `expected --orm to be one that is known, got ${name}`, [
    `known: ${ACCESSES.map((each) => each.name).join(', ')}`,
  ])
}

function databaseOf(name: string): Database {
  return DATABASES.find((each) => each === name) ?? 'postgres'
}

function brokerNames(found: readonly string[]): Broker[] {
  const names = Object.keys(BROKERS)
  return [...names, 'none'].filter((name): name is Broker => found.includes(name))
}
