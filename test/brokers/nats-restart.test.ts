import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import type { Subscription } from 'hapax'
import { memory } from 'hapax/memory'
import { nats } from 'hapax/nats'
import { describe, expect, it } from 'vitest'
import { Shop } from '../../src/testing/broker/shop.ts'
import { numbered } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { HASTY } from '../support/nats-place.ts'
import { noPrivateServer, privateServer } from '../support/private-server.ts'

const reason = noPrivateServer('nats')

describe('a server of NATS that ends with messages in flight', () => {
  it.skipIf(reason).each([
    ['is killed', 'SIGKILL'],
    ['is restarted', 'SIGTERM'],
    ['is paused for longer than a heartbeat', 'SIGSTOP'],
  ] as const)(
    'D9 E8: and %s loses nothing that it confirmed, and nothing is doubled',
    async (_, signal) => {
      await using server = await privateServer('nats')
      const unhandled: unknown[] = []
      const note = (error: unknown): void => void unhandled.push(error)
      process.on('unhandledRejection', note)
      const shop = new Shop({ rows: memory() })
      const js = nats({ url: server.url, ...HASTY })
      const relay = js.stream('SHOP')
      const reports: Error[] = []
      const subscription = reportingTo(reports, js.consumer('billing', { stream: 'SHOP', ackWaitMs: 1_000 }))
      await shop.work({ relay, consume: [shop.consumer().from(subscription)] })
      const ids = numbered(1_500)
      for (const from of [0, 500, 1_000]) {
        const round = new Set(ids.slice(from, from + 500))
        const reported = reports.length
        const publishing = inSteps(shop, [...round])
        const done = (): number => shop.effects.filter((id) => round.has(id)).length
        // None of them was in hand before, so the reader has reached the server again; it reports the next outage.
        await until(
          () => done() >= 100,
          () => `100 effects of ${from} and later, there are ${done()}`,
        )
        if (signal === 'SIGSTOP') await server.pause()
        else await server.kill(signal)
        await until(() => reports.length > reported, 'the reader has noticed')
        if (signal === 'SIGSTOP') await server.resume()
        else await server.start()
        await publishing
      }
      await shop.untilEffects(ids)
      await until(async () => (await unacked(server.url)) === 0, 'everything is acked')
      shop.assertEffects(ids)
      expect(await shop.hapax.failed.count()).toBe(0)
      await shop.close()
      process.off('unhandledRejection', note)
      expect(unhandled).toEqual([])
    },
    240_000,
  )
})

/** The same subscription; what it reports is kept as well. */
function reportingTo(reports: Error[], subscription: Subscription): Subscription {
  return {
    ...subscription,
    open: ({ report, ...options }) =>
      subscription.open({
        ...options,
        report: (error) => {
          reports.push(error)
          report(error)
        },
      }),
  }
}

/** Publishes a few at a time, so that some are under way at any time. */
async function inSteps(shop: Shop, ids: readonly string[]): Promise<void> {
  const before = shop.effects.length
  for (let at = 0; at < ids.length; at += 50) {
    await shop.publish(ids.slice(at, at + 50))
    await until(() => shop.effects.length >= before + at - 200, 'it is not too far ahead')
  }
}

async function unacked(url: string): Promise<number> {
  const connection = await connect({ servers: url })
  try {
    const manager = await jetstreamManager(connection)
    const { num_pending, num_ack_pending } = await manager.consumers.info('SHOP', 'billing')
    return num_pending + num_ack_pending
  } finally {
    await connection.close()
  }
}
