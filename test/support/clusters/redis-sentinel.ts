import { Redis } from 'ioredis'
import { freePort } from '../../../scripts/services/port.ts'
import { sentinelSettings } from '../../../scripts/services/redis.ts'
import { privateServer } from '../private-server.ts'
import type { Host } from './network.ts'
import { type FoundNode, type LosingCluster, Nodes, patiently } from './nodes.ts'

/** A primary with two replicas, watched by three sentinels. */
export interface WatchedRedis extends LosingCluster, AsyncDisposable {
  /** Of the sentinels. */
  readonly urls: readonly string[]
}

/** What the sentinels call the servers that they watch. */
export const WATCHED = 'orders'
/** After this time without an answer the primary is taken for dead. The default is 30 s. */
const DOWN_MS = 2_000

/** Starts them on three hosts, each with a server and a sentinel. */
export function watchedRedis(): Promise<WatchedRedis> {
  return Nodes.open(3, async (nodes) => {
    const [port, watchPort] = [await freePort(), await freePort()]
    const [primary, ...replicas] = nodes.hosts
    if (primary === undefined) throw new Error('expected three hosts')
    // A primary that has lost its replicas refuses writes, so that it does not go on beside its successor.
    const common = ['--repl-diskless-sync-delay', '0', '--min-replicas-to-write', '1', '--min-replicas-max-lag', '3']
    const serve = (host: Host, ...args: string[]) => privateServer('redis', { host, port, args: [...common, ...args] })
    await nodes.start((host) => serve(host), [primary])
    const follow = (host: Host) => serve(host, '--replicaof', primary.address, String(port))
    const data = await nodes.start(follow, replicas)
    await following(data.map(({ url }) => url))
    const watches = await nodes.start((host) => {
      const files = { 'sentinel.conf': settings(host, watchPort, primary, port) }
      return privateServer('sentinel', { host, port: watchPort, files })
    })
    const urls = watches.map(({ url }) => url)
    await patiently(async () => (await peers(urls)).every((count) => count === 2), 'sentinels that know each other')
    return {
      urls,
      find: () => nodeOf(nodes, urls, port),
      [Symbol.asyncDispose]: () => nodes[Symbol.asyncDispose](),
    }
  })
}

function settings({ address }: Host, watchPort: number, primary: Host, port: number): string {
  return `${sentinelSettings(watchPort, address)}
sentinel monitor ${WATCHED} ${primary.address} ${port} 2
sentinel down-after-milliseconds ${WATCHED} ${DOWN_MS}
sentinel failover-timeout ${WATCHED} 10000
`
}

async function nodeOf(nodes: Nodes, urls: readonly string[], port: number): Promise<FoundNode> {
  const address = await asking(urls[0] as string, primaryOf)
  const other = urls.find((url) => new URL(url).hostname !== address) as string
  return {
    lose: async (fault) => {
      const restore = await nodes.lose(`redis://${address}:${port}`, fault)
      return {
        replaced: () => patiently(async () => (await asking(other, primaryOf)) !== address, 'a replica to take over'),
        restore: async () => {
          await restore()
          await following([`redis://${address}:${port}`])
          await patiently(
            async () => (await peers(urls)).every((count) => count === 2),
            'sentinels that know each other',
          )
        },
      }
    },
  }
}

async function primaryOf(sentinel: Redis): Promise<string> {
  const [address] = (await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', WATCHED)) as [string, string]
  return address
}

/** How many others each sentinel sees. What another one thought of the old primary (`master_down`) may stay for good. */
async function peers(urls: readonly string[]): Promise<number[]> {
  return Promise.all(
    urls.map((url) =>
      asking(url, async (sentinel) => {
        const others = (await sentinel.call('SENTINEL', 'SENTINELS', WATCHED)) as string[][]
        return others.filter((fields) => !/\b[so]_down|disconnected/.test(fields[fields.indexOf('flags') + 1] ?? ''))
          .length
      }),
    ),
  )
}

async function following(urls: readonly string[]): Promise<void> {
  const follows = async (client: Redis): Promise<boolean> =>
    (await client.info('replication')).includes('master_link_status:up')
  for (const url of urls) await patiently(() => asking(url, follows), `${url} to follow the primary`)
}

async function asking<T>(url: string, question: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(url)
  client.on('error', () => {})
  try {
    return await question(client)
  } finally {
    client.disconnect()
  }
}
