import { describe, fieldOf, isolationOption, transactionClosed, unwatched, watchPool } from '../../base/index.ts'
import type {
  Connection,
  ConnectionFeatures,
  EnteredExecutor,
  Executor,
  Result,
  Statement,
  TransactionOptions,
  TransactionWork,
} from '../../contracts/index.ts'
import {
  beforeCommit,
  byTransaction,
  Changed,
  causesOf,
  doomed,
  isMysqlQueue,
  leftInside,
  notInTransaction,
  untilAborted,
} from '../../stores/sql/index.ts'
import { type Ground, groundOf, type Send } from './ground.ts'
import { lent } from './handle.ts'
import { MarkedTransaction } from './marked.ts'
import type { Orm, Track } from './orm.ts'
import { QueuedTransaction } from './queued.ts'
import { RolledBack, Run } from './run.ts'

/** A transaction that handlers have, and what it stands for. */
interface Handle<Tx extends object> {
  readonly raw: Tx
  readonly run: Run<Tx>
  closed: boolean
}

/** Transactions on an ORM. */
export class OrmConnection<Tx extends object> implements Connection<Tx> {
  readonly features: ConnectionFeatures
  /** Absent where an ORM defers statements, or its client is neither `pg` nor `mysql2`. */
  readonly reach: Connection<Tx>['reach']
  readonly #orm: Orm<Tx>
  readonly #ground: Ground
  readonly #handles = new WeakMap<object, Handle<Tx>>()

  constructor(orm: Orm<Tx>) {
    this.#orm = orm
    this.#ground = groundOf(orm.database, orm.killable === true)
    const { lateUse, pool, roundTrips = roundTripsOf(orm) } = orm.features
    this.features = {
      name: `${orm.database} (${orm.name})`,
      roundTrips,
      lateUse,
      unawaited: orm.client === undefined && !orm.tracks ? 'not detectable' : 'detected',
      ownTransactions: true,
      pool,
    }
    const sees = orm.client !== undefined && !orm.tracks && orm.settle === undefined && orm.database !== 'sqlite'
    if (sees) this.reach = (tx) => this.#handles.get(tx)?.run.takeReach() ?? 'unseen'
    orm.listen?.()
  }

  async transaction<T>(options: TransactionOptions, work: TransactionWork<Tx, T>): Promise<T> {
    const { signal } = options
    const isolation = isolationOption(options.isolation) ?? this.#ground.isolation
    const run = new Run(this.#orm, this.#ground, options)
    const steps = (tx: Tx): Promise<T> => run.watch(tx, this.#sending(tx), () => this.#steps(tx, run, options, work))
    const track: Track = (statement, raw) => run.track(statement, raw)
    const open = (): Promise<T> => this.#orm.transaction(steps, isolation, track)
    const running = (): Promise<T> => run.orGivenUp(this.#ground.during(options, () => unwatched(open)))
    try {
      const value = await untilAborted(signal, running, () => run.abort(signal?.reason))
      run.committed()
      return value
    } catch (error) {
      // The ORM's ROLLBACK fails on a connection that was ended, and would hide what came before.
      const first = run.failure === undefined ? error : run.failure.error
      if (first instanceof RolledBack) return first.value
      if (first instanceof Changed) return this.transaction(options, work)
      throw first
    } finally {
      run.over()
    }
  }

  atOnce(options: TransactionOptions, statements: readonly Statement[]): Promise<readonly Result[]> {
    return byTransaction(this, options, statements)
  }

  executor(tx: Tx): Executor {
    const send = this.#sending(this.#rawOf(tx))
    return { query: (text, params) => send({ text, params }) }
  }

  enter(tx: Tx): EnteredExecutor {
    const handle = this.#handles.get(tx)
    if (handle?.closed) throw transactionClosed()
    const raw = this.#rawOf(tx)
    const send = this.#sending(raw)
    const { database } = this.#orm
    const refused = (error: unknown): never => {
      throw this.#orm.isOver?.(error) ? notInTransaction('one that has ended', error) : error
    }
    if (handle === undefined && database !== 'postgres') {
      const queue = database === 'mysql' ? this.#orm.queue?.(raw) : undefined
      if (isMysqlQueue(queue)) return new QueuedTransaction(queue, (statement) => this.#ground.form(statement))
      const tries = database === 'sqlite' && !this.#orm.refusesEnded
      const { ordered = false } = this.#orm
      const isCommitted = (error: unknown): boolean => this.#orm.isCommitted?.(fieldOf(error, 'cause')) === true
      const marking = { tries, ordered, isCommitted }
      const identity = this.#orm.identity?.(raw) ?? raw
      const sendOwn = this.#sending(raw, this.#orm.runOwn)
      return new MarkedTransaction(marking, identity, (statement) => sendOwn(statement).catch(refused))
    }
    const query: Executor['query'] = async (text, params) => {
      if (handle?.closed) throw transactionClosed()
      return send({ text, params }).catch(refused)
    }
    return { own: handle === undefined, checks: false, query, leave: () => {} }
  }

  assertAwaited(tx: Tx): void {
    this.#handles.get(tx)?.run.watched.assertAwaited()
  }

  settle(tx: Tx): Promise<void> | undefined {
    const handle = this.#handles.get(tx)
    // It would wait for a statement that was left open, which is noticed at the end.
    if (handle === undefined || !handle.run.isIdle()) return undefined
    return this.#orm.settle?.(handle.raw)
  }

  mayHaveEnded(tx: Tx): boolean | undefined {
    return this.#handles.get(tx)?.run.mayHaveEnded
  }

  isOnPool(pool: object): boolean {
    return this.#orm.taking?.()?.pool === pool
  }

  mostBytes(): number {
    return this.#ground.mostBytes
  }

  query(statement: Statement, _limitMs: number, acquired?: () => void): Promise<Result> {
    // An ORM does not tell.
    acquired?.()
    const formed = this.#ground.form(statement)
    if (formed === undefined) return Promise.resolve(NO_RESULT)
    const run = (): Promise<Result> =>
      this.#ground.commits ? this.#orm.run(undefined, formed) : this.#committing(formed)
    const running = this.#ground.during({}, () => unwatched(run))
    if (this.#orm.database !== 'postgres') return running
    return running.catch(async (error: unknown) => {
      if (!isOfSession(error)) throw error
      // A transaction looks at its session first, and ends it.
      const [result] = await this.atOnce({ classify: () => 'other', doomOf: () => undefined }, [formed])
      return result ?? NO_RESULT
    })
  }

  /** A transaction for one statement. */
  async #committing(statement: Statement): Promise<Result> {
    // The ORM's ROLLBACK fails on a connection that is lost, and would hide why.
    let failure: { readonly error: unknown } | undefined
    const work = (tx: Tx): Promise<Result> =>
      this.#orm.run(tx, statement).catch((error: unknown) => {
        failure = { error }
        throw error
      })
    try {
      return await this.#orm.transaction(work, this.#ground.isolation, (each) => each)
    } catch (error) {
      throw failure === undefined ? error : failure.error
    }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  async #steps<T>(tx: Tx, run: Run<Tx>, options: TransactionOptions, work: TransactionWork<Tx, T>): Promise<T> {
    // The wait for a connection may have outlived the deadline.
    options.signal?.throwIfAborted()
    options.acquired?.()
    // Now it is known: some ORMs make it for the first transaction.
    const taking = this.#orm.taking?.()
    if (taking !== undefined) watchPool(taking)
    const send = this.#sending(tx)
    await this.#ground.begin(options, send)
    const before = this.#ground.first
    const answers = await this.#opening(tx, run, send, before, work.first)
    if (this.reach !== undefined) run.watchReach()
    run.stage = 'body'
    run.begun()
    const { value, last, committed } = await this.#body(tx, answers, run, options, work)
    run.watched.assertSound()
    if (this.#orm.isNested?.(tx)) throw leftInside()
    run.stage = 'ending'
    // The ORM commits unless the callback throws.
    if (last === undefined) throw new RolledBack(value)
    const written = await beforeCommit(async () => {
      const results = await this.#runAll(tx, last)
      // What the handler began as it returned may show only now.
      run.watched.assertSound()
      return results
    })
    run.committed = () => committed?.(written)
    run.stage = 'committing'
    return value
  }

  /** The session is looked at together with the first statements where nothing has to be sent in between. */
  async #opening(
    tx: Tx,
    run: Run<Tx>,
    send: Send,
    before: readonly Statement[],
    first: readonly Statement[],
  ): Promise<readonly Result[]> {
    if (this.#orm.database !== 'postgres' || this.#orm.runText === undefined) {
      for (const statement of before) await run.opened(tx, await send(statement), send)
      return this.#runAll(tx, first)
    }
    const [session, ...answers] = await this.#runAll(tx, [...before, ...first])
    await run.opened(tx, session, send)
    return answers
  }

  async #body<T>(
    tx: Tx,
    answers: readonly Result[],
    run: Run<Tx>,
    { signal, doomOf }: TransactionOptions,
    work: TransactionWork<Tx, T>,
  ): ReturnType<TransactionWork<Tx, T>['body']> {
    const handle: Handle<Tx> = { raw: tx, run, closed: false }
    // On MySQL, what comes behind a deadlock would commit by itself.
    const isClosed = (): boolean => handle.closed || run.watched.doomed
    const given = this.#orm.lend?.(tx, isClosed) ?? lent(tx, isClosed)
    this.#handles.set(given, handle)
    try {
      return await untilAborted(
        signal,
        () => work.body(given, answers),
        () => {},
      )
    } catch (error) {
      run.watched.assertNotDoomed()
      const kind = this.#orm.isQueryError(error) ? doomOf(this.#orm.asOfDriver?.(error) ?? error) : undefined
      throw kind === undefined ? error : doomed(kind, error)
    } finally {
      handle.closed = true
    }
  }

  /** Runs statements in order. Adjacent statements without values share a round trip, where the ORM can do that. */
  async #runAll(tx: Tx, statements: readonly Statement[]): Promise<readonly Result[]> {
    const send = this.#sending(tx)
    const answers: Result[] = []
    for (const batch of this.#batches(statements)) {
      const [first, second] = batch
      if (first !== undefined && second === undefined) answers.push(await send(first))
      else
        answers.push(
          ...((await this.#orm.runText?.(
            tx,
            batch.map(({ text }) => text),
          )) ?? []),
        )
    }
    return answers
  }

  #batches(statements: readonly Statement[]): readonly Statement[][] {
    const result: Statement[][] = []
    for (const statement of statements) {
      const open = this.#orm.runText === undefined ? undefined : result.at(-1)
      if (open !== undefined && statement.params.length === 0 && open[0]?.params.length === 0) open.push(statement)
      else result.push([statement])
    }
    return result
  }

  #sending(tx: Tx, run: Orm<Tx>['run'] = this.#orm.run): Send {
    return async (given) => {
      const statement = this.#ground.form(given)
      return statement === undefined ? NO_RESULT : run.call(this.#orm, tx, statement)
    }
  }

  #rawOf(tx: Tx): Tx {
    const raw = this.#handles.get(tx)?.raw ?? tx
    if (!this.#orm.isTransaction(raw)) throw notInTransaction(describe(raw))
    return raw
  }
}

/** As counted: BEGIN, the look at the session, the receipt and what surrounds it, the guard, COMMIT. */
function roundTripsOf({ database, runText }: Pick<Orm<never>, 'database' | 'runText'>): number {
  if (database === 'sqlite') return 0
  if (database === 'mysql') return 6
  return runText === undefined ? 8 : 7
}

/** Whether PostgreSQL refused a statement for a role or a setting that a handler may have left behind in the session. */
function isOfSession(error: unknown): boolean {
  return [...causesOf(error)].some((each) => REFUSALS.has(fieldOf(each, 'code')))
}

// insufficient_privilege, read_only_sql_transaction: nothing was done.
const REFUSALS: ReadonlySet<unknown> = new Set(['42501', '25006'])

const NO_RESULT: Result = { rows: [], affected: 0 }
