import { describe, heard, heardPool, type Interrupt, unwatched, watchPool } from '../../base/index.ts'
import type {
  Connection,
  ConnectionFeatures,
  EnteredExecutor,
  Executor,
  Param,
  Reach,
  Result,
  Statement,
  TransactionOptions,
  TransactionWork,
} from '../../contracts/index.ts'
import {
  Changed,
  destroy,
  Era,
  NotSent,
  noAnswer,
  notInTransaction,
  patience,
  ranOutOfTime,
  untilAborted,
  untilAcquired,
} from '../sql/index.ts'
import { speaksUtf8 } from './encoding.ts'
import { isReadOnly } from './errors.ts'
import { MOST_BYTES } from './literal.ts'
import type { PgClient, PgPool, PgPoolClient, PgResult, PgTx } from './pg.ts'
import { PreparedNames } from './prepared.ts'
import { Run } from './run.ts'
import { asAnswer, send } from './send.ts'
import { PgTransaction } from './transaction.ts'
import { PgView, PgViews } from './views.ts'

/** Where the connections come from. */
export interface PgPools<Client extends PgPoolClient> {
  readonly size: ConnectionFeatures['pool']
  /** The user's pool, from which connections for handlers are taken. */
  readonly given?: object
  handlers(): PgPool<Client> | Promise<PgPool<Client>>
  /** For heartbeats and the like, which must not wait for handlers. */
  control(): PgPool<Client> | Promise<PgPool<Client>>
  /** A connection has given reason to doubt that it leads to the primary. */
  doubted?(): void
  /** Where a connection can be had for it. */
  readonly listen?: Connection<never>['listen']
  /** Why none can be opened at present, if it is known that the server has none left. */
  shortage?(): Error | undefined
  close(): Promise<void>
}

/** Transactions on a pool of `pg`. BEGIN travels with the first statements, COMMIT with the last ones. */
export class PgConnection<Client extends PgPoolClient> implements Connection<PgTx<Client>, PgClient> {
  readonly features: ConnectionFeatures
  readonly listen: Connection<never>['listen']
  readonly #pools: PgPools<Client>
  readonly #names: PreparedNames
  readonly #era: Era

  constructor(pools: PgPools<Client>, prepare?: boolean) {
    this.#pools = pools
    this.#era = new Era(pools.doubted)
    this.#names = new PreparedNames(prepare, warnOfPooler)
    const { size: pool, listen, given } = pools
    if (given !== undefined) watchPool({ pool: given, method: 'connect' })
    this.listen = listen
    this.features = {
      name: 'postgres',
      roundTrips: 2,
      lateUse: 'refused',
      unawaited: 'detected',
      ownTransactions: true,
      pool,
    }
  }

  transaction<T>(options: TransactionOptions, work: TransactionWork<PgTx<Client>, T>): Promise<T> {
    return this.#run(options, (run) => run.steps(options, work))
  }

  atOnce(options: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]> {
    return this.#run(options, (run) => run.whole(options, statements))
  }

  async #run<T>(options: TransactionOptions, steps: (run: Run<Client>) => Promise<T>): Promise<T> {
    for (;;) {
      const pool = this.#pool(options)
      const client = await this.#acquire(pool instanceof Promise ? await pool : pool, options.signal)
      options.acquired?.()
      const run = new Run(client, this.#names)
      const onError = (error: Error): void => run.tx.watch.lose(error)
      client.on('error', onError)
      try {
        return await untilAborted(
          options.signal,
          () => steps(run),
          () => run.destroy(),
        )
      } catch (error) {
        if (isReadOnly(error) || ranOutOfTime(options.signal?.reason)) this.#era.doubt(client)
        if (!(error instanceof Changed)) throw error
      } finally {
        run.tx.watch.close()
        client.off('error', onError)
        giveBack(client, run.broken || run.tx.stale || run.tx.changed)
      }
    }
  }

  #acquire(pool: PgPool<Client>, signal: Interrupt | undefined): Promise<Client> {
    return acquire(pool, this.#era, signal, this.#pools.shortage)
  }

  #pool({ control }: TransactionOptions): PgPool<Client> | Promise<PgPool<Client>> {
    return control ? this.#pools.control() : this.#pools.handlers()
  }

  executor(tx: PgTx<Client>): Executor {
    if (!(tx instanceof PgTransaction)) throw notInTransaction(describe(tx))
    const { watch } = tx
    return {
      query: async (text, params) => {
        await watch.idle()
        return this.#one(tx.raw, text, params)
      },
    }
  }

  enter(tx: PgTx<Client> | PgClient): EnteredExecutor {
    const leave = (): void => {}
    const view = tx instanceof PgView ? tx : undefined
    const whole = view?.transaction ?? tx
    if (whole instanceof PgTransaction) {
      const { watch } = whole
      watch.assertOpen()
      const query: Executor['query'] = async (text, params) => {
        await watch.idle()
        // It may have settled in the meantime, and its client may serve another transaction.
        watch.assertOpen()
        view?.sending()
        return this.#one(whole.raw, text, params)
      }
      return { own: false, checks: true, query, leave }
    }
    if (typeof tx?.query !== 'function') throw notInTransaction(describe(tx))
    const query: Executor['query'] = async (text, params) => asAnswer(await tx.query(text, params))
    return { own: true, checks: false, query, leave }
  }

  assertAwaited(tx: PgTx<Client>): void {
    if (tx instanceof PgTransaction) tx.watch.assertSound()
  }

  reach(tx: PgTx<Client>): Reach {
    return tx instanceof PgTransaction ? tx.reaching.take() : 'unseen'
  }

  views(tx: PgTx<Client>): PgViews<Client> | undefined {
    return tx instanceof PgTransaction ? new PgViews(tx) : undefined
  }

  mostBytes(): number {
    return MOST_BYTES
  }

  /** Without values a text may hold several statements. */
  async #one(client: PgClient, text: string, params: readonly Param[]): Promise<Result> {
    if (params.length === 0) return lastOf(await client.query(text))
    const [answer] = await send(client, [{ text, params }], this.#names)
    return answer ?? NO_ANSWER
  }

  async query(statement: Statement, limitMs: number, acquired?: () => void): Promise<Result> {
    for (;;) {
      try {
        return await this.#queryOnce(statement, limitMs, acquired)
      } catch (error) {
        // On a new connection, and after some more such errors without names.
        if (!this.#names.isRefusal(error)) throw error
      }
    }
  }

  async #queryOnce(statement: Statement, limitMs: number, acquired: (() => void) | undefined): Promise<Result> {
    const pool = await this.#pools.control()
    const { signal, over } = patience(limitMs)
    const client = await this.#acquire(pool, signal).finally(over)
    acquired?.()
    let broken = true
    let late = false
    const timer = setTimeout(() => {
      late = true
      destroy(client)
    }, limitMs)
    try {
      await speaksUtf8(client)
      const [, answer] = await send(client, [NO_JIT, statement], this.#names)
      broken = false
      return answer ?? NO_ANSWER
    } catch (error) {
      if (late || isReadOnly(error)) this.#era.doubt(client)
      if (late) throw noAnswer(limitMs)
      throw error instanceof NotSent ? error.cause : error
    } finally {
      clearTimeout(timer)
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

/**
 * A look is short, but the planner fears the worst of its recursion: once it knows that the tables are not empty, it compiles every
 * one of them, which takes ten times as long as running it.
 */
const NO_JIT: Statement = { text: `select set_config('jit', 'off', true)`, params: [], prepare: true }
const NO_ANSWER: Result = { rows: [], affected: 0 }

/**
 * A client of the pool. Whatever becomes of it, no error that it emits ends the process: the pool's own listener is not there from
 * the instant in which the pool hands it out, before the waiting caller goes on, until it is given back.
 */
async function acquire<Client extends PgPoolClient>(
  pool: PgPool<Client>,
  era: Era,
  signal: Interrupt | undefined,
  shortage: PgPools<Client>['shortage'],
): Promise<Client> {
  signal?.throwIfAborted()
  heardPool(pool)
  for (;;) {
    const client = await untilAcquired(unwatched(connect, pool), signal, (late) => late.release(), shortage)
    // `pg` refuses query objects in its pipeline mode. Flights do the same, and more.
    if (Reflect.get(client, 'pipeline') === true) {
      pipelined.add(client)
      Reflect.set(client, 'pipeline', false)
    }
    // Not every pool tells.
    heard(client)
    if (era.trusts(client)) return client
    giveBack(client, true)
  }
}

function connect<Client extends PgPoolClient>(pool: PgPool<Client>): Promise<Client> {
  return pool.connect()
}

const pipelined = new WeakSet<object>()

function giveBack(client: PgPoolClient, broken: boolean): void {
  if (pipelined.delete(client)) Reflect.set(client, 'pipeline', true)
  client.release(broken)
}

/** The result of the last statement of a text. */
function lastOf(answer: PgResult | PgResult[]): Result {
  const last = Array.isArray(answer) ? answer.at(-1) : answer
  return last === undefined ? NO_ANSWER : asAnswer(last)
}

/** A pooler is nothing that a program can be told by an error: everything works, only slower. */
function warnOfPooler(): void {
  process.emitWarning(
    'the server forgets prepared statements, as behind a pooler in transaction mode: hapax goes on without them',
    { type: 'HapaxWarning', code: 'HAPAX_NO_PREPARED_STATEMENTS' },
  )
}
