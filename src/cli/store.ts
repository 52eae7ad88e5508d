import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { safe, shellWord, silentLogger } from '../base/index.ts'
import type { ClaimHapax } from '../claims/index.ts'
import type { ClaimStore, Store } from '../contracts/index.ts'
import { createHapax, type Hapax } from '../index.ts'
import { type Config, fromEnvironment, readConfig } from './config.ts'
import { CliError } from './io/errors.ts'
import type { Io } from './io/io.ts'

/** The options that say where the tables are. */
export interface StoreOptions {
  readonly store?: string
  readonly config?: string
  readonly schema?: string
  readonly prefix?: string
}

/** A store, and its name without credentials. */
export interface NamedStore {
  readonly name: string
  readonly store: Store<unknown>
  /** False if the SQLite file does not exist yet; an empty in-memory database stands in for it. */
  readonly exists: boolean
}

/** A store for leased work only. */
export interface NamedLeaseStore {
  readonly name: string
  readonly lease: ClaimStore
}

/** How many connections a store on a server may have; a store of a configuration file has what it has. */
export interface PoolSize {
  readonly max?: number
}

/** A hapax on any store. */
export type AnyHapax = Hapax<unknown> | ClaimHapax

/**
 * Finds the store: --store, HAPAX_STORE, or the configuration file. Nothing is opened yet. Opening a SQLite file that does not exist
 * would create it, which is only wanted with `create`.
 */
export async function findStore(
  options: StoreOptions,
  io: Io,
  mode: 'read' | 'create' = 'read',
  pool: PoolSize = {},
): Promise<NamedStore> {
  const found = await find(options, io, mode, pool)
  if (!('lease' in found)) return found
  await found.lease.close()
  throw new CliError('usage', `${found.name} stores leased work only: this command does not apply to it`, [
    'it has no tables, inbox, outbox, keys or relays, and it expires old receipts itself',
    'commands that apply: status, metrics, doctor, explain, failed list, show, retry, discard and settle',
  ])
}

/** Like `findStore`, and also a store for leased work only. */
export async function findEither(options: StoreOptions, io: Io): Promise<NamedStore | NamedLeaseStore> {
  const found = await find(options, io, 'read')
  if ('lease' in found || found.exists) return found
  await found.store.close()
  throw new CliError('not-found', `there is no database ${found.name}`, [migrateHint(options)])
}

async function find(
  options: StoreOptions,
  io: Io,
  mode: 'read' | 'create',
  pool: PoolSize = {},
): Promise<NamedStore | NamedLeaseStore> {
  const url = options.store ?? fromEnvironment(options.config, 'HAPAX_STORE', io)
  if (url !== undefined) return fromUrl(url, options, io, mode, pool)
  const config = await readConfig(io, options.config)
  if (config !== undefined) return fromConfig(config, options, io, mode, pool)
  throw new CliError('no-store', 'no store was given', [
    'on the command line:      --store sqlite:./shop.db  (or postgres://…, mysql://…)',
    'in the environment:       HAPAX_STORE=postgres://localhost/shop',
    'in a configuration file:  hapax.config.ts with  export default { store: postgres({ pool }) }',
  ])
}

/** Runs `work` on a database that has the tables, and closes it. */
export async function withHapax<T>(
  options: StoreOptions,
  io: Io,
  work: (hapax: Hapax<unknown>, found: NamedStore) => Promise<T>,
  pool: PoolSize = {},
): Promise<T> {
  return onDatabase(await findStore(options, io, 'read', pool), options, migrated(options, work))
}

/** Like `withHapax`, and also on a store for leased work only. */
export async function withEither<T>(options: StoreOptions, io: Io, work: (hapax: AnyHapax) => Promise<T>): Promise<T> {
  const found = await find(options, io, 'read')
  return 'lease' in found ? onLeases(found, work) : onDatabase(found, options, migrated(options, work))
}

/** Like `withEither`, whatever state the tables are in: `doctor` reports on it. */
export async function withEitherState<T>(
  options: StoreOptions,
  io: Io,
  work: (hapax: AnyHapax) => Promise<T>,
): Promise<T> {
  const found = await find(options, io, 'read')
  return 'lease' in found ? onLeases(found, work) : onDatabase(found, options, work)
}

type Work<T> = (hapax: Hapax<unknown>, found: NamedStore) => Promise<T>

function migrated<T>(options: StoreOptions, work: Work<T>): Work<T> {
  return async (hapax, found) => {
    await assertMigrated(found, options)
    return work(hapax, found)
  }
}

function onDatabase<T>(found: NamedStore, options: StoreOptions, work: Work<T>): Promise<T> {
  return closing(found, async () => {
    if (!found.exists) throw new CliError('not-found', `there is no database ${found.name}`, [migrateHint(options)])
    // A source is required for publishing; the command line publishes nothing under it.
    return work(createHapax({ store: found.store, source: '/hapax/cli', logger: silentLogger }), found)
  })
}

async function onLeases<T>({ lease }: NamedLeaseStore, work: (hapax: ClaimHapax) => Promise<T>): Promise<T> {
  try {
    return await work(createHapax({ store: lease, logger: silentLogger }))
  } finally {
    await lease.close()
  }
}

/** Runs `work` and closes the store in any case. If both fail, the error of `work` is thrown: it is the reason. */
export async function closing<T>({ store }: NamedStore, work: () => Promise<T>): Promise<T> {
  let result: T
  try {
    result = await work()
  } catch (error) {
    await store.close().catch(() => {})
    throw error
  }
  await store.close()
  return result
}

async function assertMigrated({ store, name }: NamedStore, options: StoreOptions): Promise<void> {
  const states = await store.schema.migrations()
  if (states.every(({ applied }) => applied)) return
  const [code, missing] = states.some(({ applied }) => applied)
    ? ['schema-outdated', 'some of the hapax tables']
    : ['schema-missing', 'the hapax tables']
  throw new CliError(code, `${name} lacks ${missing}`, [migrateHint(options)])
}

function migrateHint(options: StoreOptions): string {
  return `to create what is missing: ${command('migrate', options)}`
}

/** The error for a failed message that does not exist. */
export function noSuchFailed(seq: string, options: StoreOptions): CliError {
  return new CliError('not-found', `there is no failed message ${seq}`, [
    `to list failed messages: ${command('failed list', options)}`,
  ])
}

/** How to call this program. In a checkout, nothing is built that npx could run. */
export const PROGRAM: string = import.meta.url.endsWith('.ts') ? 'npm run -s hapax --' : 'npx hapax'

/** A command to paste that reaches the same database. Credentials are left out. */
export function command(words: string, { store, config, schema, prefix }: StoreOptions): string {
  const where = [
    config && `--config ${shellWord(safe(config))}`,
    store && `--store ${/@|password/i.test(store) ? '…' : shellWord(safe(store))}`,
    schema && `--schema ${shellWord(safe(schema))}`,
    prefix && `--prefix ${shellWord(safe(prefix))}`,
  ]
  return [PROGRAM, words, ...where].filter(Boolean).join(' ')
}

async function fromUrl(
  url: string,
  options: StoreOptions,
  io: Io,
  mode: 'read' | 'create',
  pool: PoolSize,
): Promise<NamedStore | NamedLeaseStore> {
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase()
  switch (scheme) {
    case 'sqlite':
      return fromSqlite(url, options, io, mode)
    case 'postgres':
    case 'postgresql': {
      refuse(options, 'prefix', 'use --schema on postgres')
      const { postgres } = await import('../stores/postgres/index.ts')
      const { schema } = options
      return {
        name: withoutCredentials(url),
        store: postgres({ url, ...pool, ...(schema && { schema }) }),
        exists: true,
      }
    }
    case 'mysql': {
      refuse(options, 'schema', 'use --prefix on mysql')
      const { mysql } = await import('../stores/mysql/index.ts')
      const { prefix } = options
      return { name: withoutCredentials(url), store: mysql({ url, ...pool, ...(prefix && { prefix }) }), exists: true }
    }
    case 'redis':
    case 'rediss': {
      refuse(options, 'schema', 'use --prefix on redis')
      const { redis } = await import('../stores/redis/index.ts')
      const { prefix } = options
      return { name: withoutCredentials(url), lease: redis({ url, ...(prefix && { prefix }) }) }
    }
    default:
      throw new CliError('usage', `expected the store to be a URL, got ${scheme ? `${scheme}:…` : 'something else'}`, [
        'for example sqlite:./shop.db, postgres://localhost/shop, mysql://localhost/shop or redis://localhost',
      ])
  }
}

async function fromSqlite(url: string, options: StoreOptions, io: Io, mode: 'read' | 'create'): Promise<NamedStore> {
  refuse(options, 'schema', 'use --prefix on sqlite')
  const given = url.slice('sqlite:'.length).replace(/^\/\//, '')
  if (given === '' || given === ':memory:')
    throw new CliError('usage', 'expected the path of a file, such as sqlite:./shop.db')
  const file = resolve(io.cwd, given)
  const exists = mode === 'create' || existsSync(file)
  const { sqlite } = await import('../stores/sqlite/index.ts')
  const { prefix } = options
  const store = sqlite({ path: exists ? file : ':memory:', ...(prefix && { prefix }) })
  return { name: `sqlite:${given}`, store, exists }
}

async function fromConfig(
  { name, config }: Config,
  options: StoreOptions,
  io: Io,
  mode: 'read' | 'create',
  pool: PoolSize,
): Promise<NamedStore | NamedLeaseStore> {
  const { store } = config
  if (typeof store === 'string') return fromUrl(store, options, io, mode, pool)
  for (const option of ['schema', 'prefix'] as const)
    refuse(options, option, `the store of ${name} says where its tables are`)
  if (isClaimStore(store)) return { name: `the store of ${name}`, lease: store }
  if (!isStore(store)) {
    throw new CliError('config', `expected the default export of ${name} to have a store`, [
      'export default { store: postgres({ pool }) }',
    ])
  }
  return { name: `the store of ${name}`, store, exists: true }
}

// A configuration file may bring its own copy of hapax, so stores are told by their parts and not by their class.

function isClaimStore(value: unknown): value is ClaimStore {
  return typeof value === 'object' && value !== null && 'claims' in value && value.claims !== undefined
}

function isStore(value: unknown): value is Store<unknown> {
  return typeof value === 'object' && value !== null && 'schema' in value && value.schema !== undefined
}

function refuse(options: StoreOptions, option: 'schema' | 'prefix', instead: string): void {
  if (options[option] !== undefined) throw new CliError('usage', `--${option} does not apply here: ${instead}`)
}

/** Host, port and database. User, password and parameters are left out, because they may hold secrets. */
function withoutCredentials(url: string): string {
  try {
    const { protocol, host, pathname } = new URL(url)
    return `${protocol}//${host}${pathname}`
  } catch {
    return `${url.slice(0, url.indexOf(':'))}://…`
  }
}
