import { redisStreams } from 'hapax/redis-streams'
import { describe, expect, it, vi } from 'vitest'
import {
  consumersOf,
  entryIds,
  groupInfo,
  type Listening,
  listen,
  messages,
  publish,
  type RedisPlace,
  redisPlace,
} from '../support/redis-place.ts'

/** Waits until this holds. */
function eventually(check: () => Promise<unknown>): Promise<unknown> {
  return vi.waitFor(check, { timeout: 50_000, interval: 10 })
}

/** A group whose readers notice the dead within moments. No test here waits for a link that is silent. */
function quick({ stream, proxy }: RedisPlace, options: object = {}) {
  return redisStreams({ url: proxy.url, timeoutMs: 60_000 }).group('billing', { stream, claimAfterMs: 300, ...options })
}

/** A reader of the group that is not hapax, takes everything and never acks. */
async function takeAsDeadReader({ plain, stream }: RedisPlace, name = 'dead'): Promise<void> {
  await plain.xgroup('CREATE', stream, 'billing', '0', 'MKSTREAM').catch(() => {})
  await plain.xreadgroup('GROUP', 'billing', name, 'STREAMS', stream, '>')
}

async function add({ plain, stream }: RedisPlace, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let at = 0; at < count; at++) ids.push((await plain.xadd(stream, '*', 'data', `${at}`)) as string)
  return ids
}

async function pendingOf({ plain, stream }: RedisPlace): Promise<{ id: string; owner: string; times: number }[]> {
  const rows = (await plain.xpending(stream, 'billing', '-', '+', 1_000)) as [string, string, number, number][]
  return rows.map(([id, owner, , times]) => ({ id, owner, times }))
}

/** The server's clock. */
async function now({ plain }: RedisPlace): Promise<number> {
  const [seconds, micros] = await plain.time()
  return Number(seconds) * 1_000 + Number(micros) / 1_000
}

/** Waits until the server's clock has gone on for so long. */
async function timePasses(place: RedisPlace, ms: number): Promise<void> {
  const end = (await now(place)) + ms
  await eventually(async () => expect(await now(place)).toBeGreaterThan(end))
}

/** Waits until a reader has said that it has this entry in hand. */
async function heartbeat(place: RedisPlace, id: string): Promise<void> {
  const start = await now(place)
  await eventually(async () => {
    // Asked for first: it must not seem later than it was.
    const at = await now(place)
    const [row] = (await place.plain.xpending(place.stream, 'billing', id, id, 1)) as [string, string, number, number][]
    expect(at - (row?.[2] ?? 0)).toBeGreaterThan(start)
  })
}

describe.concurrent('entries of dead readers', () => {
  it('B2: are claimed by another reader, marked, with the number of deliveries', async () => {
    await using place = await redisPlace()
    const ids = await add(place, 250)
    await takeAsDeadReader(place)
    await using listening = await listen(quick(place), 1_000)
    await eventually(async () => expect([...entryIds(listening)].sort()).toEqual(ids))
    for (const { arrival, ...delivery } of listening.deliveries) {
      expect(arrival.redelivered).toBe(true)
      expect(arrival.properties['deliveryCount']).toBe('2')
      expect(delivery.bytes).toBeGreaterThan(0)
    }
    for (const delivery of listening.deliveries) delivery.ack()
    await eventually(async () => expect(await pendingOf(place)).toEqual([]))
  })

  it('B3: are not those that a live reader has in hand, however long it takes', async () => {
    await using place = await redisPlace()
    const subscription = quick(place, { claimAfterMs: 20_000 })
    await using slow = await listen(subscription)
    const ids = await add(place, 3)
    await eventually(async () => expect(entryIds(slow)).toEqual(ids))
    await using other = await listen(subscription)
    await timePasses(place, 21_000)
    expect(other.deliveries).toEqual([])
    expect((await pendingOf(place)).map(({ times }) => times)).toEqual([1, 1, 1])
    for (const delivery of slow.deliveries) delivery.ack()
    await eventually(async () => expect(await pendingOf(place)).toEqual([]))
  })

  it('B3: are not those that wait to be handed out again, nor those of a paused reader', async () => {
    await using place = await redisPlace()
    const subscription = quick(place, { claimAfterMs: 20_000 })
    await using slow = await listen(subscription)
    const ids = await add(place, 2)
    await eventually(async () => expect(entryIds(slow)).toEqual(ids))
    slow.deliveries[0]?.retry(60_000)
    await using other = await listen(subscription)
    await timePasses(place, 21_000)
    expect(other.deliveries).toEqual([])
    await slow.reader.pause()
    await eventually(async () => expect(entryIds(other)).toEqual([ids[0]]))
    await timePasses(place, 21_000)
    expect(entryIds(other)).toEqual([ids[0]])
  })

  it('B4 B5: are left to whoever claimed them: neither a heartbeat nor an ack takes them back', async () => {
    await using place = await redisPlace()
    const { plain, stream } = place
    await using robbed = await listen(quick(place, { claimAfterMs: 30_000 }))
    const [stolen, kept] = await add(place, 2)
    await eventually(async () => expect(entryIds(robbed)).toEqual([stolen, kept]))
    // The thief says nothing afterwards: what it has is taken from it in its turn, but not so soon.
    await plain.xclaim(stream, 'billing', 'thief', 0, stolen as string)
    await heartbeat(place, kept as string)
    await plain.xclaim(stream, 'billing', 'thief', 0, stolen as string, 'JUSTID')
    // The reader knows what is lost when it has read the answer to the first one: then comes the second.
    await heartbeat(place, kept as string)
    for (const delivery of robbed.deliveries) delivery.ack()
    await eventually(async () => expect(await pendingOf(place)).toHaveLength(1))
    expect(await pendingOf(place)).toEqual([{ id: stolen, owner: 'thief', times: 2 }])
  })
})

describe.concurrent('what a reader has in hand', () => {
  // Nothing is ever claimed because it was idle.
  const patient = { claimAfterMs: 1_000_000 }

  it('B6: goes to another reader at once when it is put back by a paused one', async () => {
    await using place = await redisPlace()
    await using first = await listen(quick(place, patient))
    const ids = await add(place, 3)
    await eventually(async () => expect(entryIds(first)).toEqual(ids))
    first.deliveries[0]?.retry(60_000)
    await using second = await listen(quick(place, patient))
    await first.reader.pause()
    await eventually(async () => expect(entryIds(second)).toEqual([ids[0]]))
    first.deliveries[1]?.retry(0)
    await eventually(async () => expect(entryIds(second)).toEqual([ids[0], ids[1]]))
    first.deliveries[2]?.ack()
    await eventually(async () => expect(await pendingOf(place)).toHaveLength(2))
  })

  it('E5: comes again at once when the link was lost', async () => {
    await using place = await redisPlace()
    await using listening = await listen(quick(place, patient))
    const ids = await add(place, 3)
    await eventually(async () => expect(entryIds(listening)).toEqual(ids))
    place.proxy.cut()
    await eventually(async () => expect(entryIds(listening)).toEqual([...ids, ...ids]))
    // The answers of before the cut do nothing.
    for (const delivery of listening.deliveries.slice(0, 3)) delivery.ack()
    listening.deliveries[5]?.ack()
    await eventually(async () => expect((await pendingOf(place)).map(({ id }) => id)).toEqual(ids.slice(0, 2)))
  })
})

describe.concurrent('names of readers', () => {
  const names = async (place: RedisPlace) =>
    (await consumersOf(place.plain, place.stream, 'billing')).map(({ name }) => name)

  it('go when the reader closes, and what it had is there for others at once', async () => {
    await using place = await redisPlace()
    const subscription = quick(place, { claimAfterMs: 1_000_000 })
    const first = await listen(subscription)
    const ids = await add(place, 3)
    await eventually(async () => expect(entryIds(first)).toEqual(ids))
    first.deliveries[1]?.ack()
    await first.reader.close()
    expect(await names(place)).toEqual(['hapax-returned'])
    await using second = await listen(subscription)
    await eventually(async () => expect(entryIds(second)).toEqual([ids[0], ids[2]]))
  })

  it('of dead readers go when they have nothing left, and never before', async () => {
    await using place = await redisPlace()
    const { plain, stream } = place
    await add(place, 2)
    await takeAsDeadReader(place, 'hapax-dead')
    await plain.xgroup('CREATECONSUMER', stream, 'billing', 'hapax-empty')
    await plain.xgroup('CREATECONSUMER', stream, 'billing', 'somebody')
    await timePasses(place, 3_300)
    const patient = await listen(quick(place), 1)
    await eventually(async () => expect(await names(place)).not.toContain('hapax-empty'))
    // One entry is in hand, and there is no room for the other: it is still under the name of the dead reader.
    await eventually(async () => expect(patient.deliveries.length).toBe(1))
    expect(await consumersOf(plain, stream, 'billing')).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: 'hapax-dead', pending: 1 }),
        expect.objectContaining({ name: 'somebody' }),
      ]),
    )
    await patient.reader.close()
    await using next = await listen(quick(place))
    await eventually(async () => expect(next.deliveries.length).toBe(2))
  })

  it('that were removed by hand do not matter', async () => {
    await using place = await redisPlace()
    await using listening = await listen(quick(place))
    for (const name of await names(place)) await place.plain.xgroup('DELCONSUMER', place.stream, 'billing', name)
    const ids = await add(place, 3)
    await eventually(async () => expect(entryIds(listening)).toEqual(ids))
    for (const delivery of listening.deliveries) delivery.ack()
    await eventually(async () => expect(await pendingOf(place)).toEqual([]))
  })
})

describe.concurrent('entries that somebody removed', () => {
  it('before a dead reader had finished them are reported', async () => {
    await using place = await redisPlace()
    const ids = await add(place, 3)
    await takeAsDeadReader(place)
    await place.plain.xtrim(place.stream, 'MAXLEN', 1)
    await using listening = await listen(quick(place))
    await eventually(async () => expect(entryIds(listening)).toEqual([ids[2]]))
    await eventually(async () => expect(listening.reports.length).toBe(1))
    expect(listening.reports[0]).toMatchObject({ code: 'broker-refused', fields: { ids: ids.slice(0, 2) } })
  })

  it('while they are in hand are reported and finished all the same', async () => {
    await using place = await redisPlace()
    await using listening = await listen(quick(place))
    const ids = await add(place, 2)
    await eventually(async () => expect(entryIds(listening)).toEqual(ids))
    await place.plain.xdel(place.stream, ids[0] as string)
    await eventually(async () => expect(listening.reports.map(({ fields }) => fields['ids'])).toEqual([[ids[0]]]))
    await heartbeat(place, ids[1] as string)
    await heartbeat(place, ids[1] as string)
    listening.deliveries[0]?.retry(10)
    await eventually(async () => expect(entryIds(listening)).toEqual([...ids, ids[0]]))
    for (const delivery of listening.deliveries) delivery.ack()
    await eventually(async () => expect(await pendingOf(place)).toEqual([]))
    expect(listening.reports).toHaveLength(1)
  })

  it('when they are given back are reported', async () => {
    await using place = await redisPlace()
    const listening = await listen(quick(place, { claimAfterMs: 1_000_000 }))
    const ids = await add(place, 2)
    await eventually(async () => expect(entryIds(listening)).toEqual(ids))
    await place.plain.xdel(place.stream, ids[1] as string)
    await listening.reader.close()
    expect(listening.reports.map(({ fields }) => fields['ids'])).toEqual([[ids[1]]])
  })
})

describe.concurrent('a group', () => {
  it('begins with everything, or with what comes from now on', async () => {
    await using place = await redisPlace()
    const { stream, proxy } = place
    const redis = redisStreams({ url: proxy.url })
    const early = await add(place, 2)
    await using all = await listen(redis.group('all', { stream }))
    await using later = await listen(redis.group('later', { stream, from: 'now' }))
    const late = await add(place, 2)
    await eventually(async () => expect(entryIds(all)).toEqual([...early, ...late]))
    await eventually(async () => expect(entryIds(later)).toEqual(late))
  })

  const losses: [name: string, lose: (place: RedisPlace) => Promise<unknown>][] = [
    ['a group', ({ plain, stream }) => plain.xgroup('DESTROY', stream, 'billing')],
    ['a stream', ({ plain, stream }) => plain.del(stream)],
  ]
  const froms = ['beginning', 'now'] as const

  for (const [what, lose] of losses) {
    it.for(froms)(`makes ${what} again that was removed while it was read (from: %s), and says so`, async (from) => {
      await using place = await redisPlace()
      await add(place, 1)
      await using listening = await listen(quick(place, { from }))
      const ids = await add(place, 3)
      await eventually(async () => expect(entryIds(listening)).toEqual(expect.arrayContaining(ids)))
      for (const delivery of listening.deliveries.slice(0, -1)) delivery.ack()
      await eventually(async () => expect((await pendingOf(place)).length).toBe(1))
      await lose(place)
      // Added while nobody could know of the group.
      const later = await add(place, 2)
      await eventually(async () => expect(entryIds(listening)).toEqual(expect.arrayContaining(later)))
      expect(listening.reports.map(({ code }) => code)).toEqual(['topology-mismatch'])
      if (what === 'a group') {
        // What was not finished comes again.
        expect(entryIds(listening).filter((id) => id === ids[2])).toHaveLength(2)
      }
      for (const delivery of listening.deliveries) delivery.ack()
      await eventually(async () => expect((await groupInfo(place.plain, place.stream, 'billing')).pending).toBe(0))
    })
  }

  it(`that is only checked has to be there, and is waited for when it was removed`, async () => {
    await using place = await redisPlace()
    const { plain, stream } = place
    const subscription = quick(place, { declare: 'check' })
    await expect(listen(subscription)).rejects.toMatchObject({ code: 'topology-mismatch' })
    await plain.xadd(stream, '*', 'a', 'b')
    await expect(listen(subscription)).rejects.toMatchObject({ code: 'topology-mismatch' })
    await plain.xgroup('CREATE', stream, 'billing', '$')
    await using listening = await listen(subscription)
    await plain.xgroup('DESTROY', stream, 'billing')
    await eventually(async () => expect(listening.reports.map(({ code }) => code)).toEqual(['topology-mismatch']))
    await plain.xgroup('CREATE', stream, 'billing', '$')
    const ids = await add(place, 2)
    await eventually(async () => expect(entryIds(listening)).toEqual(ids))
    expect(listening.reports).toHaveLength(1)
  })

  it('that is assumed and missing is reported, not waited for in silence', async () => {
    await using place = await redisPlace()
    await using listening = await listen(quick(place, { declare: 'none' }))
    await eventually(async () => expect(listening.reports.map(({ code }) => code)).toEqual(['topology-mismatch']))
    await place.plain.xgroup('CREATE', place.stream, 'billing', '0', 'MKSTREAM')
    const ids = await add(place, 1)
    await eventually(async () => expect(entryIds(listening)).toEqual(ids))
  })

  it('of something that is no stream is refused', async () => {
    await using place = await redisPlace()
    await place.plain.set(place.stream, 'a text')
    await expect(listen(quick(place))).rejects.toMatchObject({
      code: 'topology-mismatch',
      message: expect.stringContaining('to be a stream'),
    })
    const destination = redisStreams({ url: place.proxy.url }).stream(place.stream)
    expect(await publish(destination, messages(2))).toEqual(Array(2).fill('unavailable broker-refused'))
    await destination.close()
  })

  it('acks together what was acked together', async () => {
    let acks = 0
    const sent = (chunk: Buffer): void => {
      acks += chunk.toString('latin1').split('XACK').length - 1
    }
    await using place = await redisPlace(undefined, () => ({ sent, received: () => {}, ended: () => {} }))
    await using listening: Listening = await listen(quick(place, { claimAfterMs: 1_000_000 }), 500)
    await add(place, 300)
    await eventually(async () => expect(listening.deliveries.length).toBe(300))
    for (const delivery of listening.deliveries) delivery.ack()
    await eventually(async () => expect(await pendingOf(place)).toEqual([]))
    expect(acks).toBe(1)
  })
})
