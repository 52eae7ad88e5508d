import { redisStreams } from 'hapax/redis-streams'
import { describe, expect, it, vi } from 'vitest'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { entryIds, type Listening, listen, type RedisPlace, redisPlace } from '../support/redis-place.ts'
import { requireServer } from '../support/servers.ts'

function eventually(check: () => Promise<unknown>): Promise<unknown> {
  return vi.waitFor(check, { timeout: 40_000, interval: 10 })
}

function single({ stream }: RedisPlace, url: string, claimAfterMs = 1_000_000, timeoutMs = 60_000) {
  return redisStreams({ url, timeoutMs }).group('billing', { stream, claimAfterMs, single: true })
}

async function add({ plain, stream }: RedisPlace, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let at = 0; at < count; at++) ids.push((await plain.xadd(stream, '*', 'data', `${at}`)) as string)
  return ids
}

/** The key that says whose turn it is. */
const turnOf = ({ stream }: RedisPlace): string => `hapax-single:{${stream}}${JSON.stringify([stream, 'billing'])}`

async function ackAll({ deliveries }: Listening): Promise<void> {
  for (const delivery of deliveries) delivery.ack()
}

describe.concurrent('a single reader', () => {
  it('E3: that is cut off is followed after a while by one that begins with what was not finished', async () => {
    await using place = await redisPlace()
    await using proxy = await LinkProxy.open(requireServer('redis'))
    const first = await listen(single(place, proxy.url, 15_000, 10_000), 5)
    const ids = await add(place, 8)
    await eventually(async () => expect(entryIds(first)).toEqual(ids.slice(0, 5)))
    await using second = await listen(single(place, place.proxy.url, 15_000))
    for (const at of [0, 2]) first.deliveries[at]?.ack()
    await eventually(async () => expect(entryIds(first)).toEqual(ids.slice(0, 7)))
    expect(second.deliveries).toEqual([])
    proxy.freeze()
    const left = [1, 3, 4, 5, 6, 7].map((at) => ids[at])
    await eventually(async () => expect(entryIds(second)).toEqual(left))
    expect(second.deliveries.map(({ arrival }) => arrival.redelivered)).toEqual([true, true, true, true, true, false])
    await first.reader.close()
  })

  it('E3 B4: that was taken for dead gets nothing new, and what it had in hand comes to the other in order', async () => {
    await using place = await redisPlace()
    const { plain, stream, proxy } = place
    await using first = await listen(single(place, proxy.url), 3)
    const ids = await add(place, 10)
    await eventually(async () => expect(entryIds(first)).toEqual(ids.slice(0, 3)))
    // As if it had been paused for too long: somebody else has the turn now, and the first one does not know.
    await plain.set(turnOf(place), 'somebody else')
    first.deliveries[0]?.ack()
    await eventually(async () => expect((await plain.xpending(stream, 'billing'))[0]).toBe(2))
    await using second = await listen(single(place, proxy.url))
    expect(entryIds(first)).toEqual(ids.slice(0, 3))
    expect(second.deliveries).toEqual([])
    await plain.del(turnOf(place))
    // One of them gets the turn, and all that is left, from the first entry that is not finished.
    const all = () => [...entryIds(first).slice(3), ...entryIds(second)]
    await eventually(async () => {
      // The first one has room for three at a time.
      for (const delivery of first.deliveries.slice(3)) delivery.ack()
      expect(all()).toContain(ids.at(-1))
    })
    expect(all().slice(0, 3)).toEqual(ids.slice(1, 4))
    expect(Math.min(first.deliveries.length - 3, second.deliveries.length)).toBe(0)
  })

  it('E5: that gets its turn back begins anew: answers of before do nothing', async () => {
    await using place = await redisPlace()
    const { plain, stream, proxy } = place
    await using only = await listen(single(place, proxy.url), 3)
    const ids = await add(place, 4)
    await eventually(async () => expect(entryIds(only)).toEqual(ids.slice(0, 3)))
    await plain.set(turnOf(place), 'somebody else')
    // Now there is room, and the reader finds out that it may not read.
    only.deliveries[0]?.ack()
    await eventually(async () => expect((await plain.xpending(stream, 'billing'))[0]).toBe(2))
    await plain.del(turnOf(place))
    await eventually(async () => expect(entryIds(only).slice(3)).toEqual(ids.slice(1)))
    for (const delivery of only.deliveries.slice(0, 3)) delivery.ack()
    only.deliveries.at(-1)?.ack()
    await eventually(async () => expect((await plain.xpending(stream, 'billing', '-', '+', 9)).length).toBe(2))
    for (const delivery of only.deliveries) delivery.ack()
    await eventually(async () => expect((await plain.xpending(stream, 'billing'))[0]).toBe(0))
  })

  it('E3: keeps its turn through the loss of its links, and begins again with what was not finished', async () => {
    await using place = await redisPlace()
    await using first = await listen(single(place, place.proxy.url))
    const ids = await add(place, 4)
    await eventually(async () => expect(entryIds(first)).toEqual(ids))
    await using second = await listen(single(place, requireServer('redis')))
    first.deliveries[0]?.ack()
    await eventually(async () => expect((await place.plain.xpending(place.stream, 'billing'))[0]).toBe(3))
    place.proxy.cut()
    await eventually(async () => expect(entryIds(first)).toEqual([...ids, ...ids.slice(1)]))
    const more = await add(place, 2)
    await eventually(async () => expect(entryIds(first)).toEqual([...ids, ...ids.slice(1), ...more]))
    expect(second.deliveries).toEqual([])
  })

  it('E3: keeps its turn while it is paused, and gives it up when it closes', async () => {
    await using place = await redisPlace()
    const first = await listen(single(place, place.proxy.url))
    const ids = await add(place, 3)
    await eventually(async () => expect(entryIds(first)).toEqual(ids))
    await using second = await listen(single(place, place.proxy.url))
    await first.reader.pause()
    first.deliveries[0]?.retry(0)
    first.deliveries[1]?.ack()
    const more = await add(place, 2)
    await eventually(async () => expect((await place.plain.xpending(place.stream, 'billing'))[0]).toBe(2))
    expect(await place.plain.get(turnOf(place))).toMatch(/^hapax-/)
    expect(second.deliveries).toEqual([])
    await first.reader.close()
    await eventually(async () => expect(entryIds(second)).toEqual([ids[0], ids[2], ...more]))
  })

  it('keeps its turn for as long as its handlers take', async () => {
    await using place = await redisPlace()
    await using first = await listen(single(place, place.proxy.url, 20_000))
    const ids = await add(place, 2)
    await eventually(async () => expect(entryIds(first)).toEqual(ids))
    await using second = await listen(single(place, place.proxy.url, 20_000))
    const time = async (): Promise<number> => Number((await place.plain.time())[0])
    const end = (await time()) + 21
    await eventually(async () => expect(await time()).toBeGreaterThan(end))
    expect(second.deliveries).toEqual([])
    expect(first.deliveries).toHaveLength(2)
    await ackAll(first)
  })

  it('reports what was removed before it was finished', async () => {
    await using place = await redisPlace()
    const { plain, stream, proxy } = place
    const first = await listen(single(place, proxy.url))
    const ids = await add(place, 3)
    await eventually(async () => expect(entryIds(first)).toEqual(ids))
    await plain.xdel(stream, ids[1] as string)
    proxy.cut()
    await eventually(async () => expect(entryIds(first)).toEqual([...ids, ids[0], ids[2]]))
    await first.reader.close()
    expect(first.reports.map(({ fields }) => fields['ids']).filter(Array.isArray)).toEqual([[ids[1]]])
  })

  it('whose group is missing begins as soon as it is there, not when a lease of its own has ended', async () => {
    await using place = await redisPlace()
    const { plain, stream, proxy } = place
    const options = { stream, single: true, declare: 'none', claimAfterMs: 1_000_000 } as const
    await using only = await listen(redisStreams({ url: proxy.url }).group('billing', options))
    await eventually(async () => expect(only.reports).not.toEqual([]))
    expect(await plain.get(turnOf(place))).toBe(null)
    await plain.xgroup('CREATE', stream, 'billing', '0', 'MKSTREAM')
    const ids = await add(place, 1)
    await eventually(async () => expect(entryIds(only)).toEqual(ids))
  })

  it('goes on at once when something comes, and leaves no key behind', async () => {
    await using place = await redisPlace()
    const first = await listen(single(place, place.proxy.url))
    for (let time = 1; time <= 5; time++) {
      await add(place, 1)
      await eventually(async () => expect(first.deliveries).toHaveLength(time))
      first.deliveries.at(-1)?.ack()
    }
    await first.reader.close()
    expect(await place.plain.get(turnOf(place))).toBe(null)
    expect(await place.plain.xinfo('CONSUMERS', place.stream, 'billing')).toEqual([])
  })
})
