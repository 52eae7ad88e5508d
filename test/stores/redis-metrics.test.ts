import { createHapax, defineMessage, Permanent, silentLogger } from 'hapax'
import { prometheus } from 'hapax/prometheus'
import { redis } from 'hapax/redis'
import { describe, expect, it } from 'vitest'
import { LeapingClock } from '../../src/testing/clock.ts'
import { until } from '../../src/testing/wait.ts'
import { exporterOf, numberOf } from '../support/exporter.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { requireServer } from '../support/servers.ts'

const Ping = defineMessage<{ readonly n: number }>('ping')
const ping = (id: string, n = 1) => ({ id, source: '/sender', type: 'ping', data: { n } })

describe('metrics on Redis', () => {
  it('count what leased consumers do, and tell what failed', async () => {
    const where = { url: requireServer('redis'), prefix: freshPrefix() }
    const clock = new LeapingClock()
    const hapax = createHapax({ store: redis(where), logger: silentLogger, clock })
    const metrics = prometheus(hapax)
    const sms = hapax.leased('sms').on(Ping, async ({ n }, ctx) => {
      if (n === 2) throw new Permanent('no')
      await ctx.effect('send', async () => 'sent')
    })
    for (const id of ['a', 'b', 'a']) await sms.handle(ping(id))
    await sms.handle(ping('c', 2))
    const worker = hapax.worker({ consume: [sms] })
    await worker.start()
    await until(async () => {
      clock.leap(500)
      await hapax.status()
      return metrics.text().includes('hapax_state_age_seconds')
    })
    const text = metrics.text()
    const counted = (outcome: string): number | undefined =>
      numberOf(text, `hapax_messages_total{consumer="sms",outcome="${outcome}"}`)
    expect([counted('processed'), counted('duplicate'), counted('failed')]).toEqual([2, 1, 1])
    expect(numberOf(text, 'hapax_effects_total{consumer="sms",state="done"}')).toBe(2)
    expect(text).toMatch(/^hapax_failed_messages\{origin="inbox",scope="sms",reason=".*"\} 1$/m)
    expect(numberOf(text, 'hapax_inbox_messages{consumer="sms",state="waiting"}')).toBe(0)
    expect(text).not.toContain('hapax_workers')
    await using exporter = await exporterOf(['--store', where.url, '--prefix', where.prefix])
    expect(await exporter.scrapeUp()).toMatch(/^hapax_failed_messages\{origin="inbox",scope="sms",reason=".*"\} 1$/m)
    await hapax.close()
  })
})
