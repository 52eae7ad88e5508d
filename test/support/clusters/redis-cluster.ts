import { Redis } from 'ioredis'
import { freePort } from '../../../scripts/services/port.ts'
import { privateServer } from '../private-server.ts'
import { type FoundNode, type LosingCluster, Nodes, patiently } from './nodes.ts'

/** A Redis Cluster with replicas. */
export interface ReplicatedRedisCluster extends LosingCluster, AsyncDisposable {
  readonly urls: readonly string[]
  /** Lets the master that has the key believe for so long that it is one, whatever it hears of the others. */
  trust(key: string, ms: number): Promise<void>
}

const SLOTS = 16_384
const MASTERS = 3
/** Of each master: when one of them has taken over, the other still confirms. */
const REPLICAS = 2
/** After this time without an answer a master is taken for dead. The default is 15 s. */
const TIMEOUT_MS = 2_000

/** Starts three masters with two replicas each, all on hosts of their own. */
export function replicatedRedisCluster(): Promise<ReplicatedRedisCluster> {
  return Nodes.open((1 + REPLICAS) * MASTERS, async (nodes) => {
    const [port, bus] = [await freePort(), await freePort()]
    const cluster = ['--cluster-enabled', 'yes', '--cluster-port', bus, '--cluster-node-timeout', TIMEOUT_MS]
    const args = [...cluster, '--repl-diskless-sync-delay', 0].map(String)
    const servers = await nodes.start((host) => privateServer('redis', { host, port, args }))
    const urls = servers.map(({ url }) => url)
    await join(urls, bus)
    return {
      urls,
      find: (key) => nodeOf(nodes, urls, key),
      trust: async (key, ms) => {
        const address = await masterOf(urls, key)
        await configured(
          urls.filter((each) => new URL(each).hostname === address),
          ms,
        )
      },
      [Symbol.asyncDispose]: () => nodes[Symbol.asyncDispose](),
    }
  })
}

async function join(urls: readonly string[], bus: number): Promise<void> {
  const clients = urls.map((url) => new Redis(url))
  const masters = clients.slice(0, MASTERS)
  try {
    // A server that is not met in this time, on a machine where all of them have just started, would not be met again.
    await configured(urls, 30_000)
    for (const [index, client] of masters.entries()) {
      const [from, to] = [index, index + 1].map((each) => Math.floor((SLOTS * each) / MASTERS)) as [number, number]
      await client.cluster('ADDSLOTSRANGE', from, to - 1)
      // Otherwise two of them may claim the same epoch when one of their replicas takes over.
      await client.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
    }
    for (const { hostname, port } of urls.map((url) => new URL(url))) {
      await masters[0]?.call('CLUSTER', 'MEET', hostname, port, bus)
    }
    await patiently(async () => (await whole(clients)).every((each) => each.known), 'servers that know each other')
    for (const [index, client] of clients.slice(MASTERS).entries()) {
      const id = String(await masters[index % MASTERS]?.call('CLUSTER', 'MYID'))
      await client.call('CLUSTER', 'REPLICATE', id)
    }
    await patiently(async () => (await whole(clients)).every((each) => each.linked), 'replicas that follow')
    await configured(urls, TIMEOUT_MS)
  } finally {
    for (const client of clients) client.disconnect()
  }
}

async function configured(urls: readonly string[], timeoutMs: number): Promise<void> {
  const clients = urls.map((url) => new Redis(url))
  try {
    for (const client of clients) await client.config('SET', 'cluster-node-timeout', timeoutMs)
  } finally {
    for (const client of clients) client.disconnect()
  }
}

/** Whether each server knows all of them, and is a replica that follows or a master that is followed. */
async function whole(clients: readonly Redis[]): Promise<{ known: boolean; linked: boolean }[]> {
  return Promise.all(
    clients.map(async (client) => {
      const [state, replication] = [String(await client.cluster('INFO')), await client.info('replication')]
      const known = state.includes('cluster_state:ok') && state.includes(`cluster_known_nodes:${clients.length}`)
      return { known, linked: known && /master_link_status:up|slave0:.*state=online/.test(replication) }
    }),
  )
}

/** The master that has the key. */
async function nodeOf(nodes: Nodes, urls: readonly string[], key: string): Promise<FoundNode> {
  const address = await masterOf(urls, key)
  const url = urls.find((each) => new URL(each).hostname === address)
  if (url === undefined) throw new Error(`expected a master of ${key}, got ${address}`)
  const others = urls.filter((each) => each !== url)
  return {
    lose: async (fault) => {
      const restore = await nodes.lose(url, fault)
      return {
        replaced: () => patiently(async () => (await masterOf(others, key)) !== address, 'a replica to take over'),
        restore: async () => {
          await restore()
          const clients = urls.map((each) => new Redis(each))
          try {
            const isWhole = async (): Promise<boolean> => (await whole(clients)).every((each) => each.linked)
            await patiently(async () => (await agree(urls, key)) && (await isWhole()), 'a cluster that is whole')
            await configured([url], TIMEOUT_MS)
          } finally {
            for (const client of clients) client.disconnect()
          }
        },
      }
    },
  }
}

/** Whether all name the same master. One that was cut off takes itself for it until it has heard from the others. */
async function agree(urls: readonly string[], key: string): Promise<boolean> {
  return new Set(await Promise.all(urls.map((url) => masterOf([url], key)))).size === 1
}

async function masterOf([url = '']: readonly string[], key: string): Promise<string | undefined> {
  const client = new Redis(url)
  try {
    const slot = Number(await client.call('CLUSTER', 'KEYSLOT', key))
    const ranges = (await client.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][]
    return ranges.find(([from, to]) => from <= slot && slot <= to)?.[2][0]
  } finally {
    client.disconnect()
  }
}
