import { redisStreams } from 'hapax/redis-streams'
import { describe, expect, it } from 'vitest'
import type { LinkProxy, LinkTap } from '../../src/conformance/brokers/link-proxy.ts'
import { Listener } from '../../src/testing/broker/listener.ts'
import { until } from '../../src/testing/wait.ts'
import { groupInfo, redisPlace } from '../support/redis-place.ts'

const MiB = 1024 * 1024
const MANY = { messages: 1_000, bytes: 1e9 }
const event = (id: string): string[] => ['ce_id', id, 'ce_source', '/shop', 'ce_type', 'ping', 'ce_specversion', '1.0']

/** Cuts a link as soon as more than so many bytes have come through it: an entry of that size never arrives. */
function narrow(bytes: number, proxy: () => LinkProxy | undefined): () => LinkTap {
  return () => {
    let left = bytes
    return {
      sent: () => {},
      received: (chunk) => {
        left -= chunk.length
        if (left < 0) proxy()?.cut()
      },
      ended: () => {},
    }
  }
}

describe('large entries', () => {
  it.for([false, true])(
    'K16: one that no link can carry comes as its beginning, and the others whole (single: %s)',
    async (single) => {
      let proxy: LinkProxy | undefined
      await using place = await redisPlace(
        undefined,
        narrow(4 * MiB, () => proxy),
      )
      proxy = place.proxy
      const { plain, stream } = place
      const options = { stream, claimAfterMs: 2_000, single, maxBytes: MiB }
      const group = redisStreams({ url: proxy.url }).group('billing', options)
      await plain.xadd(stream, '*', ...event('before'), 'data', '{}')
      await plain.xadd(stream, '*', ...event('large'), 'header_trace', 'kept', 'data', Buffer.alloc(12 * MiB, 'x'))
      await plain.xadd(stream, '*', ...event('after'), 'data', '{}')
      const listener = await Listener.open(group, MANY, (received) => received.ack())
      await listener.takeAllOf(['before', 'large', 'after'])
      const large = listener.received.find(({ id }) => id === 'large')
      expect(large?.arrival).toMatchObject({ refused: { code: 'too-large' }, headers: { trace: 'kept' } })
      expect(large?.arrival.refused?.fields['bytes']).toBeGreaterThan(12 * MiB)
      expect(large?.arrival.body.byteLength).toBe(64 * 1024)
      for (const { id, arrival } of listener.received) if (id !== 'large') expect(arrival.refused).toBeUndefined()
      await until(async () => (await groupInfo(plain, stream, 'billing')).pending === 0, 'all are acked')
      await listener.close()
    },
  )

  it('K16: one that has come is cut all the same', async () => {
    await using place = await redisPlace()
    const { plain, stream, proxy } = place
    const group = redisStreams({ url: proxy.url }).group('billing', { stream, maxBytes: MiB })
    await plain.xadd(stream, '*', ...event('large'), 'data', Buffer.alloc(MiB, 'x'))
    await plain.xadd(stream, '*', ...event('many'), ...Array.from({ length: 60_000 }, (_, at) => `field number ${at}`))
    const listener = await Listener.open(group, MANY)
    const [large, many] = await listener.take(2)
    expect(large?.arrival).toMatchObject({ refused: { code: 'too-large' }, attributes: { id: 'large' } })
    expect(large?.bytes).toBeLessThan(70_000)
    expect(many?.arrival).toMatchObject({ refused: { code: 'too-large' }, attributes: { id: 'many' } })
    expect(many?.bytes).toBeLessThan(70_000)
    await listener.close()
  })

  it.for([false, true])('K17: what is taken over comes in pieces that fit (single: %s)', async (single) => {
    await using place = await redisPlace()
    const { plain, stream, proxy } = place
    for (let at = 0; at < 40; at++)
      await plain.xadd(stream, '*', ...event(`m${at}`), 'data', Buffer.alloc(100_000, 'x'))
    await plain.xgroup('CREATE', stream, 'billing', '0')
    // Somebody else has them, and is gone.
    await plain.xreadgroup('GROUP', 'billing', 'gone', 'COUNT', 40, 'STREAMS', stream, '>')
    const group = redisStreams({ url: proxy.url }).group('billing', { stream, claimAfterMs: 200, single })
    const listener = await Listener.open(group, { messages: 1_000, bytes: 300_000 })
    await listener.came(3)
    expect(listener.most.bytes).toBeLessThan(500_000)
    for (let at = 0; at < 40; at++) {
      await listener.came(at + 1)
      expect(listener.most.bytes).toBeLessThan(500_000)
      listener.received[at]?.ack()
    }
    await listener.close()
  })
})
