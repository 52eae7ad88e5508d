import { setTimeout as delay } from 'node:timers/promises'
import type { Destination, Subscription } from 'hapax'
import type { BrokerName } from '../../support/servers.ts'

/** The brokers that a rig kills and starts again. */
export type KilledBroker = BrokerName

/** Those, and what is made of them. */
type RigBroker = KilledBroker | 'redis-cluster' | 'redis-sentinel'

/** Their servers. */
export const serverOf = { rabbitmq: 'rabbitmq', nats: 'nats', 'redis-streams': 'redis', kafka: 'kafka-broker' } as const

/** A corner of a broker for one rig; plain data, so that processes can be told. */
export interface BrokerPlace {
  readonly broker: RigBroker
  readonly url: string
  /** The other servers, if it is a cluster: what is declared there has a replica on each. With sentinels, the others of them. */
  readonly others?: readonly string[]
  /** Of whatever is declared there. */
  readonly name: string
  /** Whether one reader at a time gets the messages. */
  readonly single: boolean
  /** How long what a dead reader had stays with it, where the broker does not notice its end. */
  readonly abandonedMs: number
}

/** A message as somebody sends it who does not know hapax: attributes of CloudEvents beside a body of JSON. */
export interface PlainMessage {
  readonly attributes: Readonly<Record<string, string>>
  readonly body: string
}

/** The broker as its own client library shows it. */
export interface PlainClient {
  /** Resolves when the broker has confirmed all of them. */
  send(messages: readonly PlainMessage[]): Promise<void>
  /** How many messages the consumer has not acknowledged; where the broker cannot say that, those not delivered either. */
  waiting(): Promise<number>
  close(): Promise<void>
}

/** One broker for the rigs. */
export interface BrokerKind {
  /** Where relays send to. */
  destination(place: BrokerPlace): Promise<Destination>
  /** Where the consumers read from. */
  subscription(place: BrokerPlace): Promise<Subscription>
  /** Connects once; what is lost stays lost. */
  connect(place: BrokerPlace): Promise<PlainClient>
}

// Imported one by one, because a process of a rig is started many times.
const kinds: Record<RigBroker, () => Promise<BrokerKind>> = {
  rabbitmq: async () => (await import('./rabbitmq.ts')).rabbitmqKind,
  nats: async () => (await import('./nats.ts')).natsKind,
  'redis-streams': async () => (await import('./redis-streams.ts')).redisStreamsKind,
  kafka: async () => (await import('./kafka.ts')).kafkaKind,
  'redis-cluster': async () => (await import('./redis-cluster.ts')).redisClusterKind,
  'redis-sentinel': async () => (await import('./redis-sentinel.ts')).redisSentinelKind,
}

export function kindOf(broker: RigBroker): Promise<BrokerKind> {
  return kinds[broker]()
}

const ANSWER_MS = 10_000
const GIVE_UP_MS = 120_000

/** A plain client that connects again, and says everything again, until the broker has answered. */
export function stubborn(place: BrokerPlace): PlainClient {
  let link: Promise<PlainClient> | undefined
  const drop = async (): Promise<void> => {
    const lost = link
    link = undefined
    await lost?.then((client) => client.close()).catch(() => {})
  }
  const ask = async <T>(question: (client: PlainClient) => Promise<T>): Promise<T> => {
    for (const giveUp = performance.now() + GIVE_UP_MS; ; ) {
      link ??= kindOf(place.broker).then((kind) => kind.connect(place))
      try {
        return await inTime(link.then(question))
      } catch (error) {
        if (performance.now() > giveUp) throw error
        await Promise.race([drop(), delay(ANSWER_MS)])
        await delay(100)
      }
    }
  }
  return {
    send: (messages) => ask((client) => client.send(messages)),
    waiting: () => ask((client) => client.waiting()),
    close: drop,
  }
}

async function inTime<T>(answer: Promise<T>): Promise<T> {
  const limit = new AbortController()
  const late = delay(ANSWER_MS, undefined, { signal: limit.signal }).then(() => {
    throw new Error(`the broker did not answer within ${ANSWER_MS} ms`)
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    limit.abort()
    late.catch(() => {})
  }
}
