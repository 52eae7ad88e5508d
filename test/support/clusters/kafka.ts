import { Admin, Consumer } from '@platformatic/kafka'
import { brokerSettings } from '../../../scripts/services/kafka-broker.ts'
import { privateServer } from '../private-server.ts'
import { type FoundNode, type LosingCluster, Nodes, patiently } from './nodes.ts'

const PORT = 29_092

/** Three brokers, which are the controllers, too. */
export interface KafkaCluster extends LosingCluster, AsyncDisposable {
  readonly urls: readonly string[]
  readonly nodes: Nodes
}

/** Starts three brokers, each on a host of its own. */
export function kafkaCluster(): Promise<KafkaCluster> {
  return Nodes.open(3, async (nodes) => {
    const all = nodes.hosts.map(({ address }) => ({ address, port: PORT }))
    const servers = await nodes.start((host) =>
      privateServer('kafka-broker', {
        host,
        port: PORT,
        files: { 'server.properties': brokerSettings({ address: host.address, port: PORT, nodes: all }) },
      }),
    )
    const urls = servers.map(({ url }) => url)
    return {
      urls,
      nodes,
      find: (topic) => leaderOf(nodes, urls, topic),
      [Symbol.asyncDispose]: () => nodes[Symbol.asyncDispose](),
    }
  })
}

/** The group that reads a topic. */
export function groupOf(topic: string): string {
  return `readers-of-${topic}`
}

/** The coordinator of the group, if it leads a partition of the topic, too; or else the leader of most of them. */
async function leaderOf(nodes: Nodes, urls: readonly string[], topic: string): Promise<FoundNode> {
  let found: { leaders: string[]; coordinator: string } | undefined
  const look = async (admin: Admin): Promise<void> => {
    const { topics, brokers } = await admin.metadata({ topics: [topic] })
    const all = (topics.get(topic)?.partitions ?? []).map(({ leader }) => leader)
    const urlOf = (id: number): string => `kafka://${brokers.get(id)?.host}:${brokers.get(id)?.port}`
    found = { leaders: all.map(urlOf), coordinator: urlOf(await coordinatorOf(urls, groupOf(topic))) }
  }
  await patiently(async () => {
    await asking(urls, look)
    return true
  }, `a leader of ${topic}`)
  const { leaders, coordinator } = found as NonNullable<typeof found>
  const counts = [...Map.groupBy(leaders, (url) => url)].map(([url, all]) => ({ url, count: all.length }))
  const { url } = counts.reduce((most, each) => (each.count > most.count ? each : most))
  const whole = (): Promise<boolean> => asking(urls, (admin) => isWhole(admin, topic))
  return {
    lose: async (fault) => {
      const restore = await nodes.lose(leaders.includes(coordinator) ? coordinator : url, fault)
      return {
        restore: async () => {
          await restore()
          await patiently(whole, `three replicas of ${topic}`)
        },
      }
    },
  }
}

async function coordinatorOf(urls: readonly string[], groupId: string): Promise<number> {
  const bootstrapBrokers = urls.map((url) => new URL(url).host)
  const consumer = new Consumer({ clientId: 'cluster', bootstrapBrokers, groupId, connectTimeout: 1_000 })
  try {
    return await consumer.findGroupCoordinator()
  } finally {
    await consumer.close()
  }
}

async function isWhole(admin: Admin, topic: string): Promise<boolean> {
  const { topics } = await admin.metadata({ topics: [topic] })
  return (topics.get(topic)?.partitions ?? []).every(({ leader, isr }) => leader >= 0 && isr.length === 3)
}

async function asking<T>(urls: readonly string[], question: (admin: Admin) => Promise<T>): Promise<T> {
  const bootstrapBrokers = urls.map((url) => new URL(url).host)
  const admin = new Admin({ clientId: 'cluster', bootstrapBrokers, connectTimeout: 1_000, requestTimeout: 3_000 })
  try {
    return await question(admin)
  } finally {
    await admin.close()
  }
}
