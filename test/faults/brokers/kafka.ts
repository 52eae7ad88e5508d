import { type Kafka, kafka } from 'hapax/kafka'
import { groupOf } from '../../support/clusters/kafka.ts'
import { PlainKafka } from '../../support/kafka-place.ts'
import type { BrokerKind, BrokerPlace, PlainClient } from './broker-place.ts'

const PARTITIONS = 4

export const kafkaKind: BrokerKind = {
  async destination(place) {
    return open(place).topic(place.name, { publishTimeoutMs: 10_000 })
  },

  async subscription(place) {
    await declare(place)
    const sessionTimeoutMs = Math.max(6_000, place.abandonedMs)
    // Each story with the one that it is about, so that both are told.
    const protocol = place.single ? 'classic' : 'consumer'
    return open(place).group(groupOf(place.name), {
      topic: place.name,
      protocol,
      sessionTimeoutMs,
      commitIntervalMs: 200,
    })
  },

  async connect(place): Promise<PlainClient> {
    const plain = await PlainKafka.open(urlOf(place))
    return {
      send: async (messages) => {
        for (const { attributes, body } of messages) {
          const named = Object.entries(attributes).map(([name, value]) => [`ce_${name}`, value])
          const headers = { ...Object.fromEntries(named), 'content-type': 'application/json' }
          await plain.send(place.name, { value: Buffer.from(body), key: attributes['partitionkey'] ?? '', headers })
        }
      },
      waiting: () => plain.lag(place.name, groupOf(place.name)),
      close: () => plain.close(),
    }
  },
}

/** The topic, unless somebody else has made it: with a replica on each server, two of which have to confirm. */
async function declare(place: BrokerPlace): Promise<void> {
  const plain = await PlainKafka.open(urlOf(place))
  const replicas = 1 + (place.others?.length ?? 0)
  const configs = { 'min.insync.replicas': String(Math.ceil(replicas / 2)) }
  try {
    await plain.createTopic(place.name, { partitions: PARTITIONS, replicas, configs })
  } finally {
    await plain.close()
  }
}

function urlOf({ url, others = [] }: BrokerPlace): string {
  return `kafka://${[url, ...others].map((each) => new URL(each).host).join(',')}`
}

function open(place: BrokerPlace): Kafka {
  return kafka({ url: urlOf(place), connectTimeoutMs: 2_000 })
}
