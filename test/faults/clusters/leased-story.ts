import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { createHapax, defineMessage, isHapaxError, silentLogger } from 'hapax'
import { type RedisClient, redis } from 'hapax/redis'
import { expect, it } from 'vitest'
import type { LosingCluster } from '../../support/clusters/nodes.ts'
import { inLanes } from '../../support/lanes.ts'

const MESSAGES = 300
const SmsRequested = defineMessage<{ number: string }>('sms.requested')

/** Where a leased story happens. */
interface LeasedPlace {
  readonly client: RedisClient & { disconnect(): void }
  readonly cluster: LosingCluster
}

/** Messages of a leased consumer whose claims are in a cluster that loses a master; a sender delivers each until it is acknowledged. */
export function leasedStory(open: () => LeasedPlace): void {
  it(`${MESSAGES} calls under leases are made once by their keys while it loses a master`, {
    timeout: 600_000,
  }, async ({ annotate }) => {
    const { client, cluster } = open()
    const prefix = `story-${randomBytes(5).toString('hex')}:`
    const hapax = createHapax({ store: redis({ client, prefix, timeoutMs: 3_000 }), logger: silentLogger })
    // The provider honours keys, so that a repeated call is no second message.
    const calls = new Map<string, number>()
    const handled: number[] = []
    const sms = hapax.leased('sms', { leaseMs: 2_000 }).on(SmsRequested, async (_, ctx) => {
      const call = async (key: string): Promise<object> => {
        calls.set(key, (calls.get(key) ?? 0) + 1)
        return {}
      }
      await ctx.effect('send', call, { onUnknown: 'retry-same-key' })
      handled.push(performance.now())
    })
    const deliver = async (id: string): Promise<void> => {
      for (;;) {
        const message = { id, source: '/shop', type: SmsRequested.type, data: { number: id } }
        const result = await sms.handle(message).catch((error: unknown) => {
          if (isHapaxError(error) && error.code === 'store-unavailable') return undefined
          throw error
        })
        if (result?.ack) return
        await delay(100)
      }
    }
    try {
      const node = await cluster.find(prefix)
      const ids = Array.from({ length: MESSAGES }, (_, index) => `m-${index}`)
      const sending = inLanes(10, ids, async (id) => {
        await deliver(id)
        await delay(100 * Math.random())
      })
      while (handled.length < MESSAGES / 10) await delay(10)
      const lost = await node.lose('kill')
      const from = performance.now()
      await sending
      await lost.replaced?.()
      await lost.restore()
      // Whatever was forgotten with the master is delivered again, as brokers do.
      await inLanes(10, ids, deliver)
      const steps = [from, ...handled.filter((at) => at > from)]
      const standstillMs = Math.max(...steps.slice(1).map((at, index) => at - (steps[index] as number)))
      const repeated = [...calls.values()].filter((count) => count > 1).length
      await annotate(
        `${MESSAGES} messages, ${repeated} calls repeated under their keys; standstill ${Math.round(standstillMs)} ms`,
      )
      expect(calls.size).toBe(MESSAGES)
    } finally {
      await hapax.close()
      client.disconnect()
    }
  })
}
