// For ORMs that hide the connection under a transaction: the user shows the pool, and the number of the session at the server tells which
// of its connections it is.

import { fieldOf, heard, heardPool, type Taking } from '../../base/index.ts'
import type { ConnectionFeatures } from '../../contracts/index.ts'
import { destroy as destroyPg, isBusy as isPgBusy } from '../../stores/sql/index.ts'
import type { Orm } from './orm.ts'

/** What a pool of `pg` or `mysql2` tells about the connections of an ORM. */
export interface PoolUnder<Tx extends object> {
  readonly client: NonNullable<Orm<Tx>['client']>
  readonly size: ConnectionFeatures['pool']
  readonly taking: Taking
  listen(): void
}

/** Connections of hapax's own control work. */
const CONTROL = 2

/** Undefined: neither a pool of `pg` nor one of `mysql2`. */
export function underPool<Tx extends object>(given: unknown): PoolUnder<Tx> | undefined {
  // The promise form of a pool of mysql2 wraps the one in callback style.
  const pool = fieldOf(given, 'pool') ?? given
  if (!isEmitter(pool)) return undefined
  if (Array.isArray(fieldOf(pool, '_clients'))) return pgPool(pool)
  return typeof fieldOf(fieldOf(pool, '_allConnections'), 'toArray') === 'function' ? mysqlPool(pool) : undefined
}

interface Emitter {
  on(event: 'error', listener: () => void): unknown
}

function isEmitter(value: unknown): value is Emitter {
  return typeof fieldOf(value, 'on') === 'function'
}

function pgPool<Tx extends object>(pool: Emitter): PoolUnder<Tx> {
  return {
    client: amongConnections('postgres', () => fieldOf(pool, '_clients')),
    size: sizeOf(fieldOf(fieldOf(pool, 'options'), 'max')),
    taking: { pool, method: 'connect' },
    listen: () => heardPool(heard(pool)),
  }
}

function mysqlPool<Tx extends object>(pool: Emitter): PoolUnder<Tx> {
  return {
    client: amongConnections('mysql', () => connectionsOf(pool)),
    size: sizeOf(fieldOf(fieldOf(pool, 'config'), 'connectionLimit')),
    taking: { pool, method: 'getConnection' },
    // Its connections emit errors of their own as well.
    listen: () => heardPool(pool),
  }
}

/** The connection of `pg` or `mysql2` whose session has the number that the server tells, among those of a pool. */
export function amongConnections<Tx extends object>(
  database: 'postgres' | 'mysql',
  connections: () => unknown,
): NonNullable<Orm<Tx>['client']> {
  return database === 'postgres'
    ? { of: (_tx, session) => found(connections(), 'processID', session), isBusy: isPgBusy, destroy: destroyPg }
    : { of: (_tx, session) => found(connections(), 'threadId', session), isBusy: isMysqlBusy, destroy: destroyMysql }
}

interface Connections {
  toArray(): unknown
}

function connectionsOf(pool: object): unknown {
  const { _allConnections }: { _allConnections?: Connections } = pool
  return _allConnections?.toArray()
}

function found(clients: unknown, field: string, session: number | undefined): object | undefined {
  if (session === undefined || !Array.isArray(clients)) return undefined
  const client: unknown = clients.find((each) => fieldOf(each, field) === session)
  return typeof client === 'object' && client !== null ? client : undefined
}

/** The size of a pool, where it is known. */
export function sizeOf(max: unknown): ConnectionFeatures['pool'] {
  return typeof max === 'number' ? { max, control: CONTROL } : undefined
}

interface MysqlInside {
  readonly stream?: { destroy?: () => void }
  readonly _command?: unknown
  readonly _commands?: { readonly length: number }
  destroy?(): void
}

function isMysqlBusy(client: object): boolean {
  const { _command, _commands }: MysqlInside = client
  return Boolean(_command) || Boolean(_commands?.length)
}

/** destroy() only ends our half: a statement that is running would keep the link. */
function destroyMysql(client: object): void {
  const inside: MysqlInside = client
  inside.destroy?.()
  inside.stream?.destroy?.()
}
