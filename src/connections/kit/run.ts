import { isHapaxError, pause, systemClock } from '../../base/index.ts'
import type { Reach, Result, TransactionOptions } from '../../contracts/index.ts'
import {
  asNumber,
  Changed,
  cutOff,
  doomed,
  hasOtherRole,
  isHarmless,
  keepsOpen,
  leftOpen,
  type MysqlSent,
  mysqlSent,
  NotSent,
  type Reaching,
  TransactionWatch,
} from '../../stores/sql/index.ts'
import type { Ground, Send } from './ground.ts'
import type { Orm, Track } from './orm.ts'
import { seenThrough } from './texts.ts'

/** One transaction of an ORM: how far it is, what went wrong first, and the client under it, if it can be reached. */
export class Run<Tx extends object> {
  stage: 'opening' | 'body' | 'ending' | 'committing' = 'opening'
  /** To be called when the ORM has committed. */
  committed: () => void = () => {}
  /** The first error, which a failing ROLLBACK would hide. */
  failure: { readonly error: unknown } | undefined
  /** What the handler's statements do. */
  readonly watched: TransactionWatch
  /** Rejects when the transaction is given up although the ORM waits for a statement of its. */
  readonly #givenUp: PromiseWithResolvers<never> | undefined
  readonly #orm: Orm<Tx>
  readonly #ground: Ground
  readonly #options: TransactionOptions
  #client: object | undefined
  #sent: MysqlSent | undefined
  /** The same of what the ORM shows; without observation, it may always have ended. */
  #shown: { mayHaveEnded: boolean } | undefined
  #reaching: Reaching | undefined

  constructor(orm: Orm<Tx>, ground: Ground, options: TransactionOptions) {
    this.#orm = orm
    this.#ground = ground
    this.#options = options
    const doomOf = (error: unknown): 'conflict' | 'lost' | undefined => options.doomOf(orm.asOfDriver?.(error) ?? error)
    this.watched = new TransactionWatch(doomOf, () => this.#isClientBusy())
    if (orm.tracks || orm.waits) this.#givenUp = Promise.withResolvers()
  }

  /** Settles with the ORM's transaction, or when it is given up. */
  orGivenUp<T>(running: Promise<T>): Promise<T> {
    return this.#givenUp === undefined ? running : Promise.race([running, this.#givenUp.promise])
  }

  async watch<T>(tx: Tx, send: Send, steps: () => Promise<T>): Promise<T> {
    this.#client = this.#orm.client?.of(tx)
    try {
      return await steps()
    } catch (error) {
      const other = this.stage === 'opening' && this.#client !== undefined && hasOtherRole(this.#client, error)
      this.failure = { error: other ? new Changed() : error }
      if (this.#isSpoilt(error)) await this.#end(send)
      else if (this.#orm.isNested?.(tx) || !(await this.#settled())) {
        this.failure = { error: cutOff(error) }
        this.destroy()
        this.#givenUp?.reject(error)
      } else if (this.stage === 'opening' && this.#ground.afterFailure !== undefined) {
        await send(this.#ground.afterFailure).catch(() => {})
      }
      // The ROLLBACK that follows is the ORM's, and not the handler's.
      this.#sent?.ended()
      throw error
    }
  }

  opened(tx: Tx, answer: Result | undefined, send: Send): Promise<void> | void {
    const session = answer?.rows[0]?.['session']
    if (session !== undefined) this.#client ??= this.#orm.client?.of(tx, asNumber(session))
    return this.#ground.opened(this.#client, answer, send)
  }

  /** hapax has opened the transaction: later statements are the handler's. */
  begun(): void {
    if (this.#orm.database !== 'mysql') return
    this.#shown = { mayHaveEnded: !this.#orm.tracks }
    this.#sent = this.#client && mysqlSent(this.#client)
    this.#sent?.begin()
  }

  /** Watches a statement that the ORM shows. */
  readonly track: Track = (statement, raw) => {
    if (this.#shown !== undefined && raw !== undefined) this.#shown.mayHaveEnded ||= !keepsOpen(raw.text, true)
    return this.watched.track(statement)
  }

  /** What is sent on its connection from now on is not its handler's. */
  over(): void {
    this.#sent?.over()
  }

  /** Whether the handler sent a command that may have ended the transaction; undefined: the database tells. */
  get mayHaveEnded(): boolean | undefined {
    return (this.#sent ?? this.#shown)?.mayHaveEnded
  }

  /** Starts tracking: later statements are those of handlers. */
  watchReach(): void {
    this.#reaching = this.#client && seenThrough(this.#orm.database, this.#client)
    this.#reaching?.take()
    // Observing comes too late for handlers at the same time.
    if (this.#orm.counts) this.#reaching?.add('unseen')
  }

  /** See `Connection.reach`. */
  takeReach(): Reach {
    return this.#reaching?.take() ?? 'unseen'
  }

  /** Whether none of the handler's statements is under way, as far as that can be told. */
  isIdle(): boolean {
    return !this.#isClientBusy()
  }

  /** Ends the transaction by force. The store ends it from outside as well. */
  abort(reason: unknown): NotSent | undefined {
    this.destroy()
    if (this.stage !== 'ending') return undefined
    return new NotSent(this.#client === undefined ? leftOpen(reason) : doomed('lost', reason))
  }

  /** Whether the session must not be used again. */
  #isSpoilt(error: unknown): boolean {
    if (error instanceof Changed) return true
    if (this.stage === 'body') return isHapaxError(error, 'transaction-lost')
    const kind = this.#options.classify(error)
    return this.stage === 'opening' ? !isHarmless(kind) : kind === 'lost'
  }

  /** Ends the session: the ORM's ROLLBACK then fails, and its pool drops the connection. */
  async #end(send: Send): Promise<void> {
    if (this.#client !== undefined) {
      const wasBusy = this.#isClientBusy()
      this.destroy()
      if (wasBusy) this.#givenUp?.reject(this.failure?.error)
    } else if (this.#ground.kill !== undefined) await send(this.#ground.kill).catch(() => {})
  }

  /** Waits up to a second until ROLLBACK can be sent. False: the client is still busy. */
  async #settled(): Promise<boolean> {
    if (!(await this.watched.settled()) && !this.#isClientBusy()) return false
    for (let waits = 0; this.#isClientBusy(); waits++) {
      if (waits === 100) return false
      await pause(systemClock, 10)
    }
    return true
  }

  #isClientBusy(): boolean {
    return this.#client !== undefined && this.#orm.client?.isBusy(this.#client) === true
  }

  destroy(): void {
    if (this.#client !== undefined) this.#orm.client?.destroy(this.#client)
  }
}

/** Thrown to make an ORM roll back without an error. */
export class RolledBack<T> extends Error {
  readonly value: T

  constructor(value: T) {
    super('rolled back')
    this.value = value
  }
}
