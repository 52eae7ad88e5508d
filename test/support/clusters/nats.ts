import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { privateServer } from '../private-server.ts'
import type { Host } from './network.ts'
import { type FoundNode, type LosingCluster, Nodes, patiently } from './nodes.ts'

const ROUTES = 6222

/** Three servers with JetStream. */
export interface NatsCluster extends LosingCluster, AsyncDisposable {
  readonly urls: readonly string[]
}

/** Starts three servers, each on a host of its own. */
export function natsCluster(): Promise<NatsCluster> {
  return Nodes.open(3, async (nodes) => {
    const routes = nodes.hosts.map(({ address }) => `nats://${address}:${ROUTES}`).join(',')
    const servers = await nodes.start((host, index) =>
      privateServer('nats', { host, args: argsOf(host, index, routes) }),
    )
    const urls = servers.map(({ url }) => url)
    return {
      urls,
      find: (stream) => leaderOf(nodes, urls, stream),
      [Symbol.asyncDispose]: () => nodes[Symbol.asyncDispose](),
    }
  })
}

function argsOf({ address }: Host, index: number, routes: string): string[] {
  const cluster = ['--cluster_name', 'hapax', '--cluster', `nats://${address}:${ROUTES}`, '--routes', routes]
  return ['--server_name', nameOf(index), ...cluster]
}

function nameOf(index: number): string {
  return `n${index + 1}`
}

/** The leader of the stream. */
async function leaderOf(nodes: Nodes, urls: readonly string[], stream: string): Promise<FoundNode> {
  const leaderBy = (servers: readonly string[]): Promise<string | undefined> =>
    asking(servers, async (manager) => (await manager.streams.info(stream)).cluster?.leader)
  let leader: string | undefined
  const look = async (): Promise<boolean> => {
    leader = await leaderBy(urls)
    return urls.some((_, index) => nameOf(index) === leader)
  }
  await patiently(look, `a leader of ${stream}`)
  const url = urls.find((_, index) => nameOf(index) === leader) as string
  const others = urls.filter((each) => each !== url)
  const isReplaced = async (): Promise<boolean> => ![undefined, '', leader].includes(await leaderBy(others))
  return {
    lose: async (fault) => {
      const restore = await nodes.lose(url, fault)
      return {
        replaced: () => patiently(isReplaced, `another leader of ${stream}`),
        restore: async () => {
          await restore()
          await patiently(() => asking(urls, (manager) => isWhole(manager, stream)), `three replicas of ${stream}`)
        },
      }
    },
  }
}

async function isWhole(manager: JetStreamManager, stream: string): Promise<boolean> {
  const { cluster } = await manager.streams.info(stream)
  return (
    cluster?.leader !== undefined && cluster.replicas?.every(({ current, offline }) => current && !offline) === true
  )
}

async function asking<T>(urls: readonly string[], question: (manager: JetStreamManager) => Promise<T>): Promise<T> {
  const connection = await connect({ servers: [...urls], timeout: 5_000, reconnect: false })
  try {
    return await question(await jetstreamManager(connection))
  } finally {
    await connection.close()
  }
}
