import { connect } from 'amqplib'
import type { BrokerHarness } from 'hapax/testing'
import { memory } from '../../../src/stores/memory/index.ts'
import { Shop } from '../../../src/testing/broker/shop.ts'
import { World } from '../../../src/testing/broker/world.ts'
import { until } from '../../../src/testing/wait.ts'
import { attributeFields, field, longText, nested, publishRaw } from '../../support/amqp-raw.ts'
import type { RabbitmqPlace } from '../../support/rabbitmq-place.ts'
import { seeded } from '../../support/seeded.ts'
import { type BrokerName, requireServer } from '../../support/servers.ts'
import { type Hostile, hostile } from './hostile.ts'

// node fuzz-child.ts <broker> <seed> <count>: sends hostile messages with the broker's own client, beside good ones. Ends with 0 when
// every good one has taken effect, and every bad one is in the failed store or was refused by the broker or its client.

const [, , broker = '', seed = '1', count = '100'] = process.argv

const harnesses: Record<BrokerName, () => Promise<BrokerHarness>> = {
  rabbitmq: async () =>
    (await import('../../../src/conformance/brokers/rabbitmq.ts')).rabbitmqHarness(requireServer('rabbitmq')),
  nats: async () => (await import('../../../src/conformance/brokers/nats.ts')).natsHarness(requireServer('nats')),
  'redis-streams': async () =>
    (await import('../../../src/conformance/brokers/redis-streams.ts')).redisStreamsHarness(requireServer('redis')),
  kafka: async () => {
    const { kafkaHarness, kafkaPlace } = await import('../../../src/conformance/brokers/kafka.ts')
    return kafkaHarness(() => kafkaPlace(requireServer('kafka')))
  },
}

const harness = await harnesses[broker as BrokerName]()
const place = await harness.open({ silenceMs: 60_000, returnMs: 60_000 })
const world = new World(place, harness.cannot, memory)
const shop = world.closeLater(new Shop({ rows: memory() }))
const consumer = shop.consumer({ group: { size: 7 } })
await shop.work({ consume: [consumer.from(await place.subscription('billing'))] })

// What the broker or the reader has to say, for the message of a failure.
const reports: string[] = []
shop.hapax.events.on('worker-error', ({ error }) => reports.push(error.message))

/** The mock of Kafka keeps the last 5 MiB of each partition and expires what is older, whether it was read or not. */
const KEPT_BYTES = broker === 'kafka' ? 4 * 1024 * 1024 : Number.POSITIVE_INFINITY
let unread = 0

const random = seeded(Number(seed))
const taken: Hostile[] = []
let refused = 0
for (let at = 0; at < Number(count); at++) {
  const each = hostile(`m${at}`, random)
  await untilRoomFor(each.message.body.byteLength)
  if (await isTaken(each)) taken.push(each)
  else refused += 1
}

async function untilRoomFor(bytes: number): Promise<void> {
  if (unread > 0 && unread + bytes > KEPT_BYTES) {
    await until(async () => shop.effects.length + (await shop.hapax.failed.count()) >= taken.length, 'all are settled')
    unread = 0
  }
  unread += bytes
}

/** A good one is sent until it is taken: the client of a busy broker may give up, and hapax knows what comes twice. */
async function isTaken({ isGood, message }: Hostile): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    try {
      await place.send(message)
      return true
    } catch (error) {
      if (!isGood) return false
      if (attempt === 5) throw error
    }
  }
}

// Headers that the client library of hapax cannot decode.
for (let at = 0; broker === 'rabbitmq' && at < Number(count) / 10; at++) {
  const id = `raw${at}`
  await sendRaw(place as RabbitmqPlace, id, random)
  taken.push({ what: 'raw headers', isGood: true, message: { body: Buffer.alloc(0), attributes: { id } } })
}

const good = taken.filter(({ isGood }) => isGood).map(({ message }) => message.attributes?.['id'] ?? '')
const bad = taken.length - good.length
await shop.untilEffects(good)
let failed = 0
const allFailed = async (): Promise<boolean> => {
  failed = await shop.hapax.failed.count()
  return failed >= bad
}
await until(allFailed, () => `${bad} messages are in the failed store; there are ${failed}. ${reports.join('; ')}`)
shop.assertEffects(good)
// The client may have given up on one that the broker took.
if (failed > bad + refused)
  throw new Error(`expected ${bad} failed messages and ${refused} more at most, got ${failed}`)
if (world.can('counting')) await world.untilNothingWaits('billing')
await world.close()
console.log(`${good.length} took effect, ${bad} failed, ${refused} were refused`)
process.exit(0)

async function sendRaw({ exchange }: RabbitmqPlace, id: string, random: () => number): Promise<void> {
  const attributes = attributeFields({ specversion: '1.0', id, source: '/fuzz', type: 'ping' })
  const odd = random() < 0.5 ? field('l', 'L', Buffer.alloc(8, Math.floor(random() * 256))) : deepField(random)
  const connection = await connect(requireServer('rabbitmq'))
  await publishRaw(connection, { exchange, routingKey: 'fuzz' }, Buffer.concat([odd, attributes]), Buffer.from('{}'))
  await connection.close()
}

function deepField(random: () => number): Buffer {
  return field('deep', 'F', longText(nested(Math.floor(random() * 8_000))))
}
