import { connect } from 'amqplib'
import type { Rabbitmq } from 'hapax/rabbitmq'
import type { BrokerKind, BrokerPlace, PlainClient } from './broker-place.ts'

export const rabbitmqKind: BrokerKind = {
  async destination(place) {
    return (await open(place)).exchange(place.name)
  },

  async subscription(place) {
    const { name, single } = place
    return (await open(place)).queue(queueOf(name), { bind: { exchange: name }, single })
  },

  async connect({ url, name }: BrokerPlace): Promise<PlainClient> {
    const connection = await connect(url, { timeout: 5_000 })
    connection.on('error', () => {})
    const channel = await connection.createConfirmChannel()
    channel.on('error', () => {})
    let up = false
    return {
      send: async (messages) => {
        for (const { attributes, body } of messages) {
          const named = Object.entries(attributes).map(([key, value]) => [`cloudEvents_${key}`, value])
          const options = { persistent: true, contentType: 'application/json', headers: Object.fromEntries(named) }
          channel.publish(name, 'entry', Buffer.from(body), options)
        }
        await channel.waitForConfirms()
      },
      // Those that were delivered and not acknowledged are counted again when their reader has gone.
      waiting: async () => {
        const { messageCount, consumerCount } = await channel.checkQueue(queueOf(name))
        up ||= messageCount > 0 || consumerCount > 0
        // After a start of the server it says 0 until it has been recovered; then its readers come back.
        if (!up) throw new Error(`queue ${queueOf(name)} is not up yet`)
        return messageCount
      },
      close: () => connection.close(),
    }
  },
}

function queueOf(name: string): string {
  return `${name}-ledger`
}

async function open({ url, others = [] }: BrokerPlace): Promise<Rabbitmq> {
  const { rabbitmq } = await import('hapax/rabbitmq')
  return rabbitmq(others.length === 0 ? { url } : { url: [url, ...others], heartbeatMs: 2_000 })
}
