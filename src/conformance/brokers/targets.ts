import { asError, messageOf } from '../../base/index.ts'
import { kafka } from '../../brokers/kafka/index.ts'
import { memory } from '../../stores/memory/index.ts'
import { type BrokerHarness, brokerCases } from '../../testing/index.ts'
import { openRedis, redisVersion, removeKeys } from '../stores/targets.ts'
import type { OpenTarget, Target } from '../target.ts'
import { kafkaHarness, kafkaPlace } from './kafka.ts'
import { natsHarness, natsPlace } from './nats.ts'
import { PlainKafka } from './plain-kafka.ts'
import { RabbitmqPlace, type RabbitmqPlaceOptions, rabbitmqHarness } from './rabbitmq.ts'
import { redisPlace, redisStreamsHarness } from './redis-streams.ts'

/** What is open, so that it can be closed whatever becomes of the case that opened it. */
export class Places {
  readonly #open = new Set<AsyncDisposable>()
  #over = false

  async add<Place extends AsyncDisposable>(opening: Promise<Place>): Promise<Place> {
    const place = await opening
    if (this.#over) {
      await place[Symbol.asyncDispose]()
      throw new Error('the run is over')
    }
    this.#open.add(place)
    return place
  }

  /** Closes all of them, whatever becomes of one, and then says what has failed. */
  async close(): Promise<void> {
    this.#over = true
    const failures: Error[] = []
    for (const place of this.#open) {
      try {
        await place[Symbol.asyncDispose]()
      } catch (error) {
        failures.push(asError(error))
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, failures.map(messageOf).join('; '))
  }
}

/** RabbitMQ. */
export const rabbitmqTarget: OpenTarget = (url, id) => {
  const name = `hapax-conformance-${id}`
  const places = new Places()
  const open = (options: RabbitmqPlaceOptions = {}): Promise<RabbitmqPlace> =>
    places.add(RabbitmqPlace.open(url, { ...options, prefix: name }))
  return brokerTarget('exchanges and queues', name, rabbitmqHarness(url, open), places, async () => {
    await using place = await open()
    await place.subscription('trial')
    return place.server
  })
}

/** NATS with JetStream. */
export const natsTarget: OpenTarget = (url, id) => {
  const name = `HAPAX_CONFORMANCE_${id.toUpperCase()}`
  const places = new Places()
  const open = () => places.add(natsPlace(url, name))
  return brokerTarget('streams', name, natsHarness(url, open), places, async () => {
    await using place = await open()
    await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.>`] })
    return `NATS ${place.connection.info?.version ?? 'of no version'}`
  })
}

/** Redis Streams, and what speaks their protocol. */
export const redisStreamsTarget: OpenTarget = (url, id) => {
  const name = `hapax-conformance-${id}`
  const places = new Places()
  const open = () => places.add(redisPlace(url, name))
  const target = brokerTarget('streams', name, redisStreamsHarness(url, open), places, async () => {
    const plain = await openRedis(url)
    await plain.xadd(name, '*', 'trial', '1')
    await plain.del(name)
    const version = await redisVersion(plain)
    plain.disconnect()
    return version
  })
  const sweep = async (): Promise<void> => {
    await target.sweep()
    const plain = await openRedis(url)
    // Keys beside the streams too, such as those of single readers.
    await removeKeys(plain, `*${name}*`)
    plain.disconnect()
  }
  return { ...target, sweep }
}

/** Kafka, and what speaks its protocol. */
export const kafkaTarget: OpenTarget = (url, id) => {
  // Says what is wrong with it: users and TLS have no place in such a URL.
  kafka({ url })
  const name = `hapax_conformance_${id}`
  const places = new Places()
  const open = () => places.add(kafkaPlace(url, name))
  const target = brokerTarget('topics and groups', name, kafkaHarness(open), places, async () => {
    await using place = await open()
    return place.plain.server()
  })
  const sweep = async (): Promise<void> => {
    await target.sweep()
    const plain = await PlainKafka.open(url)
    try {
      await plain.deleteAll(name)
    } finally {
      await plain.close()
    }
  }
  return { ...target, sweep }
}

function brokerTarget(
  creates: string,
  name: string,
  harness: BrokerHarness,
  places: Places,
  trial: () => Promise<string>,
): Target {
  const cases = brokerCases(harness, memory)
  return {
    creates,
    name,
    list: async () => cases,
    reach: async () => ({ server: await trial(), cases }),
    sweep: () => places.close(),
  }
}
