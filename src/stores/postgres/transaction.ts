import { transactionClosed } from '../../core/driver.ts'
import { TransactionWatch } from '../../core/sql/index.ts'
import { classify } from './errors.ts'
import type { PgPoolClient, PgResult, PgTx } from './pg.ts'

/** One transaction on one client, as handlers have it. */
export class PgTransaction<Client extends PgPoolClient> implements PgTx<Client> {
  readonly watch: TransactionWatch = new TransactionWatch(doomOf)
  readonly #raw: Client
  #guarded: Client | undefined

  constructor(client: Client) {
    this.#raw = client
  }

  query<Row extends object = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
  ): Promise<PgResult<Row>> {
    if (this.watch.closed) return Promise.reject(transactionClosed())
    return this.watch.track(this.#raw.query(text, params as unknown[])) as Promise<PgResult<Row>>
  }

  get client(): Client {
    this.#guarded ??= this.watch.guard(this.#raw, () => this.watch.assertOpen())
    return this.#guarded
  }

  /** The client itself, for the statements of hapax. */
  get raw(): Client {
    return this.#raw
  }
}

function doomOf(error: unknown): 'conflict' | 'lost' | undefined {
  const kind = classify(error)
  return kind === 'conflict' || kind === 'lost' ? kind : undefined
}
