import { transactionClosed } from '../../base/index.ts'
import type { Executor } from '../../contracts/index.ts'
import {
  MYSQL_ONLY,
  MYSQL_SAVEPOINTS,
  type MysqlSent,
  mysqlSent,
  Reaching,
  reachOf,
  TransactionWatch,
} from '../sql/index.ts'
import { type Called, calledBy, tracedTo } from './called.ts'
import { isBusy, queried } from './client.ts'
import { doomOf } from './errors.ts'
import type { MysqlPoolClient, MysqlResult, MysqlTx } from './mysql2.ts'
import { execute } from './prepared.ts'
import { assertFits, headerOf, mostBytes, send } from './send.ts'
import { knownSession } from './session.ts'
import { NO_RESULT } from './statements/fragments.ts'

/**
 * One transaction on one connection, as handlers have it. After a deadlock the server has rolled back and every further
 * statement would commit by itself, so a doomed transaction takes no more, neither from the handler nor from hapax.
 */
export class MysqlTransaction<Client extends MysqlPoolClient> implements MysqlTx<Client> {
  readonly watch: TransactionWatch
  /** The reach of its handlers. */
  readonly reaching: Reaching = new Reaching()
  /** For the statements of hapax. */
  readonly executor: Executor
  /** A statement has left something behind in the session. */
  changed = false
  readonly #raw: Client
  #guarded: Client | undefined
  readonly #sent: MysqlSent | undefined

  constructor(client: Client) {
    this.#raw = client
    this.#sent = mysqlSent(client)
    this.watch = new TransactionWatch(doomOf, () => isBusy(client))
    this.executor = {
      query: async (text, params) => {
        this.#assertUsable()
        if (text.startsWith(MYSQL_ONLY) && knownSession(client)?.mariadb) return NO_RESULT
        return this.watch.track(send(client, { text, params }))
      },
    }
  }

  /** The opening statements have been answered: later statements are the handler's. */
  opened(): void {
    this.#sent?.begin()
  }

  /** Its handler has ended: what is sent from now on ends it. */
  ended(): void {
    this.#sent?.ended()
  }

  /** What is sent on its connection from now on is not its handler's. */
  over(): void {
    this.#sent?.over()
  }

  /** Whether the handler sent a command that may have ended it; undefined: its commands cannot be observed. */
  get mayHaveEnded(): boolean | undefined {
    return this.#sent?.mayHaveEnded
  }

  query<Row extends object = Record<string, unknown>>(
    text: string,
    params: readonly unknown[] = [],
  ): Promise<MysqlResult<Row>> {
    if (this.watch.closed) return Promise.reject(transactionClosed())
    this.reaching.add(reachOf(text, MYSQL_SAVEPOINTS))
    return this.watch.track(this.#query(text, params, calledBy(MysqlTransaction.prototype.query)))
  }

  async #query<Row>(text: string, params: readonly unknown[], called: Called): Promise<MysqlResult<Row>> {
    this.watch.assertNotDoomed()
    if (LEAVING.test(text)) this.changed = true
    assertFits(
      this.#raw,
      params.reduce<number>((sum, param) => sum + lengthOf(param), text.length),
    )
    const rows = await this.#send(text, params).catch((error: unknown) => {
      throw tracedTo(called, error)
    })
    if (Array.isArray(rows)) return { rows, rowCount: rows.length }
    return { rows: [], rowCount: headerOf(rows).affectedRows ?? 0 }
  }

  /** Prepared: an object as a value stays one value, and is not expanded into SQL. */
  #send(text: string, params: readonly unknown[]): Promise<unknown> {
    if (params.length === 0) return queried(this.#raw, { sql: text })
    return execute(this.#raw, { sql: text, values: params.map(bindable) })
  }

  get mostBytes(): number {
    return mostBytes(this.#raw)
  }

  get client(): Client {
    // `connection` is the same link in callback style.
    const use = (): void => {
      this.#assertUsable()
      this.reaching.add('unseen')
    }
    this.#guarded ??= this.watch.guard(this.#raw, use, ['connection'])
    return this.#guarded
  }

  #assertUsable(): void {
    this.watch.assertOpen()
    this.watch.assertNotDoomed()
  }
}

/** Statements that plainly leave something behind: a setting, a variable, another database, a table, a lock. */
const LEAVING =
  /(?:^|;)\s*(?:set\s+(?!transaction\b)|use\s|create\s+temporary\s|lock\s+tables?\s)|\bget_lock\s*\(|:=|\binto\s+@/i

/** A value as it is bound. Early versions of `mysql2` bind arrays and objects as JSON, a type that MariaDB does not have. */
function bindable(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype ? JSON.stringify(value) : value
}

/** The size of a value that may be a large one. */
function lengthOf(param: unknown): number {
  return typeof param === 'string' || param instanceof Uint8Array ? param.length : 0
}
