// Lets a store work through Prisma, on its adapters for PostgreSQL, MySQL or MariaDB, and SQLite.

import { expected, fieldOf, heardPool, type Isolation, type Taking } from '../../base/index.ts'
import type { ConnectionSource, Param, Result, Row, SqlDatabase, Statement } from '../../contracts/index.ts'
import { type Orm, OrmConnection, type Track } from '../kit/index.ts'
import { asOfDriver } from './errors.ts'
import { lentByPrisma } from './lending.ts'

/** The subset of a Prisma client that hapax needs, also of one with extensions; `Tx` is its own type of transactions. */
export interface PrismaDatabase<Tx> {
  $transaction<T>(work: (tx: Tx) => Promise<T>, options?: never): Promise<T>
  $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>
  $executeRawUnsafe(text: string, ...values: never[]): PromiseLike<number>
  readonly $extends: unknown
}

/**
 * Lets a store work through Prisma: `postgres(fromPrisma(prisma))`, `mysql(fromPrisma(prisma), { database })` or
 * `sqlite(fromPrisma(prisma))`. `ctx.tx` and `publish` then take Prisma's own transactions, with the models and extensions of the client.
 */
export function fromPrisma<Tx extends object>(prisma: PrismaDatabase<Tx>): ConnectionSource<Tx> {
  if (!isClient(prisma)) expected('prisma', 'a Prisma client', prisma)
  return { on: (database) => new OrmConnection(ormOn(database, prisma)) }
}

// What hapax calls, as it calls it. The interface above leaves types open, so that it fits what Prisma generates.

interface Queryable {
  $queryRawUnsafe(text: string, ...values: readonly Param[]): PromiseLike<unknown>
  $executeRawUnsafe(text: string, ...values: readonly Param[]): PromiseLike<number>
}

interface Client<Tx> extends Queryable {
  $transaction<T>(work: (tx: Tx) => Promise<T>, options: TransactionLimits): Promise<T>
  $extends(extension: { query: { $allOperations(operation: Operation): Promise<unknown> } }): Client<Tx>
}

interface TransactionLimits {
  readonly timeout: number
  readonly maxWait: number
  readonly isolationLevel?: string
}

/** A statement on its way, as Prisma shows it to an extension. */
interface Operation {
  /** Undefined: raw SQL. */
  readonly model?: string | undefined
  readonly args: unknown
  query(args: unknown): PromiseLike<unknown>
}

/** Prisma's own limits, 5 and 2 seconds unless others are set, are as long as a timer can be. */
const LONGEST_MS = 2 ** 31 - 1

/** What `mariadb` says of a connection that has died in its pool: another one is taken. */
const SOCKET_CLOSED = 45009
const MOST_TRIES = 10

const LEVELS: Readonly<Record<Isolation, string>> = {
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  serializable: 'Serializable',
}

function ormOn<Tx extends object>(database: SqlDatabase, prisma: Client<Tx>): Orm<Tx> {
  assertOn(database, prisma)
  /** Texts of hapax's own statements on their way, by transaction. */
  const own = new WeakMap<object, Set<string>>()
  const adapter = fieldOf(fieldOf(prisma, '_engineConfig'), 'adapter')
  const asOne = (error: unknown): unknown => asOfDriver(database, error)
  return {
    name: 'prisma',
    database,
    // The adapter for MariaDB prepares what has values, each time anew.
    features: { lateUse: 'refused', ...(database === 'mysql' && { roundTrips: 11 }) },
    tracks: true,
    transaction: async (work, isolation, track) => {
      const texts = new Set<string>()
      const watched = prisma.$extends({ query: { $allOperations: (operation) => tracked(operation, texts, track) } })
      let isBegun = false
      const begun = (tx: Tx): ReturnType<typeof work> => {
        isBegun = true
        own.set(tx, texts)
        return work(tx)
      }
      // SQLite has one level only.
      const level = isolation === undefined || database === 'sqlite' ? {} : { isolationLevel: LEVELS[isolation] }
      const limits = { timeout: LONGEST_MS, maxWait: LONGEST_MS, ...level }
      for (let tries = 1; ; tries++) {
        try {
          return await rethrown(asOne, watched.$transaction(begun, { ...limits }))
        } catch (error) {
          if (isBegun || tries === MOST_TRIES || fieldOf(error, 'errno') !== SOCKET_CLOSED) throw error
        }
      }
    },
    run: async (tx, statement) => {
      const texts = tx === undefined ? undefined : own.get(tx)
      texts?.add(statement.text)
      try {
        return await rethrown(asOne, sent(tx === undefined ? prisma : queryable(tx), statement))
      } finally {
        texts?.delete(statement.text)
      }
    },
    lend: lentByPrisma,
    // A client that is no transaction can be connected.
    isTransaction: (tx): tx is Tx => isQueryable(tx) && typeof fieldOf(tx, '$connect') !== 'function',
    // It sends statements that are begun at the same moment together, and drops the rest of them when one fails.
    refusesEnded: true,
    isOver: (error) => fieldOf(error, 'code') === 'P2028',
    isCommitted: (error) =>
      fieldOf(error, 'code') === 'P2028' && /on a committed transaction/.test(String(fieldOf(error, 'message'))),
    // The adapters listen to the errors of their connections.
    killable: true,
    listen: () => {
      if (database === 'postgres') hearAdapter(adapter)
    },
    taking: () => takingOf(adapter),
    // They are seen by `track`.
    isQueryError: () => false,
    asOfDriver: asOne,
  }
}

interface Factory {
  connect(...args: unknown[]): Promise<unknown>
}

/** The pool of each adapter, once it is known. */
const pools = new WeakMap<object, object | undefined>()

/**
 * The adapter for `pg` listens to a connection a moment after the pool has handed it out. What the server sends in between, together with
 * the answer to the last statement of the one before, would end the process.
 */
function hearAdapter(factory: unknown): void {
  if (!isFactory(factory) || pools.has(factory)) return
  pools.set(factory, hearPool(fieldOf(factory, 'externalPool')))
  const { connect } = factory
  // Prisma connects with its first statement, and shows the pool to nobody but the factory.
  factory.connect = async (...args) => {
    const adapter = await connect.apply(factory, args)
    const driver = fieldOf(adapter, 'underlyingDriver')
    if (typeof driver === 'function') pools.set(factory, hearPool(driver.call(adapter)))
    return adapter
  }
}

function hearPool(pool: unknown): object | undefined {
  if (typeof pool !== 'object' || pool === null) return undefined
  heardPool(pool)
  return pool
}

function takingOf(factory: unknown): Taking | undefined {
  const pool = isFactory(factory) ? pools.get(factory) : undefined
  return pool && { pool, method: 'connect' }
}

function isFactory(factory: unknown): factory is Factory {
  return typeof fieldOf(factory, 'connect') === 'function'
}

/** Statements of hapax itself are watched by the kit. */
function tracked({ model, args, query }: Operation, own: ReadonlySet<string>, track: Track): Promise<unknown> {
  const text: unknown = Array.isArray(args) ? args[0] : fieldOf(args, 'sql')
  // Prisma's promises send their statement each time that somebody waits for them.
  const sending = (async () => assertSent(await query(args)))()
  return typeof text === 'string' && own.has(text)
    ? sending
    : track(sending, model === undefined ? { text } : undefined)
}

async function rethrown<T>(asOne: (error: unknown) => unknown, result: Promise<T>): Promise<T> {
  try {
    return await result
  } catch (error) {
    throw asOne(error)
  }
}

/** Of statements that are begun at the same moment Prisma drops those after one that fails, and resolves them with undefined. */
function assertSent<T>(result: T): T {
  if (result === undefined) throw new Error('Prisma has dropped a statement: another one that was sent with it failed')
  return result
}

/** Prisma returns either rows or their number. */
const WITH_ROWS = /^[\s(]*(select|with|show|values|explain)\b|\breturning\b/i

async function sent(on: Queryable, { text, params }: Statement): Promise<Result> {
  if (!WITH_ROWS.test(text)) return { rows: [], affected: assertSent(await on.$executeRawUnsafe(text, ...params)) }
  const rows = assertSent(await on.$queryRawUnsafe(text, ...params))
  if (!Array.isArray(rows)) expected('prisma', 'a Prisma client whose raw queries return rows', rows)
  return { rows: rows.map(asPlain), affected: rows.length }
}

/** Numbers of any size come as objects of a library of Prisma's. */
function asPlain(row: object): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, isDecimal(value) ? value.toFixed() : value]),
  )
}

function isDecimal(value: unknown): value is { toFixed(): string } {
  return typeof value === 'object' && typeof fieldOf(value, 'toFixed') === 'function'
}

function assertOn(database: SqlDatabase, prisma: object): void {
  const provider = fieldOf(fieldOf(fieldOf(prisma, '_engineConfig'), 'adapter'), 'provider')
  if (typeof provider === 'string' && provider !== database) {
    expected('prisma', `a Prisma client on ${database}`, `one on ${provider}`)
  }
}

function isClient<Tx>(prisma: PrismaDatabase<Tx>): prisma is PrismaDatabase<Tx> & Client<Tx> {
  return isQueryable(prisma) && has(prisma, ['$transaction', '$extends'])
}

function isQueryable(tx: unknown): tx is Queryable {
  return has(tx, ['$queryRawUnsafe', '$executeRawUnsafe'])
}

function queryable(tx: unknown): Queryable {
  return isQueryable(tx) ? tx : expected('tx', 'a transaction of Prisma', tx)
}

function has(value: unknown, methods: readonly string[]): boolean {
  return methods.every((method) => typeof fieldOf(value, method) === 'function')
}
