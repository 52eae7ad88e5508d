import { doomed, transactionClosed, unawaited } from '../../core/connection.ts'
import { classify } from './errors.ts'
import type { PgPoolClient, PgResult, PgTx } from './pg.ts'

/** One transaction on one client: counts what runs, remembers what dooms it, and dies when it settles. */
export class PgTransaction<Client extends PgPoolClient> implements PgTx<Client> {
  readonly #raw: Client
  #proxy: Client | undefined
  #closed = false
  #running = 0
  #doom: { kind: 'conflict' | 'lost'; error: unknown } | undefined

  constructor(client: Client) {
    this.#raw = client
  }

  query<Row extends object = Record<string, unknown>>(text: string, params?: readonly unknown[]): Promise<PgResult<Row>> {
    if (this.#closed) return Promise.reject(transactionClosed())
    return this.#track(this.#raw.query(text, params as unknown[])) as Promise<PgResult<Row>>
  }

  get client(): Client {
    this.#proxy ??= this.#guardedClient()
    return this.#proxy
  }

  get closed(): boolean {
    return this.#closed
  }

  /** The client itself, for the statements of hapax. */
  get raw(): Client {
    return this.#raw
  }

  close(): void {
    this.#closed = true
  }

  /** The link is gone: whatever the handler does with the error, this transaction cannot commit. */
  lose(error: unknown): void {
    this.#doom ??= { kind: 'lost', error }
  }

  /** Throws what keeps this transaction from committing, if anything does. */
  assertSound(): void {
    this.assertNotDoomed()
    if (this.#running > 0) throw unawaited(this.#running)
  }

  assertNotDoomed(): void {
    if (this.#doom !== undefined) throw doomed(this.#doom.kind, this.#doom.error)
  }

  #track<T>(result: Promise<T>): Promise<T> {
    this.#running += 1
    // Both ways handled here: a query that nobody awaits must not end the process.
    result.then(
      () => {
        this.#running -= 1
      },
      (error: unknown) => {
        this.#running -= 1
        const kind = classify(error)
        if (kind === 'conflict' || kind === 'lost') this.#doom ??= { kind, error }
      },
    )
    return result
  }

  #guardedClient(): Client {
    return new Proxy(this.#raw, {
      get: (target, name) => {
        if (this.#closed) throw transactionClosed()
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        return (...args: unknown[]) => {
          if (this.#closed) throw transactionClosed()
          const result: unknown = value.apply(target, args)
          return name === 'query' && result instanceof Promise ? this.#track(result) : result
        }
      },
    })
  }
}
