import {
  describe,
  HapaxError,
  heard,
  heardPool,
  type Interrupt,
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
  command,
  cutOff,
  destroy,
  hasOtherRole,
  isAsBefore,
  isHarmless,
  isOtherSession,
  NotSent,
  noAnswer,
  notInTransaction,
  SESSION,
  sameSession,
  untilAborted,
  untilAcquired,
} from '../sql/index.ts'
import { insistOnUtf8, speaksUtf8 } from './encoding.ts'
import { classify, isUnsent } from './errors.ts'
import { MOST_BYTES } from './literal.ts'
import type { PgClient, PgPool, PgPoolClient, PgResult, PgTx } from './pg.ts'
import { isStalePlan, PreparedNames } from './prepared.ts'
import { type Answer, asAnswer, send } from './send.ts'
import { PgTransaction } from './transaction.ts'
import { PgView, PgViews } from './views.ts'

/** Where the connections come from. */
export interface PgPools<Client extends PgPoolClient> {
  readonly size: ConnectionFeatures['pool']
  handlers(): PgPool<Client> | Promise<PgPool<Client>>
  /** For heartbeats and the like, which must not wait for handlers. */
  control(): PgPool<Client> | Promise<PgPool<Client>>
  /** Where a connection can be had for it. */
  readonly listen?: Connection<never>['listen']
  close(): Promise<void>
}

/** Transactions on a pool of `pg`. BEGIN travels with the first statements, COMMIT with the last ones. */
export class PgConnection<Client extends PgPoolClient> implements Connection<PgTx<Client>, PgClient> {
  readonly features: ConnectionFeatures
  readonly listen: Connection<never>['listen']
  readonly #pools: PgPools<Client>
  readonly #names: PreparedNames

  constructor(pools: PgPools<Client>, prepare?: boolean) {
    this.#pools = pools
    this.#names = new PreparedNames(prepare, warnOfPooler)
    const { size: pool, listen } = pools
    this.listen = listen
    this.features = { name: 'postgres', roundTrips: 2, lateUse: 'refused', unawaited: 'detected', pool }
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
      const client = await acquire(pool instanceof Promise ? await pool : pool, options.signal)
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
        if (!(error instanceof Changed)) throw error
      } finally {
        run.tx.watch.close()
        client.off('error', onError)
        giveBack(client, run.broken || run.tx.stale || run.tx.changed)
      }
    }
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

  async query(statement: Statement, limitMs: number): Promise<Result> {
    for (;;) {
      try {
        return await this.#queryOnce(statement, limitMs)
      } catch (error) {
        // On a new connection, and after some more such errors without names.
        if (!this.#names.isRefusal(error)) throw error
      }
    }
  }

  async #queryOnce(statement: Statement, limitMs: number): Promise<Result> {
    const began = performance.now()
    const client = await acquire(await this.#pools.control())
    // The caller has given up by now.
    if (performance.now() - began > limitMs) {
      giveBack(client, false)
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
      const [, answer] = await send(client, [NO_JIT, statement], this.#names)
      broken = false
      return answer ?? NO_ANSWER
    } catch (error) {
      if (late) throw noAnswer(limitMs)
      throw error instanceof NotSent ? error.cause : error
    } finally {
      clearTimeout(timer)
      giveBack(client, broken)
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
const NO_JIT: Statement = { text: `select set_config('jit', 'off', true)`, params: [], prepare: true }
const NO_ANSWER: Result = { rows: [], affected: 0 }

/**
 * A client of the pool. Whatever becomes of it, no error that it emits ends the process: the pool's own listener is not there from
 * the instant in which the pool hands it out, before the waiting caller goes on, until it is given back.
 */
async function acquire<Client extends PgPoolClient>(pool: PgPool<Client>, signal?: Interrupt): Promise<Client> {
  signal?.throwIfAborted()
  heardPool(pool)
  const client = await untilAcquired(pool.connect(), signal, (late) => late.release())
  // `pg` refuses query objects in its pipeline mode. Flights do the same, and more.
  if (Reflect.get(client, 'pipeline') === true) {
    pipelined.add(client)
    Reflect.set(client, 'pipeline', false)
  }
  // Not every pool tells.
  return heard(client)
}

const pipelined = new WeakSet<object>()

function giveBack(client: PgPoolClient, broken: boolean): void {
  if (pipelined.delete(client)) Reflect.set(client, 'pipeline', true)
  client.release(broken)
}

/** One transaction on one client. */
class Run<Client extends PgPoolClient> {
  /** The client cannot be trusted any more. */
  broken = false
  readonly tx: PgTransaction<Client>
  readonly #client: Client
  readonly #names: PreparedNames

  constructor(client: Client, names: PreparedNames) {
    this.#client = client
    this.#names = names
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

  /** Without a body, BEGIN and COMMIT travel together. */
  async whole({ isolation }: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]> {
    const same = sameSession(this.#client)
    try {
      if (same !== undefined) return await this.#whole(isolation, [same, ...statements])
      const answers = await this.#begin(isolation, statements)
      await this.#commit([])
      return answers
    } catch (error) {
      await this.#rollback()
      throw error
    }
  }

  async #whole(
    isolation: TransactionOptions['isolation'],
    statements: readonly Statement[],
  ): Promise<readonly Result[]> {
    try {
      const asking = speaksUtf8(this.#client)
      if (asking !== undefined) await asking
      const answers = await this.#send([beginOf(isolation), ...statements, COMMIT])
      if (answers.at(-1)?.command === 'COMMIT') return answers.slice(2, -1)
    } catch (error) {
      if (!(error instanceof NotSent || isHarmless(classify(error))) || isStalePlan(error)) this.destroy()
      if (isOtherSession(error) || this.#mayGoElsewhere(error)) throw new Changed()
      throw isUnsent(error) ? new NotSent(error) : error
    }
    throw new HapaxError('transaction-aborted', 'the database rolled the transaction back at COMMIT')
  }

  async #begin(isolation: TransactionOptions['isolation'], first: readonly Statement[]): Promise<readonly Result[]> {
    try {
      const asking = speaksUtf8(this.#client)
      if (asking !== undefined) await asking
      const [, session, ...own] = await this.#send([beginOf(isolation), SESSION, ...first])
      if (!isAsBefore(this.#client, session)) throw new Changed()
      return own
    } catch (error) {
      if (!(error instanceof NotSent || isHarmless(classify(error))) || isStalePlan(error)) this.destroy()
      throw this.#mayGoElsewhere(error) ? new Changed() : error
    }
  }

  /** Whether the trouble is that of this connection, and nothing has happened yet. */
  #mayGoElsewhere(error: unknown): boolean {
    return this.#names.isRefusal(error) || isStalePlan(error) || hasOtherRole(this.#client, error)
  }

  async #commit(last: readonly Statement[]): Promise<readonly Result[]> {
    // The signal has ended this transaction while its body went on.
    if (this.broken) throw transactionClosed()
    try {
      const insisting = insistOnUtf8(this.#client)
      if (insisting !== undefined) await beforeCommit(() => insisting)
      const answers = await this.#send([...last, COMMIT])
      if (answers.at(-1)?.command === 'COMMIT') return answers.slice(0, -1)
    } catch (error) {
      this.#names.isRefusal(error)
      if (classify(error) === 'lost' || isStalePlan(error)) this.destroy()
      throw isUnsent(error) ? new NotSent(error) : error
    }
    throw new HapaxError('transaction-aborted', 'the database rolled the transaction back at COMMIT')
  }

  #send(statements: readonly Statement[]): Promise<readonly Answer[]> {
    try {
      return send(this.#client, statements, this.#names)
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

/** The result of the last statement of a text. */
function lastOf(answer: PgResult | PgResult[]): Result {
  const last = Array.isArray(answer) ? answer.at(-1) : answer
  return last === undefined ? NO_ANSWER : asAnswer(last)
}

function beginOf(isolation: TransactionOptions['isolation']): Statement {
  return isolation === undefined ? BEGIN : command(`begin isolation level ${isolationOption(isolation)}`)
}

const BEGIN = command('begin')
const COMMIT = command('commit')

/** A pooler is nothing that a program can be told by an error: everything works, only slower. */
function warnOfPooler(): void {
  process.emitWarning(
    'the server forgets prepared statements, as behind a pooler in transaction mode: hapax goes on without them',
    { type: 'HapaxWarning', code: 'HAPAX_NO_PREPARED_STATEMENTS' },
  )
}
