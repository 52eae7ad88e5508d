import type { KafkaAdmin, KafkaConsumer, KafkaOffsets } from '../client.ts'
import type { Assignment, Partition } from './assignment.ts'

/** Where a group without a committed offset begins. */
export type From = 'earliest' | 'latest'

const TIMESTAMPS = { earliest: -2n, latest: -1n } as const

/** Sets the position of each partition: the committed offset, or where `from` says. */
export async function findPositions(assignment: Assignment, from: From, consumer: KafkaConsumer): Promise<void> {
  const byTopic = Map.groupBy(assignment.partitions, ({ topic }) => topic)
  const topics = [...byTopic].map(([topic, all]) => ({ topic, partitions: all.map(({ index }) => index) }))
  if (topics.length === 0) return
  const committed = await consumer.listCommittedOffsets({ topics })
  const unknown = assignment.partitions.filter((each) => offsetOf(committed, each) === undefined)
  const beginnings = unknown.length === 0 ? new Map() : await listOffsets(unknown, from, consumer)
  for (const partition of assignment.partitions) {
    const known = offsetOf(committed, partition)
    const position = known ?? offsetOf(beginnings, partition)
    if (position === undefined)
      throw new Error(`no offset is known of ${partition.topic}, partition ${partition.index}`)
    // With 'latest', the position has to be committed: after a crash it would be a later one.
    partition.begin(position, known === undefined && from === 'latest')
  }
}

function listOffsets(partitions: readonly Partition[], from: From, consumer: KafkaConsumer): Promise<KafkaOffsets> {
  const byTopic = Map.groupBy(partitions, ({ topic }) => topic)
  const indexes = [...byTopic].map(([topic, all]) => [topic, all.map(({ index }) => index)] as const)
  return consumer.listOffsets({
    topics: [...byTopic.keys()],
    partitions: Object.fromEntries(indexes),
    timestamp: TIMESTAMPS[from],
  })
}

function offsetOf(offsets: KafkaOffsets, { topic, index }: Partition): bigint | undefined {
  const offset = offsets.get(topic)?.[index]
  return offset !== undefined && offset >= 0n ? offset : undefined
}

/** The longest time that receipts can be kept. */
const FOREVER_MS = 100 * 365 * 86_400_000

/** For how long the topics keep messages; undefined if that cannot be read. */
export async function findHorizon(topics: readonly string[], admin: KafkaAdmin): Promise<number | undefined> {
  const configurationKeys = ['retention.ms', 'cleanup.policy']
  const resources = topics.map((resourceName) => ({ resourceType: 2 as const, resourceName, configurationKeys }))
  try {
    const described = await admin.describeConfigs({ resources })
    const spans = described.map(({ configs }) => spanOf(new Map(configs.map(({ name, value }) => [name, value]))))
    const known = spans.filter((each) => each !== undefined)
    return known.length < topics.length || known.length < spans.length ? undefined : Math.max(...known)
  } catch {
    // Not every user has the permission to describe configs.
    return undefined
  }
}

/** A compacted topic keeps the last message of each key for ever. */
function spanOf(configs: ReadonlyMap<string, string | null | undefined>): number | undefined {
  if (configs.get('cleanup.policy') === 'compact') return FOREVER_MS
  const text = configs.get('retention.ms')
  if (text == null || !/^-?\d+$/.test(text)) return undefined
  return Number(text) < 0 ? FOREVER_MS : Math.min(FOREVER_MS, Number(text))
}
