import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import type { Nats, NatsStreamOptions } from 'hapax/nats'
import type { BrokerKind, BrokerPlace, PlainClient } from './broker-place.ts'

const CONSUMER = 'ledger'

export const natsKind: BrokerKind = {
  async destination(place) {
    return (await open(place)).stream(place.name, replicasOf(place))
  },

  async subscription(place) {
    const { name, single, abandonedMs } = place
    const js = await open(place)
    // Whoever comes first makes the stream, too.
    js.stream(name, replicasOf(place))
    return js.consumer(CONSUMER, { stream: name, ackWaitMs: abandonedMs, single })
  },

  async connect({ url, others = [], name }: BrokerPlace): Promise<PlainClient> {
    const connection = await connect({ servers: [url, ...others], timeout: 5_000, reconnect: false })
    const js = jetstream(connection)
    const manager = await jetstreamManager(connection)
    return {
      send: async (messages) => {
        const sending = messages.map(({ attributes, body }) => {
          const fields = headers()
          for (const [key, value] of Object.entries(attributes)) fields.set(`ce-${key}`, value)
          fields.set('content-type', 'application/json')
          // Without Nats-Msg-Id: the server takes it for another message.
          return js.publish(`${name}.entry`, body, { headers: fields, timeout: 5_000 })
        })
        await Promise.all(sending)
      },
      waiting: async () => {
        const { num_pending, num_ack_pending } = await manager.consumers.info(name, CONSUMER)
        return num_pending + num_ack_pending
      },
      close: () => connection.close(),
    }
  },
}

async function open({ url, others = [] }: BrokerPlace): Promise<Nats> {
  const { nats } = await import('hapax/nats')
  return nats(others.length === 0 ? { url } : { url: [url, ...others], heartbeatMs: 3_000, timeoutMs: 3_000 })
}

function replicasOf({ others = [] }: BrokerPlace): NatsStreamOptions {
  return others.length === 0 ? {} : { replicas: 1 + others.length }
}
