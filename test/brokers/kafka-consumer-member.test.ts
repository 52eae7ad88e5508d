import { EventEmitter } from 'node:events'
import { type Broker, ConnectionPool } from '@platformatic/kafka'
import { expect, it, onTestFinished } from 'vitest'
import type { KafkaConsumer } from '../../src/brokers/kafka/client.ts'
import { ConsumerMember, type GroupRequests } from '../../src/brokers/kafka/reading/consumer-member.ts'
import { until } from '../../src/testing/wait.ts'

const LEAVING = -1

/** Brokers as a member sees them, by their ports. */
class Brokers {
  coordinator = 1
  /** Those that the cluster names. */
  named = [{ host: 'kafka', port: 1 }]
  /** The topics that are known, by their ids. */
  topics: Record<string, string> = { A: 'orders' }
  /** The partitions that are assigned, and by which topic. */
  assigned: readonly { topicId: string; partitions: number[] }[] = [{ topicId: 'A', partitions: [0] }]
  readonly beats: { readonly id: string; readonly epoch: number; readonly port: number }[] = []
  answer: () => Promise<void> = async () => {}

  readonly requests: GroupRequests = {
    findCoordinatorV4: {
      api: { async: async () => ({ coordinators: [{ host: 'kafka', port: this.coordinator }] }) },
    },
    consumerGroupHeartbeatV1: {
      api: {
        async: async (link: { port: number }, _group, id, epoch) => {
          this.beats.push({ id, epoch, port: link.port })
          if (link.port !== this.coordinator) throw Object.assign(new Error('no'), { apiId: 'NOT_COORDINATOR' })
          await this.answer()
          return { memberEpoch: 1, heartbeatIntervalMs: 5, assignment: { topicPartitions: [...this.assigned] } }
        },
      },
    },
  }

  member(): { member: ConsumerMember; told: string[] } {
    const told: string[] = []
    const connections = {
      get: async ({ port }: { port: number }) => ({ port }),
      // As the client does it, whose pool asks no further than for the first one.
      getFirstAvailable: async (brokers: Broker[]) =>
        brokers.length === 0 ? new ConnectionPool('test').getFirstAvailable(brokers) : { port: 0 },
      on: () => {},
    }
    const client = Object.assign(new EventEmitter(), {
      connections,
      metadata: async () => ({
        brokers: new Map(this.named.entries()),
        topics: new Map(Object.entries(this.topics).map(([id, name]) => [name, { id }])),
      }),
      close: async () => {},
    })
    // Nothing here waits for its end.
    const settings = { group: 'billing', topics: ['orders'], sessionTimeoutMs: 60_000 }
    const member = new ConsumerMember(client as unknown as KafkaConsumer, this.requests, settings)
    member.on('error', () => told.push('error'))
    member.on('consumer:group:rebalance', () => told.push('rebalance'))
    member.on('consumer:heartbeat:error', () => told.push('missed'))
    member.on('consumer:group:join', ({ assignments }: { assignments: { topic: string; partitions: number[] }[] }) => {
      told.push(assignments.map(({ topic, partitions }) => `${topic} ${partitions}`).join())
    })
    onTestFinished(() => member.close())
    return { member, told }
  }
}

it('a member that could not join looks for the coordinator again', async () => {
  const brokers = new Brokers()
  const { member, told } = brokers.member()
  brokers.answer = async () => {
    brokers.coordinator = 2
    throw new Error('the broker is gone')
  }
  await expect(member.joinGroup()).rejects.toThrow('gone')
  brokers.answer = async () => {}
  await member.joinGroup()
  expect(told).toEqual(['orders 0'])
})

it('a member that joins again is not waited for under its old name', async () => {
  const brokers = new Brokers()
  const { member } = brokers.member()
  await member.joinGroup()
  const old = brokers.beats[0]?.id
  await member.joinGroup()
  await until(() => brokers.beats.some(({ id, epoch }) => id === old && epoch === LEAVING), 'it to leave')
})

it('a member that is closed while it joins leaves', async () => {
  const brokers = new Brokers()
  const { member } = brokers.member()
  const { promise, resolve } = Promise.withResolvers<void>()
  brokers.answer = () => promise
  const joining = member.joinGroup()
  await until(() => brokers.beats.length === 1, 'it to join')
  const closing = member.close()
  await until(() => brokers.beats.length === 2, 'it to leave')
  resolve()
  await Promise.all([joining, closing])
  expect(brokers.beats[1]).toMatchObject({ id: brokers.beats[0]?.id, epoch: LEAVING })
})

it('partitions of a topic that is not known yet are taken when it is, and the others stay until then', async () => {
  const brokers = new Brokers()
  const { member, told } = brokers.member()
  await member.joinGroup()
  brokers.assigned = [{ topicId: 'B', partitions: [0, 1] }]
  await until(() => told.filter((each) => each === 'missed').length > 1, 'two heartbeats')
  expect(new Set(told)).toEqual(new Set(['orders 0', 'missed']))
  brokers.topics = { B: 'orders' }
  await until(() => told.at(-1) === 'orders 0,1', 'the partitions to be taken')
  expect(told.at(-2)).toBe('rebalance')
})

it('a cluster that names no broker yet is not there', async () => {
  const brokers = new Brokers()
  brokers.named = []
  const { member } = brokers.member()
  await expect(member.joinGroup()).rejects.toMatchObject({ code: 'broker-unavailable' })
})
