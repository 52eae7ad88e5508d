import { transactionClosed } from '../../base/index.ts'
import { isBusy, leavesBehind, TransactionWatch } from '../sql/index.ts'
import { doomOf } from './errors.ts'
import type { PgPoolClient, PgResult, PgTx } from './pg.ts'
import { isStalePlan, type Named, type PreparedNames } from './prepared.ts'

/** One transaction on one client, as handlers have it. */
export class PgTransaction<Client extends PgPoolClient> implements PgTx<Client> {
  readonly watch: TransactionWatch
  /** The connection has a plan that is of no use any more. */
  stale = false
  /** A statement has left something behind in the session. */
  changed = false
  readonly #raw: Client
  readonly #names: PreparedNames | undefined
  #guarded: Client | undefined
  #corking = false

  constructor(client: Client, names?: PreparedNames) {
    this.#raw = client
    this.#names = names
    this.watch = new TransactionWatch(doomOf, () => isBusy(client))
  }

  query<Row extends object = Record<string, unknown>>(
    text: string,
    params?: readonly unknown[],
  ): Promise<PgResult<Row>> {
    if (this.watch.closed) return Promise.reject(transactionClosed())
    this.#corked()
    if (leavesBehind(text)) this.changed = true
    const named = params === undefined || params.length === 0 ? undefined : this.#names?.of(text)
    const answer = named === undefined ? this.#raw.query(text, params) : this.#query(named, params)
    return this.watch.track(answer) as Promise<PgResult<Row>>
  }

  /** Where statements are sent ahead, those of one moment go to the server in one piece. */
  #corked(): void {
    const stream = pipelineOf(this.#raw)
    if (stream === undefined || this.#corking) return
    this.#corking = true
    stream.cork()
    process.nextTick(() => {
      this.#corking = false
      stream.uncork()
    })
  }

  async #query(named: Named, values: readonly unknown[] | undefined): Promise<PgResult> {
    try {
      return await (this.#raw as unknown as NamedQueries).query({ ...named, values })
    } catch (error) {
      if (isStalePlan(error)) this.stale = true
      throw error
    }
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

/** The stream of a client that sends statements ahead. */
function pipelineOf(client: object): Corkable | undefined {
  const { pipeline, connection }: { pipeline?: boolean; connection?: { stream?: Corkable } } = client
  return pipeline ? connection?.stream : undefined
}

interface Corkable {
  cork(): void
  uncork(): void
}

/** What `pg` takes beside a text. */
interface NamedQueries {
  query(named: Named & { values: readonly unknown[] | undefined }): Promise<PgResult>
}
