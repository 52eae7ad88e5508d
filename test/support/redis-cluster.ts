import { Redis } from 'ioredis'
import { freePort } from '../../scripts/services/port.ts'
import { until } from '../../src/testing/wait.ts'
import { type PrivateServer, privateServer } from './private-server.ts'

/** A Redis Cluster of a test's own. */
export interface RedisClusterServers extends AsyncDisposable {
  /** Where its servers are. */
  readonly nodes: readonly { readonly host: string; readonly port: number }[]
}

const SLOTS = 16_384
const MASTERS = 3

/** Starts three masters and shares the slots out among them; `empty` more have none. */
export async function redisCluster({ empty = 0 }: { readonly empty?: number } = {}): Promise<RedisClusterServers> {
  const buses = await Promise.all(Array.from({ length: MASTERS + empty }, freePort))
  const started = await Promise.allSettled(
    buses.map((bus) => privateServer('redis', { args: ['--cluster-enabled', 'yes', '--cluster-port', String(bus)] })),
  )
  const servers = started.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  const dispose = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()))
  }
  try {
    if (servers.length < buses.length) throw started.find((each) => each.status === 'rejected')?.reason
    await join(servers, buses)
  } catch (error) {
    await dispose()
    throw error
  }
  return { nodes: servers.map(({ url }) => placeOf(url)), [Symbol.asyncDispose]: dispose }
}

async function join(servers: readonly PrivateServer[], buses: readonly number[]): Promise<void> {
  const clients = servers.map(({ url }) => new Redis(url))
  try {
    for (const [index, client] of clients.slice(0, MASTERS).entries()) {
      const [from, to] = [Math.floor((SLOTS * index) / MASTERS), Math.floor((SLOTS * (index + 1)) / MASTERS) - 1]
      await client.cluster('ADDSLOTSRANGE', from, to)
    }
    for (const [index, { url }] of servers.entries()) {
      const { host, port } = placeOf(url)
      await clients[0]?.call('CLUSTER', 'MEET', host, port, buses[index] as number)
    }
    const isWhole = async (client: Redis): Promise<boolean> => {
      const info = String(await client.cluster('INFO'))
      return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${servers.length}`)
    }
    await until(async () => (await Promise.all(clients.map(isWhole))).every(Boolean), 'a cluster that is whole')
  } finally {
    for (const client of clients) client.disconnect()
  }
}

function placeOf(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url)
  return { host: hostname, port: Number(port) }
}
