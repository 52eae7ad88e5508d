import { randomBytes } from 'node:crypto'
import { type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { LinkProxy } from './link-proxy.ts'
import { requireServer } from './servers.ts'

/** A stream of a test's own, which nobody has made yet, a plain client, and the server through a proxy. */
export interface NatsPlace extends AsyncDisposable {
  readonly stream: string
  /** Below which the subjects of the stream are. */
  readonly prefix: string
  readonly connection: NatsConnection
  readonly manager: JetStreamManager
  readonly plain: JetStreamClient
  readonly proxy: LinkProxy
}

/** Settings under which losses are noticed soon: for tests that wait for that. */
export const HASTY = { heartbeatMs: 3_000, timeoutMs: 15_000 } as const

/** Settings under which a machine that stands still for some seconds is not taken for a loss. */
export const PATIENT = { heartbeatMs: 60_000, timeoutMs: 60_000 } as const

export async function natsPlace(server: string = requireServer('nats')): Promise<NatsPlace> {
  const stream = `SHOP_${randomBytes(8).toString('hex').toUpperCase()}`
  const connection = await connect({ servers: server })
  const manager = await jetstreamManager(connection)
  const proxy = await LinkProxy.open(server)
  return {
    stream,
    prefix: stream.toLowerCase(),
    connection,
    manager,
    plain: jetstream(connection),
    proxy,
    [Symbol.asyncDispose]: async () => {
      await proxy[Symbol.asyncDispose]()
      if (connection.isClosed()) return
      for await (const names of manager.streams.names()) {
        if (names.includes(stream)) await manager.streams.delete(names).catch(() => {})
      }
      await connection.close()
    },
  }
}

/** How many messages of a consumer are not acked, delivered or not. */
export async function waitingIn({ manager, stream }: NatsPlace, consumer: string): Promise<number> {
  const { num_pending, num_ack_pending } = await manager.consumers.info(stream, consumer)
  return num_pending + num_ack_pending
}
