import * as library from '@platformatic/kafka'
import { kafkaVersion } from '../../src/conformance/brokers/kafka-version.ts'

const { Admin, Consumer, Producer } = library

/** Asks a server that speaks the protocol of Kafka what it is. */
export async function pingKafka(url: string): Promise<string> {
  const { host, hostname, port } = new URL(url)
  const admin = new Admin({
    clientId: 'hapax-services',
    bootstrapBrokers: [host],
    connectTimeout: 5_000,
    retries: false,
  })
  try {
    await admin.metadata({ topics: [] })
    const apis = await admin.listApis()
    if (!apis.some(({ name }) => name === 'CreateTopics')) return 'Kafka protocol mock'
  } finally {
    await admin.close()
  }
  await untilServing(host)
  const version = await kafkaVersion(library, { host: hostname, port: Number(port) })
  return version === undefined ? 'Kafka broker' : `Kafka ${version}`
}

/** A broker answers before it can number producers and coordinate groups. */
async function untilServing(host: string): Promise<void> {
  const options = { clientId: 'hapax-services', bootstrapBrokers: [host], retries: false }
  const producer = new Producer({ ...options, idempotent: true })
  const consumer = new Consumer({ ...options, groupId: 'hapax-services' })
  try {
    await producer.initIdempotentProducer({ producerId: -1n, producerEpoch: -1 })
    await consumer.findGroupCoordinator()
  } finally {
    await Promise.all([producer.close(), consumer.close()])
  }
}
