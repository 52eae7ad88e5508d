// Connections of `mysql2` that count in a budget which other stores share.

import type { Socket } from 'node:net'
import {
  type Borrowed,
  type Budget,
  heard,
  type Lender,
  loadClient,
  type Making,
  type Purpose,
  serverOf,
} from '../../base/index.ts'
import { destroy } from './client.ts'
import type { MysqlPools } from './connection.ts'
import { isServerFull } from './errors.ts'
import type { MysqlPool, MysqlPoolClient } from './mysql2.ts'

/** A promise connection of `mysql2`, as far as it is used; its `release` is replaced. */
interface Client extends MysqlPoolClient {
  end(): Promise<void>
  readonly connection: {
    readonly stream: Socket
    readonly _closing?: unknown
    readonly _fatalError?: unknown
    on(event: 'error', listener: (error: Error) => void): unknown
  }
}

/** How long a connection may take to open. */
const CONNECT_MS = 10_000
/** How long a link may be silent before the system asks whether it is still there; by itself it waits for two hours. */
const KEEP_ALIVE_MS = 10_000

/** Pools without a size of their own: the budget decides, within `most`. */
export function budgetedPools(url: string, budget: Budget, most: Making<Client>['most']): MysqlPools<MysqlPoolClient> {
  const lender = budget.lender<Client>({
    server: serverOf(url, 3306),
    most,
    open: () => opened(url),
    isFull: isServerFull,
    end: (client) => client.end(),
    destroy,
    onClosed,
  })
  const [handlers, control] = [poolOf(lender, 'handlers'), poolOf(lender, 'control')]
  return {
    size: { max: most.handlers, control: 0 },
    handlers: async () => handlers,
    control: async () => control,
    shortage: () => lender.shortage,
    close: () => lender.close(),
  }
}

function poolOf(lender: Lender<Client>, purpose: Purpose): MysqlPool {
  return { getConnection: async () => lent(await lender.borrow(purpose)) }
}

/** The connection, whose `release` is that of this loan. */
function lent({ client, giveBack }: Borrowed<Client>): MysqlPoolClient {
  return Object.assign(client, { release: () => giveBack(isBroken(client)) })
}

function isBroken({ connection }: Client): boolean {
  return Boolean(connection._closing) || Boolean(connection._fatalError) || connection.stream.destroyed
}

function onClosed({ connection: { stream } }: Client, closed: () => void): void {
  if (stream.closed) closed()
  else stream.once('close', closed)
}

async function opened(url: string): Promise<Client> {
  const mysql2 = await loadClient('mysql({ url })', ['mysql2'], () => import('mysql2/promise'))
  const options = { uri: url, connectTimeout: CONNECT_MS, enableKeepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS }
  const client = (await mysql2.createConnection(options)) as unknown as Client
  // A connection that breaks is replaced; without a listener an error of it would end the process.
  heard(client.connection)
  return heard(client)
}
