import { randomBytes } from 'node:crypto'
import { Admin, Consumer, Producer } from '@platformatic/kafka'
import type { Subscription } from 'hapax'
import { type Destination, type HapaxError, isHapaxError } from 'hapax'
import type { Delivery, OutgoingMessage, Reader } from 'hapax/contracts'
import { promised } from '../../src/testing/promised.ts'
import { KafkaProxy } from './kafka-proxy.ts'
import { requireServer } from './servers.ts'

/**
 * Settings under which losses are noticed soon, but not when the machine stalls for some seconds. With the mock, a rebalance
 * takes nearly as long as a session.
 */
export const HASTY = { sessionTimeoutMs: 6_000, commitIntervalMs: 20 } as const

/** A topic of a test's own, plain clients, and the broker through a proxy. */
export interface KafkaPlace extends AsyncDisposable {
  readonly topic: string
  readonly plain: PlainKafka
  readonly proxy: KafkaProxy
}

export async function kafkaPlace(server: string = requireServer('kafka')): Promise<KafkaPlace> {
  const plain = new PlainKafka(server)
  const [proxy, topic] = await Promise.all([KafkaProxy.open(server), plain.createTopic()])
  return {
    topic,
    plain,
    proxy,
    [Symbol.asyncDispose]: async () => {
      await plain.close()
      await proxy[Symbol.asyncDispose]()
    },
  }
}

export type Compression = 'gzip' | 'snappy' | 'lz4' | 'zstd'

/** A unique name. */
export function fresh(name: string): string {
  return `${name}-${randomBytes(6).toString('hex')}`
}

/** Plain clients of a broker. */
export class PlainKafka {
  readonly bootstrapBrokers: string[]
  readonly #admin: Admin
  readonly #producer: Producer

  constructor(url: string) {
    this.bootstrapBrokers = [new URL(url).host]
    const options = { clientId: 'plain', bootstrapBrokers: this.bootstrapBrokers }
    this.#admin = new Admin({ ...options })
    this.#producer = new Producer({ ...options })
  }

  /** The mock creates topics when it is asked for their metadata. */
  async createTopic(name = fresh('topic')): Promise<string> {
    await this.#admin.metadata({ topics: [name], autocreateTopics: true })
    return name
  }

  async send(topic: string, { value, key, headers = {}, partition }: PlainRecord): Promise<void> {
    const record = {
      topic,
      value: value as Buffer,
      headers: new Map(Object.entries(headers).map(([k, v]) => [bytes(k), bytes(v)])),
    }
    const more = {
      ...(key === undefined ? {} : { key: bytes(key) }),
      ...(partition === undefined ? {} : { partition }),
    }
    await this.#producer.send({ messages: [{ ...record, ...more }], acks: -1 })
  }

  /** Sends values as one batch, compressed. */
  async sendCompressed(topic: string, compression: Compression, records: readonly PlainRecord[]): Promise<void> {
    const messages = records.map(({ value, headers = {} }) => ({
      topic,
      partition: 0,
      value: value as Buffer,
      headers: new Map(Object.entries(headers).map(([k, v]) => [bytes(k), bytes(v)])),
    }))
    await this.#producer.send({ messages, acks: -1, compression })
  }

  /** Joins the group, takes so many records and commits them. */
  async take(topic: string, groupId: string, count: number): Promise<readonly TakenRecord[]> {
    const consumer = this.#consumer(groupId)
    const begin = { mode: 'committed', fallbackMode: 'earliest' } as const
    const stream = await consumer.consume({ topics: [topic], autocommit: false, ...begin })
    const taken: TakenRecord[] = []
    for await (const record of stream) {
      taken.push(record)
      await record.commit()
      if (taken.length >= count) break
    }
    await consumer.close(true)
    return taken
  }

  /** Makes a group without members begin at the current end. */
  async beginNow(topic: string, groupId: string): Promise<void> {
    const ends = await this.ends(topic)
    const offsets = ends.map((offset, partition) => ({ topic, partition, offset }))
    await this.commit(groupId, ...offsets.filter(({ offset }) => offset > 0n))
  }

  /** Commits for a group without members. */
  async commit(groupId: string, ...offsets: { topic: string; partition: number; offset: bigint }[]): Promise<void> {
    const consumer = this.#consumer(groupId)
    consumer.generationId = -1
    consumer.memberId = ''
    await consumer.commit({ offsets: offsets.map((each) => ({ ...each, leaderEpoch: -1 })) })
    await consumer.close()
  }

  /** How many records of the topic the group has not committed. */
  async lag(topic: string, groupId: string): Promise<number> {
    const [ends, committed] = await Promise.all([this.ends(topic), this.committed(topic, groupId)])
    return ends.reduce((sum, end, partition) => sum + Number(end - (committed[partition] ?? 0n)), 0)
  }

  /** The offsets that come next, by partition. */
  async ends(topic: string): Promise<readonly bigint[]> {
    const consumer = this.#consumer('none')
    const ends = (await consumer.listOffsets({ topics: [topic], timestamp: -1n })).get(topic) ?? []
    await consumer.close()
    return ends
  }

  /** What the group has committed, by partition; undefined where it has not. */
  async committed(topic: string, groupId: string): Promise<readonly (bigint | undefined)[]> {
    const consumer = this.#consumer(groupId)
    const { partitionsCount = 0 } = (await consumer.metadata({ topics: [topic] })).topics.get(topic) ?? {}
    const partitions = Array.from({ length: partitionsCount }, (_, partition) => partition)
    const offsets = (await consumer.listCommittedOffsets({ topics: [{ topic, partitions }] })).get(topic) ?? []
    await consumer.close()
    return partitions.map((partition) => {
      const offset = offsets[partition]
      return offset === undefined || offset < 0n ? undefined : offset
    })
  }

  async close(): Promise<void> {
    await Promise.all([this.#admin.close(), this.#producer.close()])
  }

  #consumer(groupId: string): Consumer {
    const times = { sessionTimeout: 3_000, rebalanceTimeout: 3_000, heartbeatInterval: 300 }
    return new Consumer({ clientId: 'plain', bootstrapBrokers: this.bootstrapBrokers, groupId, ...times })
  }
}

interface PlainRecord {
  readonly value: Buffer | null
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly partition?: number
}

export interface TakenRecord {
  readonly key: Buffer | undefined
  readonly value: Buffer
  readonly headers: ReadonlyMap<Buffer, Buffer>
  readonly partition: number
}

function bytes(text: string): Buffer {
  return Buffer.from(text)
}

/** A reader, with its deliveries and events. */
export interface Listening extends AsyncDisposable {
  readonly reader: Reader
  readonly deliveries: Delivery[]
  readonly reports: HapaxError[]
}

export async function listen(
  subscription: Subscription,
  { messages = 100, each }: { messages?: number; each?: (delivery: Delivery) => void } = {},
): Promise<Listening> {
  const deliveries: Delivery[] = []
  const reports: HapaxError[] = []
  const reader = await subscription.open({
    types: 'all',
    prefetch: { messages, bytes: 1e9 },
    receive: (more) => {
      deliveries.push(...more)
      if (each !== undefined) more.forEach(each)
    },
    report: (error) => reports.push(error),
  })
  return { reader, deliveries, reports, [Symbol.asyncDispose]: () => reader.close() }
}

/** The ids of what was delivered, in order. */
export function idsOf(deliveries: readonly Delivery[]): readonly string[] {
  return deliveries.map(idOf)
}

function idOf({ arrival }: Delivery): string {
  return String(arrival.attributes['id'])
}

/** Messages to publish, by default all of one key. */
export function messages(count: number, more: Partial<OutgoingMessage> = { key: 'one' }): readonly OutgoingMessage[] {
  return Array.from({ length: count }, (_, at) => message(`m${at}`, more))
}

export function message(id: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage {
  const data = Buffer.from(JSON.stringify({ id }))
  return { id, source: '/sender', type: 'ping', datacontenttype: 'application/json', data, ...more }
}

/** Publishes; returns the confirmations in short: 'confirmed', or the status and the code of the error. */
export async function publish(destination: Destination, sent: readonly OutgoingMessage[]): Promise<readonly string[]> {
  const answers = await Promise.all(promised(destination, sent))
  return answers.map((answer) => {
    if (answer.status === 'confirmed') return 'confirmed'
    return `${answer.status} ${isHapaxError(answer.error) ? answer.error.code : answer.error.message}`
  })
}
