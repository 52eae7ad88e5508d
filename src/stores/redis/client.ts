import { expected, HapaxError, loadClient, storeClosed, unreached } from '../../base/index.ts'

/** The subset of a client of `ioredis` or `iovalkey` that hapax needs. */
export interface IoredisClient {
  call(command: string, ...words: string[]): Promise<unknown>
}

/** The subset of a cluster of `ioredis` or `iovalkey` that hapax needs. */
export interface IoredisCluster extends IoredisClient {
  readonly isCluster: boolean
  nodes(role: 'master'): readonly IoredisClient[]
}

/** The subset of a client of `redis` (node-redis) that hapax needs. */
export interface NodeRedisClient {
  readonly isReady: boolean
  sendCommand(words: string[]): Promise<unknown>
}

/** The subset of a cluster of `redis` (node-redis) that hapax needs. */
export interface NodeRedisCluster {
  readonly masters: readonly unknown[]
  nodeClient(node: unknown): unknown
  sendCommand(firstKey: string | undefined, isReadonly: boolean, words: string[]): Promise<unknown>
}

/** A client of your own: hapax sends its commands through it, and never closes it. */
export type RedisClient = IoredisClient | IoredisCluster | NodeRedisClient | NodeRedisCluster

/** Sends one command; `key` is its first key, by which a cluster finds the server. */
type Send = (words: readonly string[], key?: string) => Promise<unknown>

/** A way to Redis. */
export interface Way {
  readonly send: Send
  /** Whether the keys of one command have to be in one slot. */
  readonly cluster: boolean
  /** One way to each server that has data. */
  servers(): Promise<readonly Send[]>
  /** The link does not answer: make a new one, if it is ours. */
  renew(): void
  close(): void
}

/** The way through a client of the user's. */
export function wayThrough(client: RedisClient): Way {
  const way = (send: Send, cluster: boolean, servers: () => Promise<readonly Send[]>): Way => {
    return { send, cluster, servers, renew: () => {}, close: () => {} }
  }
  if (isIoredis(client)) {
    const send = checking(client, ofIoredis(client))
    if (!isIoredisCluster(client)) return way(send, false, async () => [send])
    return way(send, true, async () => client.nodes('master').map(ofIoredis))
  }
  if (isNodeRedisCluster(client)) {
    listen(client)
    const send: Send = (words, key) => client.sendCommand(key, false, [...words])
    return way(send, true, () => mastersOf(client))
  }
  if (isNodeRedis(client)) {
    const send = ofNodeRedis(client)
    listen(client)
    return way(send, false, async () => [send])
  }
  return expected('client', 'a client or a cluster of ioredis, iovalkey or redis', client)
}

/** What is looked at to tell the clients from each other. */
interface Given {
  readonly call?: unknown
  readonly isCluster?: unknown
  readonly sendCommand?: unknown
  readonly masters?: unknown
  readonly isReady?: unknown
}

function fieldsOf(client: unknown): Given {
  return typeof client === 'object' && client !== null ? client : {}
}

function isIoredis(client: unknown): client is IoredisClient {
  return typeof fieldsOf(client).call === 'function'
}

function isIoredisCluster(client: IoredisClient): client is IoredisCluster {
  return fieldsOf(client).isCluster === true
}

function isNodeRedisCluster(client: unknown): client is NodeRedisCluster {
  const { sendCommand, masters } = fieldsOf(client)
  return typeof sendCommand === 'function' && Array.isArray(masters)
}

/** node-redis's client for Sentinel has `sendCommand` and `isReady` too, but other arguments: it is refused. */
function isNodeRedis(client: unknown): client is NodeRedisClient {
  const given = fieldsOf(client)
  return typeof given.sendCommand === 'function' && typeof given.isReady === 'boolean' && !('getMasterNode' in given)
}

const heard = new WeakSet<object>()

/** A client of node-redis connects again when its link breaks, but without a listener that ends the process. That of ioredis does not. */
function listen(client: object): void {
  if (heard.has(client)) return
  heard.add(client)
  const emitter: { on?(event: 'error', listener: () => void): unknown } = client
  emitter.on?.('error', () => {})
}

/** ioredis goes on in database 0 if there is none with the number that it was given: chosen once more, the refusal is heard. */
function choosing(database: string, send: Send): Send {
  if (database === '0') return send
  let chosen = false
  return async (words, key) => {
    if (!chosen) await send(['SELECT', database])
    chosen = true
    return send(words, key)
  }
}

/** What ioredis knows about the database of a client: what it was given, and what was chosen since. */
interface ChoosingClient {
  readonly options?: { readonly db?: number }
  readonly condition?: { readonly select?: number }
}

/** The same for a client of the user's, which is theirs to set: it is only looked at, once. */
function checking(client: IoredisClient & ChoosingClient, send: Send): Send {
  if ((client.options?.db ?? 0) === 0) return send
  let checked = false
  return async (words, key) => {
    if (!checked) {
      const info = await send(['CLIENT', 'INFO'])
      const meant = String(client.condition?.select ?? client.options?.db)
      const there = /\bdb=(\d+)/.exec(String(info))?.[1]
      if (there !== undefined && there !== meant) throw otherDatabase(meant, there)
    }
    checked = true
    return send(words, key)
  }
}

function otherDatabase(meant: string, there: string): HapaxError {
  const what = `expected the client to be in database ${meant}, as it was told, but it is in ${there}`
  return new HapaxError('store-unavailable', `${what}: is there a database ${meant}?`)
}

function ofIoredis(client: IoredisClient): Send {
  return ([command = '', ...words]) => client.call(command, ...words)
}

function ofNodeRedis(client: NodeRedisClient): Send {
  return (words) => client.sendCommand([...words])
}

async function mastersOf(cluster: NodeRedisCluster): Promise<readonly Send[]> {
  const clients = await Promise.all(cluster.masters.map((node) => cluster.nodeClient(node)))
  return clients.filter(isNodeRedis).map(ofNodeRedis)
}

/** A client that hapax opened. */
interface OwnClient extends IoredisClient {
  readonly status: string
  connect(): Promise<unknown>
  disconnect(reconnect?: boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
}

/** The way to a database of a URL: a client of our own, made when it is first needed. */
export function wayTo(url: string, database: string, timeoutMs: number): Way {
  let opening: Promise<OwnClient> | undefined
  const open = (): Promise<OwnClient> => {
    opening ??= openClient(url, timeoutMs, (error) => {
      trouble = error
    }).catch((error: unknown) => {
      opening = undefined
      throw error
    })
    return opening
  }
  let trouble: Error | undefined
  let closed = false
  const send = choosing(database, async ([command = '', ...words]) => {
    if (closed) throw storeClosed()
    const client = await open()
    // What the client says by itself is only that there is no link.
    if (client.status !== 'ready' && trouble !== undefined)
      throw new Error(unreached(trouble.message), { cause: trouble })
    return client.call(command, ...words)
  })
  const then = (work: (client: OwnClient) => void): void => void opening?.then(work, () => {})
  return {
    send,
    cluster: false,
    servers: async () => [send],
    renew: () => then((client) => client.disconnect(true)),
    close: () => {
      closed = true
      then((client) => client.disconnect())
    },
  }
}

async function openClient(url: string, timeoutMs: number, onError: (error: Error) => void): Promise<OwnClient> {
  const { Redis } = await loadClient('redis({ url })', ['ioredis'], () => import('ioredis'))
  const client = new Redis(url, {
    lazyConnect: true,
    // What cannot be sent now is an error now: the caller decides whether to send it again.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: timeoutMs,
    retryStrategy: (times) => Math.min(1_000, 20 * 2 ** times),
  })
  client.on('error', onError)
  await client.connect().catch(() => {})
  return client
}
