// One URL with several hosts, as libpq has it: of a primary and its standbys, whichever is the primary now. `pg` knows one host.

import { expected, heard, systemClock, within } from '../../base/index.ts'
import { noAnswer } from '../sql/index.ts'
import { isReadOnly } from './errors.ts'
import type { PgPool, PgPoolClient } from './pg.ts'

/** What a transaction of hapax needs is a server that takes writes. */
const WRITABLE = ['read-write', 'primary']
/** How long a server may take to say whether it takes writes. */
const ANSWER_MS = 10_000

/** A URL for each host of a URL. */
export function urlsOf(name: string, url: string): readonly [string, ...string[]] {
  const [, before = '', hosts = '', after = ''] = /^(\w+:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s.exec(url) ?? []
  const [first = '', ...others] = hosts.split(',').map((host) => `${before}${host}${after}`)
  const attributes = /[?&]target_session_attrs=([^&#]*)/.exec(after)?.[1]
  // Of one host, `any` asks for nothing.
  const fitting = others.length === 0 ? [...WRITABLE, 'any'] : WRITABLE
  if (attributes !== undefined && !fitting.includes(attributes))
    expected(name, `a URL with target_session_attrs=${fitting.join(' or ')}`, attributes)
  return [first, ...others]
}

/** A pool that can be ended. */
export interface OwnPool extends PgPool {
  end(): Promise<void>
}

/** Servers of which one takes writes, and the search for it. */
export class Hosts<Server> {
  readonly #servers: readonly Server[]
  readonly #checked = new WeakSet<object>()
  #current = 0

  constructor(servers: readonly Server[]) {
    this.#servers = servers
  }

  /** A client of the first server that takes writes, from the one on that did so last. One that does not is dropped. */
  async writable<Client extends Pick<PgPoolClient, 'query' | 'on'>>(
    connect: (server: Server) => Promise<Client>,
    drop: (client: Client) => void,
  ): Promise<Client> {
    let failure: unknown
    for (const _ of this.#servers) {
      const index = this.#current
      try {
        const client = await connect(this.#servers[index] as Server)
        if (this.#servers.length > 1) await this.#check(client, drop)
        return client
      } catch (error) {
        // That a standby takes no writes does not say what is wrong with the primary.
        if (failure === undefined || !isReadOnly(error)) failure = error
        this.#leave(index)
      }
    }
    throw failure
  }

  /** The server did not answer in time, or takes no writes any more: another one may be the primary now. */
  doubt(): void {
    this.#leave(this.#current)
  }

  /** Several may find out at once. */
  #leave(index: number): void {
    if (index === this.#current) this.#current = (index + 1) % this.#servers.length
  }

  async #check<Client extends Pick<PgPoolClient, 'query' | 'on'>>(
    client: Client,
    drop: (client: Client) => void,
  ): Promise<void> {
    if (this.#checked.has(client)) return
    // A pool does not listen for errors of a client that it has handed out: if the server dies now, one would end the process.
    heard(client)
    let writable = false
    try {
      const { rows } = await within(systemClock, ANSWER_MS, client.query('show transaction_read_only'), () => {
        throw noAnswer(ANSWER_MS)
      })
      writable = rows[0]?.['transaction_read_only'] === 'off'
    } finally {
      if (!writable) drop(client)
    }
    if (!writable) throw Object.assign(new Error('the server takes no writes'), { code: '25006' })
    this.#checked.add(client)
  }
}

/** A pool over several servers: the pool of each. */
export class HostsPool implements OwnPool {
  readonly #pools: readonly OwnPool[]
  readonly #hosts: Hosts<OwnPool>

  constructor(pools: readonly OwnPool[]) {
    this.#pools = pools
    this.#hosts = new Hosts(pools)
  }

  connect(): Promise<PgPoolClient> {
    return this.#hosts.writable(
      (pool) => pool.connect(),
      (client) => client.release(true),
    )
  }

  async query(...args: Parameters<PgPool['query']>): ReturnType<PgPool['query']> {
    const client = await this.connect()
    let broken = true
    try {
      const result = await client.query(...args)
      broken = false
      return result
    } finally {
      client.release(broken)
    }
  }

  doubt(): void {
    this.#hosts.doubt()
  }

  async end(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.end()))
  }
}
