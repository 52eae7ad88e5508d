// Connections of `pg` that count in a budget which other stores share.

import { Socket } from 'node:net'
import {
  type Borrowed,
  type Budget,
  contained,
  heard,
  type Lender,
  loadClient,
  type Making,
  type Purpose,
  serverOf,
  systemClock,
  within,
} from '../../base/index.ts'
import { destroy } from '../sql/index.ts'
import type { PgPools } from './connection.ts'
import { isServerFull } from './errors.ts'
import { Hosts, urlsOf } from './hosts.ts'
import type { PgPool, PgPoolClient } from './pg.ts'

/** A client of `pg`, as far as it is used; `release` is added. */
interface Client extends PgPoolClient {
  connect(): Promise<unknown>
  end(): Promise<void>
  once(event: 'end', listener: () => void): unknown
  readonly connection?: { readonly stream?: Socket }
}

/** How long a connection may take to open. */
const CONNECT_MS = 10_000
/** How long a link may be silent before the system asks whether it is still there; by itself it waits for two hours. */
const KEEP_ALIVE_MS = 10_000

/** Pools without a size of their own: the budget decides, within `most`. They do not listen. */
export function budgetedPools(url: string, budget: Budget, most: Making<Client>['most']): PgPools<PgPoolClient> {
  const hosts = new Hosts(urlsOf('url', url))
  const lender = budget.lender<Client>({
    server: serverOf(url, 5432),
    most,
    open: () => hosts.writable(opened, destroy),
    isFull: isServerFull,
    end: (client) => client.end(),
    destroy,
    onClosed,
  })
  const [handlers, control] = [poolOf(lender, 'handlers'), poolOf(lender, 'control')]
  return {
    size: { max: most.handlers, control: 0 },
    handlers: () => handlers,
    control: () => control,
    doubted: () => hosts.doubt(),
    shortage: () => lender.shortage,
    close: () => lender.close(),
  }
}

function poolOf(lender: Lender<Client>, purpose: Purpose): PgPool {
  const connect = async (): Promise<PgPoolClient> => lent(await lender.borrow(purpose))
  return {
    connect,
    query: async (text, params) => {
      const client = await connect()
      let broken = true
      try {
        const result = await client.query(text, params)
        broken = false
        return result
      } finally {
        client.release(broken)
      }
    },
  }
}

/** The client, whose `release` is that of this loan. */
function lent({ client, giveBack }: Borrowed<Client>): PgPoolClient {
  const release: PgPoolClient['release'] = (error) =>
    giveBack(Boolean(error) || client.connection?.stream?.destroyed === true)
  return Object.assign(client, { release })
}

function onClosed(client: Client, closed: () => void): void {
  const stream = client.connection?.stream
  if (stream === undefined) client.once('end', closed)
  else if (stream.closed) closed()
  else stream.once('close', closed)
}

async function opened(url: string): Promise<Client> {
  const { default: pg } = await loadClient('postgres({ url })', ['pg'], () => import('pg'))
  const client = new pg.Client({
    connectionString: url,
    stream: () => contained(new Socket()),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    application_name: 'hapax',
  }) as unknown as Client
  heard(client)
  try {
    await within(systemClock, CONNECT_MS, client.connect(), () => {
      throw Object.assign(new Error(`no connection within ${CONNECT_MS} ms`), { code: 'ETIMEDOUT' })
    })
  } catch (error) {
    destroy(client)
    throw error
  }
  // With TLS another socket is put around the first one.
  if (client.connection?.stream !== undefined) contained(client.connection.stream)
  return client
}
