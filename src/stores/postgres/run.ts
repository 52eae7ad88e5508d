import { HapaxError, isHapaxError, isolationOption, transactionClosed } from '../../base/index.ts'
import type { Result, Statement, TransactionOptions, TransactionWork } from '../../contracts/index.ts'
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
  SESSION,
  sameSession,
} from '../sql/index.ts'
import { insistOnUtf8, speaksUtf8 } from './encoding.ts'
import { classify, isUnsent } from './errors.ts'
import type { PgPoolClient, PgTx } from './pg.ts'
import { isStalePlan, type PreparedNames } from './prepared.ts'
import { type Answer, send } from './send.ts'
import { PgTransaction } from './transaction.ts'

/** One transaction on one client. */
export class Run<Client extends PgPoolClient> {
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

function beginOf(isolation: TransactionOptions['isolation']): Statement {
  return isolation === undefined ? BEGIN : command(`begin isolation level ${isolationOption(isolation)}`)
}

const BEGIN = command('begin')
const COMMIT = command('commit')
