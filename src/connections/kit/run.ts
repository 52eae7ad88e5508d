import { isHapaxError, pause, systemClock } from '../../base/index.ts'
import type { Result, TransactionOptions } from '../../contracts/index.ts'
import {
  asNumber,
  Changed,
  cutOff,
  doomed,
  hasOtherRole,
  isHarmless,
  leftOpen,
  NotSent,
  TransactionWatch,
} from '../../stores/sql/index.ts'
import type { Ground, Send } from './ground.ts'
import type { Orm } from './orm.ts'

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
      throw error
    }
  }

  opened(tx: Tx, answer: Result | undefined, send: Send): Promise<void> | void {
    const session = answer?.rows[0]?.['session']
    if (session !== undefined) this.#client ??= this.#orm.client?.of(tx, asNumber(session))
    return this.#ground.opened(this.#client, answer, send)
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
