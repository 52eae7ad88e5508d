import { redisStreams } from 'hapax/redis-streams'
import { describe, expect, it, vi } from 'vitest'
import { entryIds, listen, type RedisPlace, redisPlace } from '../support/redis-place.ts'

const SOMEBODY = 'somebody else'
const HOUR_MS = 3_600_000

function eventually(check: () => Promise<unknown>): Promise<unknown> {
  return vi.waitFor(check, { timeout: 40_000, interval: 10 })
}

function single({ stream, proxy }: RedisPlace, claimAfterMs: number) {
  return redisStreams({ url: proxy.url, timeoutMs: 60_000 }).group('billing', { stream, claimAfterMs, single: true })
}

/** The key that says whose turn it is. */
const turnOf = ({ stream }: RedisPlace): string => `hapax-single:{${stream}}${JSON.stringify([stream, 'billing'])}`

/** A reader that has one entry in hand and no room for another, so that it does not poll. */
async function full(place: RedisPlace, claimAfterMs: number) {
  const listening = await listen(single(place, claimAfterMs), 1)
  const id = (await place.plain.xadd(place.stream, '*', 'data', '1')) as string
  await eventually(async () => expect(entryIds(listening)).toEqual([id]))
  return listening
}

describe.concurrent("another reader's turn", () => {
  it('E3 B4: is not ended by one that was paused for too long, and closes', async () => {
    await using place = await redisPlace()
    const paused = await full(place, HOUR_MS)
    await place.plain.set(turnOf(place), SOMEBODY, 'PX', HOUR_MS)
    await paused.reader.close()
    expect(await place.plain.get(turnOf(place))).toBe(SOMEBODY)
  })

  it('E3: ends when its reader closes', async () => {
    await using place = await redisPlace()
    const reader = await full(place, HOUR_MS)
    expect(await place.plain.get(turnOf(place))).not.toBe(null)
    await reader.reader.close()
    expect(await place.plain.get(turnOf(place))).toBe(null)
  })

  it('E3 B4: is not prolonged by one that was paused for too long, so that it expires when its reader is dead', async () => {
    await using place = await redisPlace()
    await using paused = await full(place, 3_000)
    const own = await place.plain.get(turnOf(place))
    await place.plain.set(turnOf(place), SOMEBODY, 'PX', 2_000)
    await eventually(async () => expect([null, own]).toContain(await place.plain.get(turnOf(place))))
    expect(paused.deliveries.length).toBeGreaterThan(0)
  })
})
