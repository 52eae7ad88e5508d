import {
  describe,
  heard,
  heardPool,
  type Interrupt,
  isHapaxError,
  isolationOption,
  systemClock,
  unwatched,
  watchPool,
  within,
} from '../../base/index.ts'
import type {
  Connection,
  ConnectionFeatures,
  EnteredExecutor,
  Executor,
  Reach,
  Result,
  Statement,
  TransactionOptions,
  TransactionWork,
} from '../../contracts/index.ts'
import {
  beforeCommit,
  byTransaction,
  cutOff,
  doomed,
  Era,
  fieldsOf,
  isHarmless,
  MYSQL_ONLY,
  mysqlReset,
  NotSent,
  noAnswer,
  notInTransaction,
  patience,
  plain,
  ranOutOfTime,
  untilAborted,
  untilAcquired,
} from '../sql/index.ts'
import { blockOf, resultsOf, valuesOf } from './block.ts'
import { destroy, takesSeveral } from './client.ts'
import { classify, isReadOnly, isUnsent } from './errors.ts'
import {
  type MysqlCallbacks,
  type MysqlClient,
  type MysqlPool,
  type MysqlPoolClient,
  type MysqlTx,
  promised,
} from './mysql2.ts'
import { OwnTransaction } from './own.ts'
import { isLarge, mostBytes, send, sendBlock, sendSeveral } from './send.ts'
import { forgetReset, knownSession, mark, sessionOf } from './session.ts'
import { NO_RESULT } from './statements/fragments.ts'
import { MysqlTransaction } from './transaction.ts'

/** The user's own connection, inside a transaction. */
export type MysqlOwn = MysqlClient | MysqlCallbacks<MysqlClient>

/** Where the connections come from. */
export interface MysqlPools<Client extends MysqlPoolClient> {
  readonly size: ConnectionFeatures['pool']
  /** The user's pool in callback style, from which connections for handlers are taken. */
  readonly given?: object
  handlers(): Promise<MysqlPool<Client>>
  /** For heartbeats and the like, which must not wait for handlers. */
  control(): Promise<MysqlPool<Client>>
  /** Why none can be opened at present, if it is known that the server has none left. */
  shortage?(): Error | undefined
  close(): Promise<void>
}

/**
 * Transactions on a pool of `mysql2`: on MariaDB, and where a text may have several statements, two round trips around the handler's own,
 * else one for each statement.
 */
export class MysqlConnection<Client extends MysqlPoolClient> implements Connection<MysqlTx<Client>, MysqlOwn> {
  readonly features: ConnectionFeatures
  readonly #pools: MysqlPools<Client>
  readonly #era = new Era()

  constructor(pools: MysqlPools<Client>) {
    this.#pools = pools
    const { size: pool, given } = pools
    if (given !== undefined) watchPool({ pool: given, method: 'getConnection' })
    this.features = {
      name: 'mysql',
      roundTrips: 2,
      lateUse: 'refused',
      unawaited: 'detected',
      ownTransactions: true,
      pool,
    }
  }

  async transaction<T>(options: TransactionOptions, work: TransactionWork<MysqlTx<Client>, T>): Promise<T> {
    const client = await this.#acquire(this.#pool(options), options.signal)
    options.acquired?.()
    const run = new Run(client)
    const onError = (error: Error): void => run.tx.watch.lose(error)
    const link = innerLink(client) ?? client
    link.on('error', onError)
    try {
      return await untilAborted(
        options.signal,
        () => run.steps(options, work),
        () => run.abort(options.signal?.reason),
      )
    } catch (error) {
      if (isReadOnly(error) || ranOutOfTime(options.signal?.reason)) this.#era.doubt(innerLink(client) ?? client)
      throw error
    } finally {
      run.tx.watch.close()
      run.tx.over()
      link.off('error', onError)
      giveBack(client, run.broken || run.tx.changed)
    }
  }

  #acquire(pool: Promise<MysqlPool<Client>>, signal: Interrupt | undefined): Promise<Client> {
    return acquire(pool, this.#era, signal, this.#pools.shortage)
  }

  #pool({ control }: TransactionOptions): Promise<MysqlPool<Client>> {
    return control ? this.#pools.control() : this.#pools.handlers()
  }

  atOnce(options: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]> {
    return byTransaction(this, options, statements)
  }

  executor(tx: MysqlTx<Client>): Executor {
    if (!(tx instanceof MysqlTransaction)) throw notInTransaction(describe(tx))
    return tx.executor
  }

  enter(tx: MysqlTx<Client> | MysqlOwn): EnteredExecutor {
    if (tx instanceof MysqlTransaction) {
      const { executor, watch } = tx
      watch.assertOpen()
      return { own: false, checks: true, query: (text, params) => executor.query(text, params), leave: () => {} }
    }
    if (!isOwn(tx)) throw notInTransaction(describe(tx))
    return new OwnTransaction(promised(tx))
  }

  assertAwaited(tx: MysqlTx<Client>): void {
    if (tx instanceof MysqlTransaction) tx.watch.assertSound()
  }

  mayHaveEnded(tx: MysqlTx<Client>): boolean | undefined {
    return tx instanceof MysqlTransaction ? tx.mayHaveEnded : undefined
  }

  reach(tx: MysqlTx<Client>): Reach {
    return tx instanceof MysqlTransaction ? tx.reaching.take() : 'unseen'
  }

  mostBytes(tx: MysqlTx<Client> | MysqlOwn): number {
    if (tx instanceof MysqlTransaction) return tx.mostBytes
    if (!isOwn(tx)) throw notInTransaction(describe(tx))
    return mostBytes(promised(tx))
  }

  async query(statement: Statement, limitMs: number, acquired?: () => void): Promise<Result> {
    const { signal, over } = patience(limitMs)
    const client = await this.#acquire(this.#pools.control(), signal).finally(over)
    acquired?.()
    let broken = false
    let late = false
    try {
      return await within(systemClock, limitMs, alone(client, statement), () => {
        late = true
        throw noAnswer(limitMs)
      })
    } catch (error) {
      if (late || isReadOnly(error)) this.#era.doubt(innerLink(client) ?? client)
      broken = !isHarmless(classify(error)) || knownSession(client)?.autocommit === false
      throw error
    } finally {
      giveBack(client, broken)
    }
  }

  isOnPool(pool: object): boolean {
    return pool === this.#pools.given
  }

  close(): Promise<void> {
    return this.#pools.close()
  }
}

function isOwn(tx: unknown): tx is MysqlOwn {
  const { query }: { query?: unknown } = fieldsOf(tx)
  return typeof query === 'function'
}

/** One statement outside any transaction. */
async function alone(client: MysqlPoolClient, statement: Statement): Promise<Result> {
  const session = await sessionOf(client)
  if (!session.autocommit) await send(client, ROLLBACK)
  if (session.uncommitted) await send(client, READ_COMMITTED)
  const answer = await send(client, statement)
  // Looked at again: the result may have told that the mode has changed.
  if (!session.autocommit) await send(client, COMMIT)
  return answer
}

/** A connection of the pool; an abort does not wait for it any longer. */
async function acquire<Client extends MysqlPoolClient>(
  pool: Promise<MysqlPool<Client>>,
  era: Era,
  signal: Interrupt | undefined,
  shortage: MysqlPools<Client>['shortage'],
): Promise<Client> {
  signal?.throwIfAborted()
  const connections = await pool
  for (;;) {
    const client = await untilAcquired(connect(connections), signal, (late) => late.release(), shortage)
    if (era.trusts(innerLink(client) ?? client)) return client
    giveBack(client, true)
  }
}

/**
 * A connection of the pool. The pool listens for the first error of a link, and there may be more, also in the instant in which it is
 * handed out, and while it is idle: an error without a listener would end the process.
 */
async function connect<Client extends MysqlPoolClient>(pool: MysqlPool<Client>): Promise<Client> {
  heardPool(pool)
  const client = await unwatched(taken, pool)
  // The pool emits no event for a connection that goes from one caller straight to the next.
  heard(innerLink(client) ?? client)
  forgetReset(client)
  return client
}

function taken<Client extends MysqlPoolClient>(pool: MysqlPool<Client>): Promise<Client> {
  return pool.getConnection()
}

type Link = Pick<MysqlPoolClient, 'on' | 'off'>

/** The connection in callback style that a promise connection wraps. */
function innerLink(client: object): Link | undefined {
  const { connection }: { connection?: Link } = client
  return connection
}

/** One transaction on one connection. */
class Run<Client extends MysqlPoolClient> {
  /** The connection cannot be trusted any more. */
  broken = false
  readonly tx: MysqlTransaction<Client>
  readonly #client: Client
  #mariadb = false
  #opened = false
  /** The handler is done, and COMMIT is not sent yet. */
  #ending = false

  constructor(client: Client) {
    this.#client = client
    this.tx = new MysqlTransaction(client)
  }

  async steps<T>({ isolation }: TransactionOptions, work: TransactionWork<MysqlTx<Client>, T>): Promise<T> {
    try {
      const answers = await this.#begin(isolation, work.first)
      this.tx.opened()
      const { value, last, committed } = await this.tx.watch.during(() => work.body(this.tx, answers))
      if (last === undefined) await this.#rollback()
      else {
        const written = await this.#commit(last)
        committed?.(written)
      }
      return value
    } catch (error) {
      if (isHapaxError(error, 'transaction-lost')) this.destroy()
      else if (!(await this.#rollback())) throw cutOff(error)
      throw error
    }
  }

  async #begin(isolation: TransactionOptions['isolation'], first: readonly Statement[]): Promise<readonly Result[]> {
    try {
      return await this.#open(isolation, first)
    } catch (error) {
      if (!isHarmless(classify(error))) this.destroy()
      throw error
    }
  }

  async #open(isolation: TransactionOptions['isolation'], first: readonly Statement[]): Promise<readonly Result[]> {
    const session = await sessionOf(this.#client)
    const { mariadb, autocommit, uncommitted } = session
    this.#mariadb = mariadb
    // A transaction that was left open would keep the isolation from being set, and be committed by the start of ours.
    if (!autocommit) await this.#send(ROLLBACK)
    await mark(this.#client, session)
    const level = isolation ?? (uncommitted ? 'read committed' : undefined)
    const begin =
      level === undefined ? [BEGIN] : [plain(`set transaction isolation level ${isolationOption(level)}`), BEGIN]
    const statements = [...begin, ...first]
    const answers = (await this.#together(statements, 'tells')) ?? (await this.#inTurn(statements))
    this.#opened = true
    return answers.slice(begin.length)
  }

  async #commit(last: readonly Statement[]): Promise<readonly Result[]> {
    try {
      const together = await this.#together([...last, COMMIT], 'stands')
      if (together !== undefined) return together.slice(0, -1)
      const answers = await beforeCommit(() => {
        this.#ending = true
        return this.#inTurn(last)
      })
      this.#ending = false
      await this.#send(COMMIT)
      return answers
    } catch (error) {
      if (classify(error) === 'lost') this.destroy()
      throw isUnsent(error) ? new NotSent(error) : error
    }
  }

  /** Statements in one round trip; undefined: not here, or not these. A statement that fails stops the rest. */
  async #together(statements: readonly Statement[], may: 'tells' | 'stands'): Promise<readonly Result[] | undefined> {
    if (!this.#mariadb) return takesSeveral(this.#client) ? sendSeveral(this.#client, statements) : undefined
    const block = blockOf(statements)
    const whole = { text: block.text, params: valuesOf(statements) }
    if (!block[may] || isLarge(this.#client, whole)) return undefined
    return resultsOf(block, await sendBlock(this.#client, whole))
  }

  async #inTurn(statements: readonly Statement[]): Promise<readonly Result[]> {
    const answers: Result[] = []
    for (const statement of statements) answers.push(await this.#send(statement))
    return answers
  }

  /** False: something is still running, and the connection was destroyed. */
  async #rollback(): Promise<boolean> {
    if (this.broken) return true
    if (!(await this.tx.watch.settled())) {
      this.destroy()
      return false
    }
    this.tx.ended()
    try {
      await this.#send(ROLLBACK)
      if (!this.#opened) await this.#send(mysqlReset)
    } catch {
      this.destroy()
    }
    return true
  }

  async #send(statement: Statement): Promise<Result> {
    if (this.#mariadb && statement.text.startsWith(MYSQL_ONLY)) return NO_RESULT
    return send(this.#client, statement)
  }

  abort(reason: unknown): NotSent | undefined {
    this.destroy()
    return this.#ending ? new NotSent(doomed('lost', reason)) : undefined
  }

  destroy(): void {
    this.broken = true
    this.tx.watch.close()
    destroy(this.#client)
  }
}

const BEGIN = plain('start transaction')
const ROLLBACK = plain('rollback')
const READ_COMMITTED = plain('set transaction isolation level read committed')
const COMMIT = plain('commit')

function giveBack(client: MysqlPoolClient, broken: boolean): void {
  if (broken) destroy(client)
  client.release()
}
