// Contexts and spans on real databases: their drivers call back from sockets, and transactions continue there.
import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { opentelemetry } from 'hapax/opentelemetry'
import { redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Child } from '../support/child.ts'
import { type DurableStore, durableStores, makePlace, openStore, type Place, type RigTx } from '../support/databases.ts'
import { requireServer, withoutRedis } from '../support/servers.ts'
import { currentSpan, Tracing } from '../support/tracing.ts'

const Ping = defineMessage<{ n: number }>('ping')
const Pong = defineMessage<{ n: number }>('pong')
const request = new AsyncLocalStorage<string>()
const PARENT = '0af7651916cd43dd8448eb211c80319c'

interface Ground {
  readonly place: Place
  readonly tracing: Tracing
  readonly hapax: Hapax<RigTx>
}

async function open(store: DurableStore, consume: 'link' | 'parent' = 'link', watched = true): Promise<Ground> {
  const checker = await makePlace(store)
  onTestFinished(() => checker[Symbol.asyncDispose]())
  const tracing = Tracing.open()
  const hapax = createHapax({
    store: await openStore(checker.place, { max: 4 }),
    source: '/shop',
    delivery: 'local',
    logger: silentLogger,
    ...(watched && { instrument: opentelemetry({ tracerProvider: tracing.provider, consume }) }),
  })
  onTestFinished(() => hapax.close())
  return { place: checker.place, tracing, hapax }
}

const spanOf = (n: number): string => String(n).padStart(16, '0')

function ping(n: number) {
  const traceparent = `00-${PARENT}-${spanOf(n)}-01`
  return { id: `m${n}`, source: '/sender', type: 'ping', data: { n }, traceparent }
}

describe.for(durableStores())('%s', (store) => {
  test('handlers of a group run in its span, and in that of their message with parents, also after their queries', async () => {
    for (const consume of ['link', 'parent'] as const) {
      const { hapax, tracing } = await open(store, consume)
      const seen: unknown[] = []
      const billing = hapax.consumer('billing', { group: { size: 10 } }).on(Ping, async ({ n }, { tx, publish }) => {
        for (let times = 0; times < 3; times++) {
          seen.push([n, currentSpan()])
          await tx.query('select 1')
        }
        await publish(Pong, { n })
        seen.push([n, currentSpan()])
      })
      hapax.consumer('audit').on(Pong, () => {})
      // Twice: the first group shows that the handlers may overlap.
      for (const from of [1, 6]) {
        const messages = Array.from({ length: 5 }, (_, index) => ping(from + index))
        const outcomes = await billing.handleMany(messages)
        expect(outcomes.map(({ status }) => status)).toEqual(Array.from({ length: 5 }, () => 'processed'))
      }
      const groups = tracing.named('process')
      expect(groups.map(({ links }) => links.map(({ to }) => to))).toEqual([
        [1, 2, 3, 4, 5].map(spanOf),
        [6, 7, 8, 9, 10].map(spanOf),
      ])
      const handles = tracing.named('handle')
      const own = (n: number): string | undefined =>
        consume === 'link'
          ? groups[n <= 5 ? 0 : 1]?.id
          : handles.find(({ attributes }) => attributes['messaging.message.id'] === `m${n}`)?.id
      for (const [n, span] of seen as [number, string][]) expect([n, span]).toEqual([n, own(n)])
      expect(seen.length).toBe(40)
      expect(handles.length).toBe(consume === 'link' ? 0 : 10)
      expect(tracing.named('publish').map(({ parent }) => parent)).toEqual(
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((n) => own(n)),
      )
    }
  })

  test('local delivery links each message to its own request, and no handler sees a request', async () => {
    for (const watched of [true, false]) {
      const { hapax, tracing } = await open(store, 'link', watched)
      const carried = new Map<number, string | undefined>()
      const seen = new Set<unknown>()
      const billing = hapax.consumer('billing').on(Ping, async ({ n }, { tx, message }) => {
        seen.add(request.getStore())
        await tx.query('select 1')
        seen.add(request.getStore())
        carried.set(n, message.traceparent)
      })
      await using worker = hapax.worker({ consume: [billing] })
      await request.run('start', () => worker.start())
      const publish = (n: number): Promise<unknown> =>
        request.run(`request ${n}`, () =>
          tracing.inSpan(`request ${n}`, () =>
            hapax.transaction(async (tx) => {
              await tx.query('select 1')
              await hapax.publish(tx, Ping, { n })
              await tx.query('select 1')
            }),
          ),
        )
      await Promise.all(Array.from({ length: 12 }, (_, n) => publish(n)))
      await expect.poll(() => carried.size).toBe(12)
      await request.run('drain', () => worker.drain())
      expect(seen).toEqual(new Set([undefined]))
      if (!watched) continue
      const published = tracing.named('publish')
      for (const [n, traceparent] of carried) {
        const own = published.find(({ id }) => traceparent?.includes(id))
        expect(own?.parent).toBe(tracing.named(`request ${n}`)[0]?.id)
      }
      const links = tracing.named('process').flatMap((span) => span.links.map(({ to }) => to))
      expect(links.toSorted()).toEqual(published.map(({ id }) => id).toSorted())
      expect(Math.max(...tracing.sizes)).toBe(2)
    }
  })

  test('leased work, its effects and what it leaves to the settling transaction are one small trace', async () => {
    const { hapax, tracing } = await open(store)
    const seen: unknown[] = []
    const sms = hapax.leased('sms').on(Ping, async (_data, ctx) => {
      seen.push(currentSpan())
      await ctx.effect('send', async () => void seen.push(currentSpan()))
      seen.push(currentSpan())
      await ctx.publish(Pong, { n: 1 })
      ctx.complete(async (tx) => {
        await tx.query('select 1')
        seen.push(currentSpan())
      })
    })
    const carried: unknown[] = []
    const audit = hapax.consumer('audit').on(Pong, (_data, { message }) => void carried.push(message.traceparent))
    await sms.handle(ping(1))
    const [process] = tracing.named('process')
    const [effect] = tracing.named('effect')
    const [publish] = tracing.named('publish')
    const [settle] = tracing.named('settle')
    expect(seen).toEqual([process?.id, effect?.id, process?.id, settle?.id])
    expect([effect, publish, settle].map((span) => span?.parent)).toEqual([process?.id, process?.id, process?.id])
    await using worker = hapax.worker({ consume: [audit] })
    await worker.start()
    await worker.drain()
    // The context of the call, not that of the transaction in which it was written.
    expect(carried).toEqual([expect.stringContaining(`${process?.trace}-${publish?.id}-`)])
  })

  test('the attempt after a kill is linked to the publisher', async () => {
    const { hapax, tracing, place } = await open(store)
    const billing = hapax.consumer('billing').on(Ping, () => {})
    const child = new Child<{ readonly said: string }>(new URL('opentelemetry-child.ts', import.meta.url), place)
    onTestFinished(() => child.kill('SIGKILL'))
    expect(await child.next()).toEqual({ said: 'started' })
    await tracing.inSpan('request', () => hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 })))
    expect(await child.next()).toEqual({ said: 'handling' })
    child.kill('SIGKILL')
    await child.ended
    await using worker = hapax.worker({ consume: [billing], takeoverMs: 2_000, pollMs: 50 })
    await worker.start()
    await expect.poll(() => tracing.named('process').length, { timeout: 40_000 }).toBe(1)
    const [publish] = tracing.named('publish')
    const [process] = tracing.named('process')
    expect(process).toMatchObject({ parent: undefined, links: [{ to: publish?.id }], failed: false })
    expect(process?.attributes['hapax.outcome']).toBe('processed')
    expect(publish?.parent).toBe(tracing.named('request')[0]?.id)
  })
})

test.skipIf(withoutRedis())('redis: claimed work, its effects and its settling are one small trace', async () => {
  const tracing = Tracing.open()
  const client = new Redis(requireServer('redis'))
  onTestFinished(() => client.disconnect())
  const store = redis({ client, prefix: `traces-${randomUUID()}:` })
  const instrument = opentelemetry({ tracerProvider: tracing.provider })
  const hapax = createHapax({ store, logger: silentLogger, instrument })
  onTestFinished(() => hapax.close())
  const seen: unknown[] = []
  const sms = hapax.leased('sms', { retry: { attempts: 1 } }).on(Ping, async ({ n }, ctx) => {
    await ctx.effect('send', async () => void seen.push([n, currentSpan(), request.getStore()]))
    if (n === 3) throw new Error('no')
  })
  // At the same time, so that they share requests to Redis.
  await Promise.all([1, 2, 3].map((n) => request.run(`request ${n}`, () => sms.handle(ping(n)))))
  await sms.handle(ping(1))
  const attempts = tracing.named('process')
  expect(attempts.map(({ links, failed }) => [links[0]?.to, failed]).toSorted()).toEqual([
    [spanOf(1), false],
    [spanOf(2), false],
    [spanOf(3), true],
  ])
  const effects = tracing.named('effect')
  for (const attempt of attempts) {
    const n = Number(attempt.links[0]?.to)
    const effect = effects.find(({ parent }) => parent === attempt.id)
    expect(seen).toContainEqual([n, effect?.id, `request ${n}`])
    const settled = tracing.named('settle').filter(({ parent }) => parent === attempt.id)
    expect(settled.length).toBe(n === 3 ? 0 : 1)
  }
  expect(Math.max(...tracing.sizes)).toBe(3)
})
