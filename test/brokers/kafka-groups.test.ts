import { Admin, Consumer, Producer } from '@platformatic/kafka'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import type { Delivery } from 'hapax/contracts'
import { type KafkaClients, kafka } from 'hapax/kafka'
import { memory } from 'hapax/memory'
import { describe, expect, it, vi } from 'vitest'
import {
  fresh,
  HASTY,
  idsOf,
  KafkaProxy,
  kafkaPlace,
  listen,
  message,
  messages,
  PATIENT,
  type PlainKafka,
  publish,
} from '../support/kafka-place.ts'
import { kafkaServer } from '../support/kafka-server.ts'

vi.setConfig({ maxConcurrency: 25 })

function eventually(check: () => unknown): Promise<unknown> {
  return vi.waitFor(check, { timeout: 40_000, interval: 10 })
}

const ack = (delivery: Delivery): void => delivery.ack()

/** What the group has committed of the one partition that has messages. */
async function committedOf(plain: PlainKafka, topic: string, group: string): Promise<bigint | undefined> {
  return (await plain.committed(topic, group)).find((offset) => offset !== undefined)
}

/** The clients of the package, with a look at the consumers. */
function watchedClients(see: (consumer: Consumer) => void): KafkaClients {
  return {
    producer: (settings) => new Producer(settings),
    admin: (settings) => new Admin(settings),
    consumer: (settings) => {
      const consumer = new Consumer(settings)
      see(consumer)
      return consumer
    },
  }
}

describe.skipIf(kafkaServer === undefined).concurrent(`a group of Kafka (${kafkaServer})`, () => {
  it('E4: after a crash begins at the first message that was not finished, whatever was finished behind it', async () => {
    await using place = await kafkaPlace()
    const { topic, plain, proxy } = place
    await using other = await KafkaProxy.open(await plain.brokers())
    const group = fresh('billing')
    await publish(kafka({ url: other.url }).topic(topic), messages(10))
    await using first = await listen(kafka({ url: proxy.url }).group(group, { topic, ...HASTY }))
    await eventually(() => expect(first.deliveries).toHaveLength(10))
    for (const at of [9, 0, 2, 5, 1, 4, 8]) first.deliveries[at]?.ack()
    await eventually(async () => expect(await committedOf(plain, topic, group)).toBe(3n))
    // A crash: nobody says goodbye.
    await proxy.refuse()
    await using second = await listen(kafka({ url: other.url }).group(group, { topic, ...HASTY }))
    await eventually(() => expect(idsOf(second.deliveries)).toEqual(['m3', 'm4', 'm5', 'm6', 'm7', 'm8', 'm9']))
    expect(second.deliveries.every(({ arrival }) => arrival.redelivered)).toBe(true)
    second.deliveries.forEach(ack)
    await eventually(async () => expect(await plain.lag(topic, group)).toBe(0))
  })

  it('E4: what is committed never passes a message that is not finished, and never goes back', async () => {
    await using place = await kafkaPlace()
    const { topic, proxy } = place
    const commits: bigint[] = []
    const finished = new Set<bigint>()
    const clients = watchedClients((consumer) => {
      const commit = consumer.commit.bind(consumer) as (options: { offsets: { offset: bigint }[] }) => Promise<void>
      consumer.commit = ((options: { offsets: { offset: bigint }[] }) => {
        for (const { offset } of options.offsets) {
          for (let each = 0n; each < offset; each++) expect(finished).toContain(each)
          commits.push(offset)
        }
        return commit(options)
      }) as typeof consumer.commit
    })
    const subscription = kafka({ url: proxy.url, clients }).group(fresh('billing'), { topic, ...PATIENT })
    await using listening = await listen(subscription, {
      messages: 20,
      each: (delivery) => {
        // Some are finished at once, others after those that came later.
        const offset = BigInt(String(delivery.arrival.properties['offset']))
        const finish = (): void => {
          finished.add(offset)
          delivery.ack()
        }
        if (offset % 3n === 0n) setTimeout(finish, 5)
        else finish()
      },
    })
    await publish(kafka({ url: proxy.url }).topic(topic), messages(300))
    await eventually(() => expect(commits.at(-1)).toBe(300n))
    expect(commits).toEqual(commits.toSorted((a, b) => Number(a - b)))
    expect(commits.length).toBeGreaterThan(1)
    expect(listening.deliveries).toHaveLength(300)
  })

  it('hands out no more than a window behind a message that is not finished, and goes on when it is', async () => {
    await using place = await kafkaPlace()
    const { topic, proxy } = place
    let first: Delivery | undefined
    const subscription = kafka({ url: proxy.url }).group(fresh('billing'), { topic, ...PATIENT })
    await using listening = await listen(subscription, {
      messages: 50,
      each: (delivery) => {
        if (first === undefined) first = delivery
        else delivery.ack()
      },
    })
    const destination = kafka({ url: proxy.url }).topic(topic)
    await publish(destination, messages(2_500))
    await eventually(() => expect(listening.deliveries).toHaveLength(1_000))
    // Another key has its own window.
    await publish(destination, [message('other', { key: 'k0' })])
    await eventually(() => expect(idsOf(listening.deliveries)).toContain('other'))
    expect(listening.deliveries).toHaveLength(1_001)
    first?.ack()
    await eventually(() => expect(listening.deliveries).toHaveLength(2_501))
    await destination.close()
  })

  it('E3: a member that joins while messages are in hand: none is lost, and late answers do nothing', async () => {
    await using place = await kafkaPlace()
    const { topic, plain, proxy } = place
    const group = fresh('billing')
    const destination = kafka({ url: proxy.url }).topic(topic)
    const subscription = kafka({ url: proxy.url }).group(group, { topic, ...HASTY })
    const keyed = Array.from({ length: 80 }, (_, at) => message(`m${at}`, { key: `k${at % 20}` }))
    await publish(destination, keyed)
    await using first = await listen(subscription)
    await eventually(() => expect(first.deliveries).toHaveLength(80))
    const held = first.deliveries.slice()
    await using second = await listen(subscription, { each: ack })
    // The first has some of its partitions again, and the second has the others: whatever was in hand comes again.
    await eventually(() => expect(first.deliveries.length + second.deliveries.length).toBe(160))
    expect(second.deliveries.length).toBeGreaterThan(0)
    expect([...idsOf(first.deliveries.slice(80)), ...idsOf(second.deliveries)].sort()).toEqual(
      keyed.map(({ id }) => id).sort(),
    )
    held.forEach(ack)
    await eventually(async () => expect(await plain.lag(topic, group)).toBe(80 - second.deliveries.length))
    first.deliveries.slice(80).forEach(ack)
    await eventually(async () => expect(await plain.lag(topic, group)).toBe(0))
    expect([...first.reports, ...second.reports]).toEqual([])
    await destination.close()
  })

  it('E3: effects of a key keep their order while workers come and go', async () => {
    await using place = await kafkaPlace()
    const { topic, plain, proxy } = place
    const group = fresh('billing')
    const store = memory()
    const Step = defineMessage<{ n: number }>('step')
    const source = kafka({ url: proxy.url })
    const start = async () => {
      const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
      const consumer = hapax
        .consumer('billing', { order: 'wait' })
        .on(Step, async ({ n }, { tx, message: { key } }) => {
          tx.insert('effects', { key, n })
        })
      const consume = [consumer.from(source.group(group, { topic, ...HASTY }), { prefetch: 20 })]
      const worker = hapax.worker({ consume, pollMs: 10 })
      await worker.start()
      return { stop: () => worker.stop() }
    }
    const destination = source.topic(topic)
    const send = (from: number, to: number) => publish(destination, steps(from, to))
    const sending = send(0, 30)
    const first = await start()
    const second = await start()
    await sending
    await Promise.all([send(30, 60), first.stop()])
    const third = await start()
    await send(60, 90)
    const effects = (): { key: string; n: number }[] => store.rows('effects') as { key: string; n: number }[]
    await eventually(() => expect(effects()).toHaveLength(10 * 90))
    for (const [, of] of Map.groupBy(effects(), ({ key }) => key)) {
      expect(of.map(({ n }) => n)).toEqual(Array.from({ length: 90 }, (_, n) => n))
    }
    await eventually(async () => expect(await plain.lag(topic, group)).toBe(0))
    await Promise.all([second.stop(), third.stop(), destination.close()])
  })

  it('begins at the end where it is told to, and that is the same place when nothing has come yet', async () => {
    await using place = await kafkaPlace()
    const { topic, plain, proxy } = place
    const group = fresh('billing')
    const destination = kafka({ url: proxy.url }).topic(topic)
    const subscription = kafka({ url: proxy.url }).group(group, { topic, from: 'latest', ...HASTY })
    await publish(destination, messages(5))
    const first = await listen(subscription)
    await eventually(async () => expect(await plain.lag(topic, group)).toBe(0))
    await first.reader.close()
    await publish(destination, [message('later', { key: 'one' })])
    await using second = await listen(subscription)
    await eventually(() => expect(idsOf(second.deliveries)).toEqual(['later']))
    expect(first.deliveries).toEqual([])
    await destination.close()
  })

  it('says that a message may have come before only of what was there before the partition', async () => {
    await using place = await kafkaPlace()
    const { topic, proxy } = place
    const destination = kafka({ url: proxy.url }).topic(topic)
    await publish(destination, messages(3))
    await using listening = await listen(kafka({ url: proxy.url }).group(fresh('billing'), { topic, ...PATIENT }))
    await eventually(() => expect(listening.deliveries).toHaveLength(3))
    await publish(destination, [message('new', { key: 'one' })])
    await eventually(() => expect(listening.deliveries).toHaveLength(4))
    expect(listening.deliveries.map(({ arrival }) => arrival.redelivered)).toEqual([true, true, true, false])
    await destination.close()
  })

  it('reads several topics', async () => {
    await using place = await kafkaPlace()
    const { topic, plain, proxy } = place
    const other = await plain.createTopic()
    const subscription = kafka({ url: proxy.url }).group(fresh('billing'), { topics: [topic, other], ...PATIENT })
    await using listening = await listen(subscription, { each: ack })
    for (const each of [topic, other]) await plain.send(each, { value: Buffer.from(each) })
    await eventually(() => expect(listening.deliveries).toHaveLength(2))
    const topics = listening.deliveries.map(({ arrival }) => arrival.properties['topic'])
    expect(topics.toSorted()).toEqual([topic, other].toSorted())
  })

  it('shares out partitions that are added', async () => {
    await using place = await kafkaPlace()
    const { topic, proxy } = place
    const members: Consumer[] = []
    let joins = 0
    const clients = watchedClients((consumer) => {
      members.push(consumer)
      consumer.on('consumer:group:join', () => {
        joins += 1
      })
    })
    const subscription = kafka({ url: proxy.url, clients }).group(fresh('billing'), { topic, ...HASTY })
    await using listening = await listen(subscription)
    await publish(kafka({ url: proxy.url }).topic(topic), messages(3))
    await eventually(() => expect(listening.deliveries).toHaveLength(3))
    expect(joins).toBe(1)
    // The mock cannot add any; this is how the client says that it has seen some.
    const metadata = await (members[0] as Consumer).metadata({ topics: [topic] })
    const grown = { ...metadata.topics.get(topic), partitionsCount: 5 }
    members[0]?.emit('client:metadata', { ...metadata, topics: new Map([[topic, grown]]) } as never)
    await eventually(() => expect(joins).toBe(2))
    await eventually(() => expect(idsOf(listening.deliveries)).toEqual(['m0', 'm1', 'm2', 'm0', 'm1', 'm2']))
    expect(listening.reports).toEqual([])
  })
})

/** Of each of ten keys the steps between these numbers. */
function steps(from: number, to: number) {
  const all = []
  for (let n = from; n < to; n++) {
    for (let key = 0; key < 10; key++) {
      const more = { type: 'step', key: `k${key}`, data: Buffer.from(JSON.stringify({ n })) }
      all.push(message(`${key}.${n}`, more))
    }
  }
  return all
}
