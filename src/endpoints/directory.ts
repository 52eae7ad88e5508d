import type { Clock } from '../base/index.ts'
import type { Endpoint, StoreEndpoints } from '../contracts/index.ts'

/** What a directory needs. */
interface DirectoryOptions {
  readonly store: Pick<StoreEndpoints, 'list'>
  readonly clock: Clock
  readonly relay: string
}

/** The endpoints of a relay, as they were at most a second ago: deliveries would otherwise read them one by one. */
export class Directory {
  readonly #options: DirectoryOptions
  #known: { readonly at: number; readonly endpoints: ReadonlyMap<string, Endpoint> } | undefined
  #reading: Promise<ReadonlyMap<string, Endpoint>> | undefined
  #next: Promise<ReadonlyMap<string, Endpoint>> | undefined

  constructor(options: DirectoryOptions) {
    this.#options = options
  }

  /** An endpoint by its id, as it is now if it cannot be delivered to: a message must not fail because of yesterday's news. */
  async find(id: string): Promise<Endpoint | undefined> {
    const known = this.#known
    const fresh = known !== undefined && this.#options.clock.monotonic() - known.at < FRESH_MS
    const found = (fresh ? known.endpoints : await this.#read()).get(id)
    return found?.enabled === true ? found : (await this.#readAnew()).get(id)
  }

  /** What is known of an endpoint is not true any more. */
  forget(): void {
    this.#known = undefined
  }

  /** Those who ask at the same time share an answer. */
  #read(): Promise<ReadonlyMap<string, Endpoint>> {
    this.#reading ??= this.#list().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  /** As `#read`, but the database is asked after this moment. */
  #readAnew(): Promise<ReadonlyMap<string, Endpoint>> {
    this.#next ??= this.#afterThis()
    return this.#next
  }

  async #afterThis(): Promise<ReadonlyMap<string, Endpoint>> {
    await this.#reading?.catch(() => {})
    this.#next = undefined
    return this.#read()
  }

  async #list(): Promise<ReadonlyMap<string, Endpoint>> {
    const { store, clock, relay } = this.#options
    const at = clock.monotonic()
    const endpoints = new Map((await store.list(relay)).map((endpoint) => [endpoint.id, endpoint]))
    this.#known = { at, endpoints }
    return endpoints
  }
}

const FRESH_MS = 1_000

/** Whether an endpoint wants messages of a type. */
export function wants({ types }: Pick<Endpoint, 'types'>, type: string): boolean {
  if (types === 'all') return true
  return types.some((wanted) => (wanted.endsWith('.*') ? type.startsWith(wanted.slice(0, -1)) : wanted === type))
}
