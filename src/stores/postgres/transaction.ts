import { transactionClosed } from '../../base/index.ts'
import { isBusy, leavesBehind, Reaching, reachOf, SAVEPOINTS, TransactionWatch } from '../sql/index.ts'
import { doomOf } from './errors.ts'
import { Outgoing } from './outgoing.ts'
import type { PgPoolClient, PgResult, PgTx } from './pg.ts'
import { isStalePlan, type PreparedNames } from './prepared.ts'

/** One transaction on one client, as handlers have it. */
export class PgTransaction<Client extends PgPoolClient> implements PgTx<Client> {
  readonly watch: TransactionWatch
  /** The reach of its handlers, not counting what views report themselves. */
  readonly reaching: Reaching = new Reaching()
  /** The connection has a plan that is of no use any more. */
  stale = false
  /** A statement has left something behind in the session. */
  changed = false
  readonly #raw: Client
  readonly #outgoing: Outgoing
  #guarded: Client | undefined

  constructor(client: Client, names: PreparedNames) {
    this.#raw = client
    this.#outgoing = new Outgoing(client, names)
    this.watch = new TransactionWatch(
      (error) => {
        // Asked about every error, also of a statement that the handler does not await.
        if (isStalePlan(error)) this.stale = true
        names.isRefusal(error)
        return doomOf(error)
      },
      () => isBusy(client),
    )
  }

  query<Row extends object = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
  ): Promise<PgResult<Row>> {
    this.reaching.add(reachOf(text, SAVEPOINTS))
    return this.send(text, params)
  }

  /** Sends a statement of a handler; `sender` is its view. */
  send<Row extends object>(
    text: string,
    params: readonly unknown[] | undefined,
    sender?: { running: number },
  ): Promise<PgResult<Row>> {
    if (this.watch.closed) return Promise.reject(transactionClosed())
    if (leavesBehind(text)) this.changed = true
    return this.watch.track(this.#outgoing.send(text, params), sender) as Promise<PgResult<Row>>
  }

  get client(): Client {
    this.#guarded ??= this.watch.guard(this.#raw, () => {
      this.watch.assertOpen()
      this.reaching.add('unseen')
      this.#outgoing.depart()
    })
    return this.#guarded
  }

  /** The client itself, for the statements of hapax. */
  get raw(): Client {
    return this.#raw
  }
}
