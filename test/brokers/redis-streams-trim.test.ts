import { redisStreams } from 'hapax/redis-streams'
import { describe, expect, it, vi } from 'vitest'
import type { Delivery, Subscription } from '../../src/contracts/broker.ts'
import { groupInfo, message, publish, type RedisPlace, redisPlace } from '../support/redis-place.ts'

function eventually(check: () => Promise<unknown>): Promise<unknown> {
  return vi.waitFor(check, { timeout: 40_000, interval: 20 })
}

/** A message of about a kilobyte: few of them fill the piece of a stream that Redis cuts off as a whole. */
const large = (id: string) => message(id, { data: Buffer.from(JSON.stringify({ id, pad: 'x'.repeat(1_000) })) })

/** Reads and acks; `hold` says which to leave unacked until later. */
async function reading(subscription: Subscription, hold: (id: string) => boolean = () => false) {
  const seen: string[] = []
  const held: Delivery[] = []
  const reports: Error[] = []
  const reader = await subscription.open({
    types: 'all',
    prefetch: { messages: 50, bytes: 1e9 },
    receive: (deliveries) => {
      for (const delivery of deliveries) {
        const id = idOf(delivery)
        seen.push(id)
        if (hold(id)) held.push(delivery)
        else delivery.ack()
      }
    },
    report: (error) => reports.push(error),
  })
  return { seen, held, reports, reader }
}

const idOf = ({ arrival }: Delivery): string => arrival.attributes['id'] as string

const lengthOf = ({ plain, stream }: RedisPlace): Promise<number> => plain.xlen(stream)

async function idsIn({ plain, stream }: RedisPlace): Promise<readonly string[]> {
  const entries = await plain.xrange(stream, '-', '+')
  return entries.map(([, fields]) => fields[fields.indexOf('ce_id') + 1] as string)
}

/** Sends one message after the other until this holds: trimming comes with sending. */
async function sendUntil(
  place: RedisPlace,
  trim: object,
  holds: () => Promise<boolean>,
  prefix = 'n',
): Promise<string[]> {
  const destination = redisStreams({ url: place.proxy.url }).stream(place.stream, { trim })
  const sent: string[] = []
  await eventually(async () => {
    const id = `${prefix}${sent.length}`
    sent.push(id)
    expect(await publish(destination, [large(id)])).toEqual(['confirmed'])
    expect(await holds()).toBe(true)
  })
  await destination.close()
  return sent
}

describe.concurrent('trimming', () => {
  it('C8: removes nothing that a group has not finished, under load, with a slow group and a new one', async () => {
    await using place = await redisPlace()
    const { stream, proxy } = place
    const redis = redisStreams({ url: proxy.url })
    const destination = redis.stream(stream, { trim: {} })
    const quick = await reading(redis.group('quick', { stream }))
    // Keeps each tenth for a while: the oldest that is not acked is some hundred behind.
    const slow = await reading(redis.group('slow', { stream }), (id) => id.endsWith('7'))
    const sent: string[] = []
    /** Sends until so many cuts have been seen. */
    const send = async (cuts: number): Promise<void> => {
      for (let seen = 0, length = await lengthOf(place); seen < cuts; ) {
        const batch = Array.from({ length: 20 }, (_, at) => `m${sent.length + at}`)
        sent.push(...batch)
        expect(await publish(destination, batch.map(large))).toEqual(batch.map(() => 'confirmed'))
        for (const delivery of slow.held.splice(0, Math.max(0, slow.held.length - 20))) delivery.ack()
        const now = await lengthOf(place)
        if (now < length + batch.length) {
          seen += 1
          const there = new Set(await idsIn(place))
          expect(slow.held.map(idOf).filter((id) => !there.has(id))).toEqual([])
        }
        length = now
      }
    }
    await send(3)
    const fresh = await reading(redis.group('fresh', { stream }))
    // Nobody sends now, so nobody trims: this is what the new group must see.
    const due = new Set(await idsIn(place))
    const before = sent.length
    await send(3)
    for (const id of sent.slice(before)) due.add(id)
    await eventually(async () => {
      for (const delivery of slow.held.splice(0)) delivery.ack()
      for (const { seen } of [quick, slow]) expect(new Set(seen).size).toBe(sent.length)
      expect([...due].filter((id) => !fresh.seen.includes(id))).toEqual([])
      for (const group of ['quick', 'slow', 'fresh'])
        expect((await groupInfo(place.plain, stream, group)).pending).toBe(0)
    })
    for (const { reports } of [quick, slow, fresh]) expect(reports).toEqual([])
    await sendUntil(place, {}, async () => (await lengthOf(place)) < 100)
    for (const { reader } of [quick, slow, fresh]) await reader.close()
    await destination.close()
  })

  it('removes nothing of a stream that nobody reads', async () => {
    await using place = await redisPlace()
    const destination = redisStreams({ url: place.proxy.url }).stream(place.stream, { trim: {} })
    await publish(
      destination,
      Array.from({ length: 200 }, (_, at) => large(`m${at}`)),
    )
    await destination.close()
    const again = redisStreams({ url: place.proxy.url }).stream(place.stream, { trim: {} })
    await publish(again, [large('last')])
    expect(await lengthOf(place)).toBe(201)
    await again.close()
  })

  it('waits for an entry that is delivered and not acked, and for a group that does not read', async () => {
    await using place = await redisPlace()
    const { plain, stream, proxy } = place
    const redis = redisStreams({ url: proxy.url })
    await plain.xgroup('CREATE', stream, 'asleep', '0', 'MKSTREAM')
    const quick = await reading(redis.group('quick', { stream }), (id) => id === 'm50')
    const destination = redis.stream(stream, { trim: {} })
    await publish(
      destination,
      Array.from({ length: 100 }, (_, at) => large(`m${at}`)),
    )
    await eventually(async () => expect(quick.seen.length).toBe(100))
    await destination.close()
    const trims = async (): Promise<number> => {
      const opened = redisStreams({ url: proxy.url }).stream(stream, { trim: {} })
      await publish(opened, [large('more')])
      await opened.close()
      return lengthOf(place)
    }
    expect(await trims()).toBe(101)
    await plain.xgroup('DESTROY', stream, 'asleep')
    await eventually(async () => expect(await trims()).toBeLessThan(80))
    expect(await idsIn(place)).toContain('m50')
    quick.held[0]?.ack()
    await eventually(async () => {
      await trims()
      expect(await idsIn(place)).not.toContain('m50')
    })
    await quick.reader.close()
  })

  it('keeps what is young, and about as many as it is told', async () => {
    await using place = await redisPlace()
    const { stream, proxy } = place
    const quick = await reading(redisStreams({ url: proxy.url }).group('quick', { stream }))
    const destination = redisStreams({ url: proxy.url }).stream(stream, { trim: { keepMs: 3_600_000 } })
    await publish(
      destination,
      Array.from({ length: 300 }, (_, at) => large(`m${at}`)),
    )
    await eventually(async () => expect((await groupInfo(place.plain, stream, 'quick')).pending).toBe(0))
    await destination.close()
    const sent = await sendUntil(place, { keepMs: 3_600_000 }, async () => true)
    expect(await lengthOf(place)).toBe(300 + sent.length)
    await sendUntil(place, { keepEntries: 100 }, async () => (await lengthOf(place)) < 130, 'k')
    expect(await lengthOf(place)).toBeGreaterThanOrEqual(100)
    await quick.reader.close()
  })
})
