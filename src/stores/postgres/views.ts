import { HapaxError } from '../../base/index.ts'
import type { Reach, View, Views } from '../../contracts/index.ts'
import { farther, reachOf, SAVEPOINTS, unawaited } from '../sql/index.ts'
import type { PgPoolClient, PgResult, PgTx } from './pg.ts'
import type { PgTransaction } from './transaction.ts'

/** The views of one transaction. */
export class PgViews<Client extends PgPoolClient> implements Views<PgTx<Client>> {
  readonly #transaction: PgTransaction<Client>
  #made = 0
  /** The view that has sent the last statement. */
  #last = 0
  #disordered: View<PgTx<Client>> | undefined

  constructor(transaction: PgTransaction<Client>) {
    this.#transaction = transaction
  }

  get disordered(): View<PgTx<Client>> | undefined {
    return this.#disordered
  }

  next(): PgView<Client> {
    this.#made += 1
    return new PgView(this, this.#transaction, this.#made)
  }

  answered(): Promise<void> | undefined {
    return this.#transaction.watch.idle()
  }

  /** A view is about to send a statement. Throws if a later one has sent any: then nothing of the transaction may stay. */
  sending(view: PgView<Client>): void {
    if (view.place < this.#last) this.#disordered ??= view
    if (this.#disordered !== undefined) throw outOfTurn()
    this.#last = view.place
  }

  /** A view reaches beyond its own rows, which is out of turn if a later view has begun. */
  reaching(view: PgView<Client>): void {
    if (view.place < this.#made) this.#disordered ??= view
    this.sending(view)
  }
}

/** A transaction as one of several handlers has it. */
export class PgView<Client extends PgPoolClient> implements PgTx<Client>, View<PgTx<Client>> {
  readonly place: number
  readonly transaction: PgTransaction<Client>
  sent = 0
  running = 0
  readonly #views: PgViews<Client>
  #reach: Reach = 'none'

  constructor(views: PgViews<Client>, transaction: PgTransaction<Client>, place: number) {
    this.#views = views
    this.transaction = transaction
    this.place = place
  }

  get tx(): PgTx<Client> {
    return this
  }

  query<Row extends object = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
  ): Promise<PgResult<Row>> {
    try {
      const reach = reachOf(text, SAVEPOINTS)
      if (reach !== 'none') this.#reaching(reach)
      this.sending()
    } catch (error) {
      return rejected(error)
    }
    return this.transaction.send(text, params, this)
  }

  get client(): Client {
    this.#reaching('unseen')
    return this.transaction.client
  }

  /** Includes the transaction's reach: a handler may keep a client and use it later. */
  get reach(): Reach {
    return farther(this.#reach, this.transaction.reaching.reach)
  }

  #reaching(reach: Reach): void {
    this.#reach = farther(this.#reach, reach)
    this.#views.reaching(this)
  }

  assertAwaited(): void {
    if (this.running > 0) throw unawaited(this.running)
  }

  /** A statement is about to be sent. */
  sending(): void {
    this.#views.sending(this)
    this.sent += 1
  }
}

/** A handler that does not await its statement must not end the process. */
function rejected(error: unknown): Promise<never> {
  const rejection = Promise.reject(error)
  rejection.catch(() => {})
  return rejection
}

function outOfTurn(): HapaxError {
  const what = 'a statement came after one of a later message: the group runs again, one handler after the other'
  return new HapaxError('transaction-conflict', what)
}
