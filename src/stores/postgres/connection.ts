import {
  describe,
  HapaxError,
  heard,
  heardPool,
  isHapaxError,
  isolationOption,
  transactionClosed,
} from '../../base/index.ts'
import type {
  Connection,
  ConnectionFeatures,
  EnteredExecutor,
  Executor,
  Param,
  Result,
  Statement,
  TransactionOptions,
  TransactionWork,
} from '../../contracts/index.ts'
import {
  beforeCommit,
  Changed,
  cutOff,
  destroy,
  hasOtherRole,
  isAsBefore,
  isHarmless,
  NotSent,
  noAnswer,
  notInTransaction,
  SESSION,
  untilAborted,
  untilAcquired,
} from '../sql/index.ts'
import { insistOnUtf8, speaksUtf8 } from './encoding.ts'
import { classify, isUnsent } from './errors.ts'
import { MOST_BYTES, script } from './literal.ts'
import type { PgClient, PgPool, PgPoolClient, PgResult, PgTx } from './pg.ts'
import { PreparedNames } from './prepared.ts'
import { PgTransaction } from './transaction.ts'

/** Where the connections come from. */
export interface PgPools<Client extends PgPoolClient> {
  readonly size: ConnectionFeatures['pool']
  handlers(): Promise<PgPool<Client>>
  /** For heartbeats and the like, which must not wait for handlers. */
  control(): Promise<PgPool<Client>>
  close(): Promise<void>
}

/** Transactions on a pool of `pg`. BEGIN travels with the first statements, COMMIT with the last ones. */
export class PgConnection<Client extends PgPoolClient> implements Connection<PgTx<Client>, PgClient> {
  readonly features: ConnectionFeatures
  readonly #pools: PgPools<Client>
  readonly #names: PreparedNames | undefined

  constructor(pools: PgPools<Client>, prepare = false) {
    this.#pools = pools
    this.#names = prepare ? new PreparedNames() : undefined
    const { size: pool } = pools
    this.features = { name: 'postgres', roundTrips: 2, lateUse: 'refused', unawaited: 'detected', pool }
  }

  async transaction<T>(options: TransactionOptions, work: TransactionWork<PgTx<Client>, T>): Promise<T> {
    for (;;) {
      try {
        return await this.#once(options, work)
      } catch (error) {
        if (!(error instanceof Changed)) throw error
      }
    }
  }

  async #once<T>(options: TransactionOptions, work: TransactionWork<PgTx<Client>, T>): Promise<T> {
    const client = await acquire(await this.#pool(options), options.signal)
    options.acquired?.()
    const run = new Run(client, this.#names)
    const onError = (error: Error): void => run.tx.watch.lose(error)
    client.on('error', onError)
    try {
      return await untilAborted(
        options.signal,
        () => run.steps(options, work),
        () => run.destroy(),
      )
    } finally {
      run.tx.watch.close()
      client.off('error', onError)
      client.release(run.broken || run.tx.stale || run.tx.changed)
    }
  }

  #pool({ control }: TransactionOptions): Promise<PgPool<Client>> {
    return control ? this.#pools.control() : this.#pools.handlers()
  }

  executor(tx: PgTx<Client>): Executor {
    if (!(tx instanceof PgTransaction)) throw notInTransaction(describe(tx))
    const { watch, raw } = tx
    return {
      query: async (text, params) => {
        await watch.idle()
        return toResult(await raw.query(text, params))
      },
    }
  }

  enter(tx: PgTx<Client> | PgClient): EnteredExecutor {
    const leave = (): void => {}
    if (tx instanceof PgTransaction) {
      const { watch } = tx
      watch.assertOpen()
      const query: Executor['query'] = async (text, params) => {
        await watch.idle()
        // It may have settled in the meantime, and its client may serve another transaction.
        watch.assertOpen()
        return toResult(await tx.raw.query(text, params))
      }
      return { own: false, checks: true, query, leave }
    }
    if (typeof tx?.query !== 'function') throw notInTransaction(describe(tx))
    const query: Executor['query'] = async (text, params) => toResult(await tx.query(text, params))
    return { own: true, checks: false, query, leave }
  }

  mostBytes(): number {
    return MOST_BYTES
  }

  async query(text: string, params: readonly Param[], limitMs: number): Promise<Result> {
    const began = performance.now()
    const client = await acquire(await this.#pools.control())
    // The caller has given up by now.
    if (performance.now() - began > limitMs) {
      client.release()
      throw noAnswer(limitMs)
    }
    let broken = true
    let late = false
    const timer = setTimeout(() => {
      late = true
      destroy(client)
    }, limitMs)
    try {
      await speaksUtf8(client)
      const answer = toResult(await client.query(script([NO_JIT, { text, params }])))
      broken = false
      return answer
    } catch (error) {
      throw late ? noAnswer(limitMs) : error
    } finally {
      clearTimeout(timer)
      client.release(broken)
    }
  }

  close(): Promise<void> {
    return this.#pools.close()
  }
}

/**
 * A look is short, but the planner fears the worst of its recursion: once it knows that the tables are not empty, it compiles every
 * one of them, which takes ten times as long as running it.
 */
const NO_JIT: Statement = { text: 'set local jit = off', params: [] }

/**
 * A client of the pool. Whatever becomes of it, no error that it emits ends the process: the pool's own listener is not there from
 * the instant in which the pool hands it out, before the waiting caller goes on, until it is given back.
 */
async function acquire<Client extends PgPoolClient>(pool: PgPool<Client>, signal?: AbortSignal): Promise<Client> {
  signal?.throwIfAborted()
  heardPool(pool)
  const client = await untilAcquired(pool.connect(), signal, (late) => late.release())
  // Not every pool tells.
  return heard(client)
}

/** One transaction on one client. */
class Run<Client extends PgPoolClient> {
  /** The client cannot be trusted any more. */
  broken = false
  readonly tx: PgTransaction<Client>
  readonly #client: Client

  constructor(client: Client, names: PreparedNames | undefined) {
    this.#client = client
    this.tx = new PgTransaction(client, names)
  }

  async steps<T>({ isolation }: TransactionOptions, work: TransactionWork<PgTx<Client>, T>): Promise<T> {
    try {
      const own = await this.#begin(isolation, work.first)
      const { value, last, committed } = await this.tx.watch.during(() => work.body(this.tx, own))
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
    const begin = isolation === undefined ? 'begin' : `begin isolation level ${isolationOption(isolation)}`
    try {
      await speaksUtf8(this.#client)
      const answers = await this.#script([{ text: begin, params: [] }, SESSION, ...first])
      const [session, ...own] = answers.slice(1).map(toResult)
      if (!isAsBefore(this.#client, session)) throw new Changed()
      return own
    } catch (error) {
      if (!(error instanceof NotSent || isHarmless(classify(error)))) this.destroy()
      throw hasOtherRole(this.#client, error) ? new Changed() : error
    }
  }

  async #commit(last: readonly Statement[]): Promise<readonly Result[]> {
    // The signal has ended this transaction while its body went on.
    if (this.broken) throw transactionClosed()
    try {
      await beforeCommit(() => insistOnUtf8(this.#client))
      const answers = await this.#script([...last, { text: 'commit', params: [] }])
      if (answers.at(-1)?.command === 'COMMIT') return answers.slice(0, -1).map(toResult)
    } catch (error) {
      if (classify(error) === 'lost') this.destroy()
      throw isUnsent(error) ? new NotSent(error) : error
    }
    throw new HapaxError('transaction-aborted', 'the database rolled the transaction back at COMMIT')
  }

  async #script(statements: readonly Statement[]): Promise<readonly PgResult[]> {
    const answer = await this.#sent(statements)
    return Array.isArray(answer) ? answer : [answer]
  }

  /** Without parameters `pg` uses the simple protocol, which returns one result per statement. */
  #sent(statements: readonly Statement[]): Promise<PgResult | PgResult[]> {
    try {
      return this.#client.query(script(statements))
    } catch (error) {
      // Not an error of the server: a text that the database or the client cannot take, or that is longer than any text may be.
      throw new NotSent(error)
    }
  }

  /** False: something is still running, and the client was destroyed. */
  async #rollback(): Promise<boolean> {
    if (this.broken) return true
    if (!(await this.tx.watch.settled())) {
      this.destroy()
      return false
    }
    await this.#client.query('rollback').catch(() => this.destroy())
    return true
  }

  destroy(): void {
    this.broken = true
    this.tx.watch.close()
    destroy(this.#client)
  }
}

function toResult(answer: PgResult | PgResult[]): Result {
  const last = Array.isArray(answer) ? answer.at(-1) : answer
  return { rows: last?.rows ?? [], affected: last?.rowCount ?? 0 }
}
