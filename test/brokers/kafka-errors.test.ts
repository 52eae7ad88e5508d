import type { Delivery, OutgoingMessage } from 'hapax/contracts'
import { type Kafka, kafka } from 'hapax/kafka'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { failNextRequest } from '../support/kafka-mock.ts'
import {
  fresh,
  HASTY,
  idsOf,
  type KafkaPlace,
  kafkaPlace,
  type Listening,
  listen,
  message,
  messages,
  PATIENT,
  publish,
} from '../support/kafka-place.ts'
import { noPrivateServer, type PrivateServer, privateServer } from '../support/private-server.ts'

const API = {
  produce: 0,
  fetch: 1,
  metadata: 3,
  offsetCommit: 8,
  joinGroup: 11,
  heartbeat: 12,
  initProducerId: 22,
} as const

/** The errors of Kafka's protocol that are put in. -195 cuts the link. */
const ERROR = {
  notLeader: 6,
  tooLarge: 10,
  coordinatorLoading: 14,
  recordListTooLarge: 18,
  notEnoughReplicas: 19,
  unknownMember: 25,
  topicAuthorization: 29,
  groupAuthorization: 30,
  outOfOrderSequence: 45,
  fetchSessionNotFound: 70,
  invalidRecord: 87,
  cut: -195,
} as const

const missing = noPrivateServer('kafka')
const ack = (delivery: Delivery): void => delivery.ack()

function eventually(check: () => unknown): Promise<unknown> {
  return vi.waitFor(check, { timeout: 50_000, interval: 10 })
}

// One after the other: an error meets whoever asks next.
describe.skipIf(missing !== undefined)(
  `errors of Kafka (private protocol mock${missing ? `: ${missing}` : ''})`,
  () => {
    let server: PrivateServer
    let place: KafkaPlace
    let source: Kafka
    beforeAll(async () => {
      server = await privateServer('kafka')
      place = await kafkaPlace(server.url)
      source = kafka({ url: place.proxy.url })
    })
    afterAll(async () => {
      await place?.[Symbol.asyncDispose]()
      await server?.[Symbol.asyncDispose]()
    })

    async function fail(api: number, error: number, times = 1): Promise<void> {
      for (let time = 0; time < times; time++) await failNextRequest(server.url, { api, error })
    }

    describe('sending', () => {
      /** Publishes to a destination that is at work already, so that the error meets the send. */
      async function send(faults: () => Promise<void>, sent: readonly OutgoingMessage[]): Promise<readonly string[]> {
        const destination = source.topic(place.topic)
        try {
          expect(await publish(destination, [message('before')])).toEqual(['confirmed'])
          await faults()
          return await publish(destination, sent)
        } finally {
          await destination.close()
        }
      }

      it.for(['tooLarge', 'recordListTooLarge'] as const)('D14: %s refuses a message for good', async (error) => {
        expect(await send(() => fail(API.produce, ERROR[error]), messages(1))).toEqual(['refused too-large'])
      })

      it('D14: a message that is not valid for its topic is refused for good', async () => {
        expect(await send(() => fail(API.produce, ERROR.invalidRecord), messages(1))).toEqual([
          'refused broker-refused',
        ])
      })

      it('D14: when a batch is refused, its messages are tried one by one', async () => {
        expect(await send(() => fail(API.produce, ERROR.tooLarge), messages(5))).toEqual(Array(5).fill('confirmed'))
      })

      it('D14: behind a message that is refused, no message of its key is confirmed', async () => {
        const sent = await send(() => fail(API.produce, ERROR.tooLarge, 2), messages(3))
        expect(sent).toEqual(['refused too-large', 'unavailable broker-unavailable', 'unavailable broker-unavailable'])
      })

      it.for(['notEnoughReplicas', 'notLeader', 'outOfOrderSequence', 'cut'] as const)(
        '%s: the client tries again by itself',
        async (error) => {
          expect(await send(() => fail(API.produce, ERROR[error]), messages(2))).toEqual(['confirmed', 'confirmed'])
        },
      )

      it('D12: too few replicas leave nothing confirmed', async () => {
        const sent = await send(() => fail(API.produce, ERROR.notEnoughReplicas, 3), messages(2))
        expect(sent).toEqual(Array(2).fill('unavailable broker-unavailable'))
      })

      it('a missing right is not the fault of the message', async () => {
        const sent = await send(() => fail(API.produce, ERROR.topicAuthorization), messages(1))
        expect(sent).toEqual(['unavailable broker-refused'])
      })

      it('goes on with another producer when it cannot become one', async () => {
        const destination = source.topic(place.topic)
        await fail(API.initProducerId, ERROR.coordinatorLoading, 3)
        expect(await publish(destination, messages(1))).toEqual(['unavailable broker-unavailable'])
        expect(await publish(destination, messages(1))).toEqual(['confirmed'])
        await destination.close()
      })
    })

    describe('reading', () => {
      /** A reader that has begun, and the messages that it got. `times` are hasty where it has to join again. */
      async function reading(
        each?: (delivery: Delivery) => void,
        times: typeof HASTY | typeof PATIENT = HASTY,
      ): Promise<Listening & { topic: string; group: string }> {
        const topic = await place.plain.createTopic()
        const group = fresh('billing')
        await send(topic, messages(3))
        const listening = await listen(source.group(group, { topic, ...times }), each === undefined ? {} : { each })
        await eventually(() => expect(listening.deliveries).toHaveLength(3))
        return { ...listening, topic, group }
      }

      async function send(topic: string, sent: readonly OutgoingMessage[]): Promise<void> {
        const destination = source.topic(topic)
        expect(await publish(destination, sent)).toEqual(sent.map(() => 'confirmed'))
        await destination.close()
      }

      it('opens when the coordinator is not ready at first', async () => {
        await fail(API.joinGroup, ERROR.coordinatorLoading, 2)
        await using listening = await reading()
        expect(listening.reports).toEqual([])
      })

      it('does not open without the right to', async () => {
        await fail(API.joinGroup, ERROR.groupAuthorization)
        await expect(listen(source.group(fresh('billing'), { topic: place.topic, ...HASTY }))).rejects.toMatchObject({
          code: 'broker-refused',
          message: expect.stringMatching(
            /^kafka group billing-\w+ of topic-\w+ could not be joined: Group authorization/,
          ),
        })
      })

      it('E6: a member that the group has forgotten joins again until it is in, and gets again what it had in hand', async () => {
        await using listening = await reading()
        const { topic, group, deliveries } = listening
        const held = deliveries.slice()
        await fail(API.joinGroup, ERROR.coordinatorLoading, 3)
        await fail(API.heartbeat, ERROR.unknownMember)
        await eventually(() => expect(idsOf(deliveries)).toEqual(['m0', 'm1', 'm2', 'm0', 'm1', 'm2']))
        held.forEach(ack)
        expect(await place.plain.lag(topic, group)).toBe(3)
        deliveries.slice(3).forEach(ack)
        await eventually(async () => expect(await place.plain.lag(topic, group)).toBe(0))
        expect(listening.reports).toHaveLength(1)
      })

      it('E4: what could not be committed is committed later', async () => {
        await using listening = await reading()
        const { topic, group, deliveries } = listening
        let left = deliveries.length
        for (const error of [ERROR.coordinatorLoading, ERROR.unknownMember, ERROR.cut]) {
          await fail(API.offsetCommit, error, 2)
          left -= 1
          deliveries[deliveries.length - left - 1]?.ack()
          await eventually(async () => expect(await place.plain.lag(topic, group)).toBe(left))
        }
      })

      it('fetches again what could not be fetched, and makes a fuss only when that goes on', async () => {
        await using listening = await reading(ack, PATIENT)
        const { topic, deliveries, reports } = listening
        for (const error of [ERROR.notLeader, ERROR.fetchSessionNotFound]) {
          await fail(API.fetch, error)
          await send(topic, [message(`after ${error}`, { key: 'one' })])
          await eventually(() => expect(idsOf(deliveries)).toContain(`after ${error}`))
        }
        expect(reports).toEqual([])
        await fail(API.fetch, ERROR.notLeader, 5)
        await eventually(() => expect(reports).toMatchObject([{ code: 'broker-unavailable' }]))
        await send(topic, [message('last', { key: 'one' })])
        await eventually(() => expect(idsOf(deliveries).at(-1)).toBe('last'))
        expect(deliveries).toHaveLength(6)
        expect(reports).toHaveLength(1)
      })

      it('G1: says that messages are gone, and goes on with the oldest that is left', async () => {
        const topic = await place.plain.createTopic()
        const group = fresh('billing')
        await send(topic, messages(3))
        const partition = (await place.plain.ends(topic)).indexOf(3n)
        await place.plain.commit(group, { topic, partition, offset: 1_000n })
        await using listening = await listen(source.group(group, { topic, from: 'latest', ...PATIENT }))
        const { deliveries, reports } = listening
        await eventually(() => expect(idsOf(deliveries)).toEqual(['m0', 'm1', 'm2']))
        expect(reports).toMatchObject([{ code: 'broker-refused', fields: { topic, partition } }])
        expect(reports[0]?.message).toBe(
          `messages of ${topic}, partition ${partition}, are gone: offset 1000 was next, 0 is the oldest`,
        )
      })
    })
  },
)
