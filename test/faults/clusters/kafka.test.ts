import { kafka } from 'hapax/kafka'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../src/testing/wait.ts'
import { type KafkaCluster, kafkaCluster } from '../../support/clusters/kafka.ts'
import { fresh, idsOf, listen, message, PlainKafka, publish } from '../../support/kafka-place.ts'
import { brokerStories, noStory } from './stories.ts'

describe.skipIf(noStory('kafka'))('three Kafka brokers', () => {
  let cluster: KafkaCluster
  beforeAll(async () => {
    cluster = await kafkaCluster()
  }, 600_000)
  afterAll(() => cluster?.[Symbol.asyncDispose]())

  brokerStories(() => ({ broker: 'kafka', urls: cluster.urls, cluster }), { single: true })

  it('D12: with fewer replicas than min.insync.replicas nothing is confirmed, and nothing is lost', async () => {
    const brokers = cluster.urls.map((url) => new URL(url).host)
    const plain = await PlainKafka.open(`kafka://${brokers.join(',')}`)
    const configs = { 'min.insync.replicas': '3' }
    const topic = await plain.createTopic(fresh('topic'), { partitions: 1, replicas: 3, configs })
    const source = kafka({ brokers, connectTimeoutMs: 2_000 })
    const destination = source.topic(topic, { publishTimeoutMs: 5_000 })
    const confirms = (id: string) => async () => (await publish(destination, [message(id)]))[0] === 'confirmed'
    await until(confirms('before'), 'it is confirmed')
    const lost = await (await cluster.find(topic)).lose('kill')
    for (let time = 0; time < 3; time++) {
      expect(await publish(destination, [message('meanwhile')])).toEqual([
        expect.stringMatching(/^unavailable broker-/),
      ])
    }
    await lost.restore()
    await until(confirms('after'), 'it is confirmed again')
    await until(confirms('meanwhile'), 'what was refused is confirmed')
    await using listening = await listen(source.group(fresh('readers'), { topic, sessionTimeoutMs: 6_000 }))
    const ids = (): Set<string> => new Set(idsOf(listening.deliveries))
    await until(() => ids().size === 3, 'all have come')
    expect(ids()).toEqual(new Set(['before', 'meanwhile', 'after']))
    await destination.close()
    await plain.close()
  }, 600_000)
})
