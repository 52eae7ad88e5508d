import { Producer } from '@platformatic/kafka'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { kafka } from 'hapax/kafka'
import { memory } from 'hapax/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kcat } from '../../scripts/services/kcat.ts'
import { Shop } from '../../src/testing/broker/shop.ts'
import { until } from '../../src/testing/wait.ts'
import {
  fresh,
  HASTY,
  idsOf,
  type KafkaPlace,
  KafkaProxy,
  kafkaPlace,
  listen,
  message,
  messages,
  publish,
} from '../support/kafka-place.ts'
import { noConsole, noRealKafka, type RealKafka, realKafka, runConsole, runProgram } from '../support/kafka-real.ts'

const missing = noRealKafka()
const START_MS = 120_000
const ping = (id: string) => ({ ce_id: id, ce_source: '/plain', ce_type: 'ping', ce_specversion: '1.0' })

describe.skipIf(missing !== undefined)(`a real Kafka${missing ? `: ${missing}` : ''}`, () => {
  let server: RealKafka
  let place: KafkaPlace
  beforeAll(async () => {
    server = await realKafka()
    place = await kafkaPlace(server.url)
  }, START_MS)
  afterAll(async () => {
    await place?.[Symbol.asyncDispose]()
    await server?.[Symbol.asyncDispose]()
  })

  describe('transactions of other producers', () => {
    async function transactional(): Promise<Producer & AsyncDisposable> {
      const { bootstrapBrokers } = place.plain
      const producer = new Producer({
        clientId: 'other',
        bootstrapBrokers,
        idempotent: true,
        transactionalId: fresh('tx'),
        producerId: -1n,
        producerEpoch: -1,
      })
      return Object.assign(producer, { [Symbol.asyncDispose]: () => producer.close() })
    }

    function record(topic: string, id: string) {
      const headers = new Map(Object.entries(ping(id)).map(([name, value]) => [Buffer.from(name), Buffer.from(value)]))
      return { topic, partition: 0, key: Buffer.from('k'), value: Buffer.from(JSON.stringify({ id })), headers }
    }

    it('what was aborted is never delivered, what is not decided waits, and nothing lags in the end', async () => {
      const { plain, proxy } = place
      const topic = await plain.createTopic(fresh('topic'), { partitions: 1 })
      const group = fresh('billing')
      await using one = await transactional()
      await using other = await transactional()
      const committed = await one.beginTransaction()
      await committed.send({ messages: [record(topic, 'committed'), record(topic, 'committed, too')] })
      await committed.commit()
      const aborted = await one.beginTransaction()
      await aborted.send({ messages: [record(topic, 'aborted'), record(topic, 'aborted, too')] })
      await aborted.abort()
      await using listening = await listen(kafka({ url: proxy.url }).group(group, { topic, ...HASTY }), {
        each: (delivery) => delivery.ack(),
      })
      await until(() => listening.deliveries.length >= 2, 'what was committed has come')
      const undecided = await other.beginTransaction()
      await undecided.send({ messages: [record(topic, 'undecided')] })
      await plain.send(topic, { value: Buffer.from('{}'), headers: ping('behind'), partition: 0 })
      // What is behind an open transaction waits for it, as for every reader of committed messages.
      const fence = await plain.createTopic(fresh('topic'), { partitions: 1 })
      await using elsewhere = await listen(kafka({ url: proxy.url }).group(fresh('other'), { topic: fence, ...HASTY }))
      await plain.send(fence, { value: Buffer.from('{}'), headers: ping('elsewhere') })
      await until(() => elsewhere.deliveries.length === 1, 'another topic is read')
      expect(idsOf(listening.deliveries)).toEqual(['committed', 'committed, too'])
      await undecided.commit()
      await until(() => listening.deliveries.length >= 4, 'what was decided has come')
      const last = await one.beginTransaction()
      await last.send({ messages: [record(topic, 'aborted at the end')] })
      await last.abort()
      await until(async () => (await plain.lag(topic, group)) === 0, 'nothing lags')
      expect(idsOf(listening.deliveries)).toEqual(['committed', 'committed, too', 'undecided', 'behind'])
      expect(listening.reports).toEqual([])
    })
  })

  it('a compacted topic is read over its gaps, tombstones are messages without data, and nothing lags in the end', async () => {
    const { plain, proxy } = place
    const configs = { 'cleanup.policy': 'compact', 'min.cleanable.dirty.ratio': '0.001', 'segment.ms': '100' }
    const topic = await plain.createTopic(fresh('topic'), { partitions: 1, configs })
    const group = fresh('billing')
    const send = (id: string, key: string, value: Buffer | null) =>
      plain.send(topic, { value, key, headers: ping(id), partition: 0 })
    for (let n = 0; n < 20; n++) await send(`a${n}`, 'a', Buffer.from('{}'))
    await send('gone', 'b', null)
    // Only segments that are closed are compacted, and a later message closes them.
    let spare = 0
    const left = async (): Promise<number> => {
      await send(`spare${spare++}`, 'c', Buffer.from('{}'))
      await using before = await listen(kafka({ url: proxy.url }).group(fresh('count'), { topic, ...HASTY }))
      const end = Number((await plain.ends(topic))[0])
      await until(
        () => before.deliveries.some((each) => each.arrival.properties['offset'] === String(end - 1)),
        'the end',
      )
      return before.deliveries.length - spare
    }
    await until(async () => (await left()) < 10, 'the topic is compacted')
    await using listening = await listen(kafka({ url: proxy.url }).group(group, { topic, ...HASTY }), {
      each: (delivery) => delivery.ack(),
    })
    await until(async () => listening.deliveries.length > 0 && (await plain.lag(topic, group)) === 0, 'nothing lags')
    const ids = idsOf(listening.deliveries).filter((id) => !id.startsWith('spare'))
    expect(ids).toContain('a19')
    expect(ids).not.toContain('a0')
    expect(ids.at(-1)).toBe('gone')
    const tombstone = listening.deliveries.find((each) => each.arrival.attributes['id'] === 'gone')
    expect(tombstone?.arrival.body).toHaveLength(0)
  })

  describe.for(['classic', 'consumer'] as const)('a group of the protocol %s', (protocol) => {
    it('takes every message once, in the order of its key, while members with slow handlers join, leave and die', async () => {
      const { plain } = place
      const topic = await plain.createTopic()
      const [group, store] = [fresh('billing'), memory()]
      const Step = defineMessage<{ n: number }>('step')
      const start = async () => {
        const proxy = await KafkaProxy.open(await plain.brokers())
        const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
        const billing = hapax
          .consumer('billing', { order: 'wait' })
          .on(Step, async ({ n }, { tx, message: { key } }) => {
            await new Promise((resolve) => setTimeout(resolve, 3))
            tx.insert('effects', { key, n })
          })
        const source = kafka({ url: proxy.url }).group(group, { topic, protocol, ...HASTY })
        const worker = hapax.worker({ consume: [billing.from(source, { prefetch: 20 })], pollMs: 10 })
        await worker.start()
        const stop = async (): Promise<void> => {
          await worker.stop()
          await proxy[Symbol.asyncDispose]()
        }
        return { stop, die: () => proxy.refuse() }
      }
      const effects = () => store.rows('effects') as { key: string; n: number }[]
      const destination = kafka({ url: server.url }).topic(topic)
      const send = async (from: number, to: number): Promise<void> => {
        const steps = stepsOf(from, to)
        expect(await publish(destination, steps)).toEqual(steps.map(() => 'confirmed'))
      }
      await send(0, 40)
      const first = await start()
      await until(() => effects().length > 30, 'the first works')
      const second = await start()
      await send(40, 60)
      const third = await start()
      await until(() => effects().length > 200, 'they work')
      await first.stop()
      await send(60, 80)
      await third.die()
      await send(80, 100)
      await until(
        () => effects().length >= 1_000,
        () => `1000 effects; there are ${effects().length}`,
      )
      await until(async () => (await plain.lag(topic, group)) === 0, 'nothing lags')
      for (const [, of] of Map.groupBy(effects(), ({ key }) => key)) {
        expect(of.map(({ n }) => n)).toEqual(Array.from({ length: 100 }, (_, n) => n))
      }
      await Promise.all([second.stop(), third.stop(), destination.close()])
    })

    it('begins where it has committed, whoever reads next', async () => {
      const { plain, proxy } = place
      const topic = await plain.createTopic()
      const group = fresh('billing')
      const source = kafka({ url: proxy.url })
      const destination = source.topic(topic)
      await publish(destination, messages(10))
      const first = await listen(source.group(group, { topic, protocol, ...HASTY }))
      await until(() => first.deliveries.length === 10, 'all have come')
      for (const delivery of first.deliveries.slice(0, 6)) delivery.ack()
      await first.reader.close()
      await publish(destination, [message('m10', { key: 'one' })])
      await using second = await listen(source.group(group, { topic, protocol, ...HASTY }))
      await until(() => second.deliveries.length === 5, 'the rest has come')
      expect(idsOf(second.deliveries)).toEqual(['m6', 'm7', 'm8', 'm9', 'm10'])
      expect([...first.reports, ...second.reports]).toEqual([])
      await destination.close()
    })
  })

  it('partitions that are added are read', async () => {
    const { plain, proxy } = place
    for (const protocol of ['classic', 'consumer'] as const) {
      const topic = await plain.createTopic(fresh('topic'), { partitions: 1 })
      await using listening = await listen(
        kafka({ url: proxy.url }).group(fresh('billing'), { topic, protocol, ...HASTY }),
      )
      await plain.send(topic, { value: Buffer.from('{}'), headers: ping('a') })
      await until(() => idsOf(listening.deliveries).includes('a'), 'the first partition is read')
      await plain.addPartitions(topic, 3)
      await plain.send(topic, { value: Buffer.from('{}'), headers: ping('b'), partition: 2 })
      await until(() => idsOf(listening.deliveries).includes('b'), `the new partition is read (${protocol})`)
    }
  })

  describe.skipIf(noConsole())(`and Kafka's own programs`, () => {
    it('handles what the console producer sends', async () => {
      const { topic, proxy } = place
      const shop = new Shop({ rows: memory() })
      const seen: unknown[] = []
      const billing = shop.consumer({}, (ctx) => void seen.push(ctx.message))
      await shop.work({
        consume: [billing.from(kafka({ url: proxy.url }).group(fresh('billing'), { topic, ...HASTY }))],
      })
      const headers = Object.entries(ping('java-1')).map(([name, value]) => `${name}:${value}`)
      const properties = ['parse.headers=true', 'parse.key=true'].flatMap((each) => ['--reader-property', each])
      const target = ['--bootstrap-server', new URL(server.url).host, '--topic', topic]
      await runConsole('ConsoleProducer', [...target, ...properties], `${headers.join(',')}\tA1\t{"id":"java-1"}\n`)
      await shop.untilEffects(['java-1'])
      expect(seen).toMatchObject([{ id: 'java-1', source: '/plain', key: 'A1', data: { id: 'java-1' } }])
      await shop.close()
    })

    it('sends what the console consumer reads', async () => {
      const { plain } = place
      const topic = await plain.createTopic()
      const destination = kafka({ url: server.url }).topic(topic)
      await publish(destination, [message('m1', { key: 'A1' })])
      await destination.close()
      const properties = ['print.headers=true', 'print.key=true'].flatMap((each) => ['--formatter-property', each])
      const target = ['--bootstrap-server', new URL(server.url).host, '--topic', topic, '--from-beginning']
      const said = await runConsole('consumer.ConsoleConsumer', [...target, '--max-messages', '1', ...properties])
      const [headers = '', key, value] = said.trim().split('\t')
      expect(headers.split(',')).toEqual(expect.arrayContaining(['ce_id:m1', 'ce_source:/sender', 'ce_type:ping']))
      expect({ key, value }).toEqual({ key: 'A1', value: '{"id":"m1"}' })
    })
  })

  const program = kcat.find()?.from
  it.skipIf(program === undefined)(
    'kcat, where it is installed, reads what hapax sends, and hapax handles what it sends',
    async () => {
      const { plain, proxy } = place
      const topic = await plain.createTopic()
      const shop = new Shop({ rows: memory() })
      await shop.work({
        consume: [shop.consumer().from(kafka({ url: proxy.url }).group(fresh('billing'), { topic, ...HASTY }))],
      })
      const target = ['-b', new URL(server.url).host, '-t', topic]
      const headers = Object.entries(ping('kcat-1')).flatMap(([name, value]) => ['-H', `${name}=${value}`])
      await runProgram(program as string, [...target, '-P', '-k', 'A1', ...headers], '{"id":"kcat-1"}')
      await shop.untilEffects(['kcat-1'])
      await shop.close()
      const destination = kafka({ url: server.url }).topic(topic)
      await publish(destination, [message('m1', { key: 'B1' })])
      await destination.close()
      const said = await runProgram(program as string, [...target, '-C', '-e', '-q', '-f', '%k %h %s\\n'])
      expect(said).toMatch(/^B1 .*ce_id=m1.* \{"id":"m1"\}$/m)
    },
  )
})

/** Of each of ten keys the steps between these numbers. */
function stepsOf(from: number, to: number) {
  const numbers = Array.from({ length: to - from }, (_, at) => from + at)
  return numbers.flatMap((n) =>
    Array.from({ length: 10 }, (_, key) => {
      return message(`${key}.${n}`, { type: 'step', key: `k${key}`, data: Buffer.from(JSON.stringify({ n })) })
    }),
  )
}
