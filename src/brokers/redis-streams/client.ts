import { asError, expected, loadClient, shownUrl } from '../../base/index.ts'
import { type IoredisCluster, isCluster, masterOf, refusePrefix } from './cluster.ts'

/** One word of a command. */
export type Word = string | Buffer

/** The subset of a client of `ioredis` or `iovalkey` that hapax needs. */
export interface IoredisClient {
  /** The options of the client. */
  readonly options?:
    | { readonly db?: number | undefined; readonly sentinels?: readonly unknown[] | undefined }
    | undefined
  duplicate(override?: object): IoredisClient
  connect(): Promise<unknown>
  disconnect(): void
  /** Sends any command. Strings in the reply are buffers. */
  callBuffer(command: string, ...words: Word[]): Promise<unknown>
  on(event: 'error' | 'end', listener: (error?: Error) => void): unknown
  /** The socket, once there is one. Not part of what the client documents. */
  readonly stream?: { cork?(): void; uncork?(): void } | undefined
}

/** The subset of a client of `redis` (node-redis) that hapax needs. */
export interface NodeRedisClient {
  /** The options of the client. */
  readonly options?: { readonly socket?: object } | undefined
  duplicate(overrides?: object): NodeRedisClient
  connect(): Promise<unknown>
  destroy(): void
  sendCommand(words: readonly Word[]): Promise<unknown>
  on(event: 'error' | 'end', listener: (error?: Error) => void): unknown
}

/** Your own client. hapax sends nothing through it, but creates other clients with the same settings. */
export type RedisClient = IoredisClient | IoredisCluster | NodeRedisClient

/** A client for a single connection: it never reconnects. */
export interface RawClient {
  /** The database to choose on a new connection. */
  readonly database: string
  connect(): Promise<unknown>
  /** Sends one command. Strings in the reply are buffers. */
  send(words: readonly Word[]): Promise<unknown>
  end(): void
  /** Called when the connection has ended or could not be opened; perhaps more than once. */
  onEnd(listener: (error?: Error) => void): void
  /** Writes all commands that `work` sends in one go. */
  together(work: () => void): void
}

/** Creates clients. */
export interface ClientSource {
  /** The address for error messages: ` at redis://…`; empty if only the user's client knows it. */
  readonly at: string
  /** Loads the client library; rejects where it is not installed. */
  load(): Promise<void>
  /** For the server that has the stream: in a cluster the master of its slot, or the one at `place`. */
  open(connectMs: number, stream: string, place?: string): Promise<RawClient>
}

/** Clients for a URL. hapax selects the database itself: ioredis silently stays in database 0 if the number is invalid. */
export function clientsOf(url: string | undefined): ClientSource {
  const { server, database } = splitUrl(url)
  const ioredis = () => loadClient('redisStreams({ url })', ['ioredis'], () => import('ioredis'))
  return {
    at: ` at ${shownUrl(url)}`,
    load: async () => void (await ioredis()),
    open: async (connectMs) => {
      const { Redis } = await ioredis()
      return ofIoredis(new Redis(server, ioredisSettings(connectMs)), database)
    },
  }
}

function splitUrl(url: string | undefined): { readonly server: string; readonly database: string } {
  // Shown without credentials: it may contain a password.
  const what = 'like redis://host:6379 or rediss://host:6379/0'
  if (typeof url !== 'string' || !/^rediss?:\/\//.test(url) || !URL.canParse(url)) expected('url', what, shownUrl(url))
  const parsed = new URL(url)
  const database = parsed.pathname.slice(1) || (parsed.searchParams.get('db') ?? '0')
  if (!/^\d+$/.test(database)) expected('url', 'one whose path is the number of a database, as /0', shownUrl(url))
  parsed.pathname = ''
  parsed.searchParams.delete('db')
  return { server: parsed.href, database }
}

/** Clients with the settings of the user's client. */
export function clientsLike(client: RedisClient): ClientSource {
  const what = 'made by new Redis() or new Cluster() of ioredis or iovalkey, or by createClient() of redis'
  if (typeof client?.duplicate !== 'function') expected('client', what, client)
  if (isCluster(client)) {
    refusePrefix(client)
    return given((ms, stream, place) => ofCluster(client, ms, stream, place))
  }
  if ('callBuffer' in client) {
    const next = sentinelsInTurn(client)
    return given((ms) => likeIoredis(client, ms, next()))
  }
  // Cluster and Sentinel clients of node-redis take more arguments, and are not supported.
  if (typeof client.sendCommand !== 'function' || client.sendCommand.length > 2) expected('client', what, client)
  return given((ms) => likeNodeRedis(client, ms))
}

/** Nothing has to be loaded, because the library created the user's client. */
function given(make: (...to: Parameters<ClientSource['open']>) => RawClient | Promise<RawClient>): ClientSource {
  return { at: '', load: () => Promise.resolve(), open: async (...to) => make(...to) }
}

/**
 * A client that reconnects by itself also repeats commands without a reply, or silently drops them. Neither is safe here, so each
 * client serves one connection, and a new one is created after a loss.
 */
function ioredisSettings(connectMs: number): object {
  return {
    lazyConnect: true,
    db: 0,
    retryStrategy: null,
    reconnectOnError: null,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    // Not needed: while Redis loads its data, it replies LOADING.
    enableReadyCheck: false,
    connectTimeout: connectMs,
    commandTimeout: undefined,
    socketTimeout: undefined,
    blockingTimeout: undefined,
    protocol: 2,
    replyMapping: 'legacy',
  }
}

function likeIoredis(client: IoredisClient, connectMs: number, sentinels: readonly unknown[]): RawClient {
  const shareMs = Math.ceil(connectMs / (sentinels.length + 1))
  // Without a limit, a sentinel that accepts a connection and stays silent is waited for, and its connection stays open.
  const asking = { sentinels, sentinelRetryStrategy: null, sentinelCommandTimeout: shareMs }
  const place = sentinels.length === 0 ? {} : asking
  return ofIoredis(client.duplicate({ ...ioredisSettings(shareMs), ...place }), String(client.options?.db ?? 0))
}

/** Each link asks another sentinel first: one that is cut off with the old primary knows of no other, and one that is away costs time. */
function sentinelsInTurn({ options }: IoredisClient): () => readonly unknown[] {
  const sentinels = options?.sentinels ?? []
  let turn = 0
  return () => {
    const first = turn++ % Math.max(1, sentinels.length)
    return [...sentinels.slice(first), ...sentinels.slice(0, first)]
  }
}

async function ofCluster(
  cluster: IoredisCluster,
  connectMs: number,
  stream: string,
  place: string | undefined,
): Promise<RawClient> {
  return ofIoredis(await masterOf(cluster, stream, ioredisSettings(connectMs), { connectMs, place }), '0')
}

function ofIoredis(client: IoredisClient, database: string): RawClient {
  let last: Error | undefined
  client.on('error', (error) => {
    last = error
  })
  return {
    database,
    connect: async () => {
      await client.connect().catch((error: unknown) => {
        // The rejection only says that there is no connection. The error event has the reason.
        throw last ?? asError(error)
      })
      // Before version 6, connect() does not wait for the reply to AUTH. Whether this user may PING does not matter.
      await client.callBuffer('PING').catch(() => {})
      if (last !== undefined) throw last
    },
    send: ([command = '', ...words]) => client.callBuffer(command.toString(), ...words),
    end: () => client.disconnect(),
    onEnd: (listener) => client.on('end', () => listener(last)),
    together: (work) => {
      const { stream } = client
      stream?.cork?.()
      try {
        work()
      } finally {
        stream?.uncork?.()
      }
    },
  }
}

function likeNodeRedis(client: NodeRedisClient, connectMs: number): RawClient {
  const own = client.duplicate({
    disableOfflineQueue: true,
    socket: {
      ...client.options?.socket,
      reconnectStrategy: false,
      connectTimeout: connectMs,
      socketTimeout: undefined,
    },
    RESP: 2,
    // Both need RESP 3.
    maintNotifications: 'disabled',
    clientSideCache: undefined,
    pingInterval: undefined,
    commandOptions: { typeMapping: { [BULK]: Buffer } },
  })
  const listeners: ((error?: Error) => void)[] = []
  const ended = (error?: Error): void => {
    for (const listener of listeners) listener(error)
  }
  own.on('error', ended)
  own.on('end', () => ended())
  return {
    // node-redis selects its database itself, and fails to connect if the number is invalid.
    database: '0',
    connect: () => own.connect(),
    send: (words) => own.sendCommand(words),
    end: () => destroy(own),
    onEnd: (listener) => listeners.push(listener),
    // node-redis collects the commands of one turn by itself.
    together: (work) => work(),
  }
}

/** The RESP type of bulk strings in the type mapping of node-redis. */
const BULK = '$'.charCodeAt(0)

/** `destroy` throws if the client is not connected. */
function destroy(client: NodeRedisClient): void {
  try {
    client.destroy()
  } catch {
    // It is closed already.
  }
}
