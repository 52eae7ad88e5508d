import { randomUUID } from 'node:crypto'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { redis } from 'hapax/redis'
import { webhook } from 'hapax/webhooks'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import {
  type Checker,
  countEffects,
  durableStores,
  insertEffect,
  makePlace,
  openStore,
  type Place,
  table,
} from '../support/databases.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { listedStores, requireServer } from '../support/servers.ts'
import { eventOf, forgeries, type Provider, providerOf, providers, requestOf } from '../support/webhook-providers.ts'

const Paid = defineMessage<unknown>('paid')
const WAYS = ['store', 'direct'] as const

/** How many rows hapax has written on behalf of messages. */
async function rowsOf(checker: Checker): Promise<number> {
  let rows = 0
  for (const name of ['receipts', 'inbox', 'failed'] as const) {
    const [row] = await checker.query(`select count(*) as n from ${table(checker.place, name)}`)
    rows += Number(row?.['n'])
  }
  return rows
}

/** Where no server listens. */
function nowhere({ url }: Place): string {
  const other = new URL(url)
  other.host = '127.0.0.1:1'
  return other.href
}

async function world(checker: Checker, provider: Provider, receive: 'store' | 'direct') {
  const { place } = checker
  const hapax = createHapax({ store: await openStore(place), source: '/test', logger: silentLogger })
  const billing = hapax.consumer('billing').on(Paid, async (_, { tx, message }) => {
    await tx.query(insertEffect(place, 'billing', message.id))
  })
  return { hapax, feed: billing.from(webhook(provider.scheme(provider.secrets[0]), { receive })) }
}

describe.each(durableStores())('webhooks on %s', (store) => {
  it('that were forged leave no row, whatever the provider', async () => {
    await using checker = await makePlace(store)
    const hapax = createHapax({ store: await openStore(checker.place), source: '/test', logger: silentLogger })
    for (const [index, provider] of providers.entries()) {
      const billing = hapax.consumer(`billing ${index}`).on(Paid, () => {})
      const { handler } = billing.from(webhook(provider.scheme(provider.secrets[0])))
      for (const [forgery, sent] of forgeries(provider, 'evt_1')) {
        const { status } = await handler(requestOf(sent))
        expect([provider.name, forgery, status]).toEqual([
          provider.name,
          forgery,
          expect.toSatisfy((is) => is === 400 || is === 401),
        ])
      }
    }
    expect(await rowsOf(checker)).toBe(0)
    await hapax.close()
  })

  it.each(WAYS)('take effect once each, of three copies that come together and later (%s)', async (receive) => {
    await using checker = await makePlace(store)
    const provider = providerOf('standard-webhooks')
    const { hapax, feed } = await world(checker, provider, receive)
    const ids = Array.from({ length: 10 }, () => randomUUID())
    const send = async (id: string): Promise<number> => (await feed.handler(requestOf(eventOf(provider, id)))).status
    const answers = await Promise.all([...ids, ...ids.toReversed()].map(send))
    const worker = hapax.worker({ consume: [feed], pollMs: 50 })
    await worker.start()
    await worker.drain()
    answers.push(...(await Promise.all(ids.map(send))))
    await worker.drain()
    // Two copies of one message at the same time: one may be told to come again.
    expect(answers.filter((status) => status !== 200 && status !== 503)).toEqual([])
    expect(answers.slice(20)).toEqual(new Array(10).fill(200))
    const effects = await countEffects(checker)
    expect([effects.size, new Set(effects.values())]).toEqual([10, new Set([1])])
    await hapax.close()
  })

  it.each(WAYS)('that are authentic and no JSON are in the failed store, once (%s)', async (receive) => {
    await using checker = await makePlace(store)
    const provider = providerOf('stripe')
    const { hapax, feed } = await world(checker, provider, receive)
    const body = Uint8Array.of(0x7b, 0xff, 0x00)
    const sent = provider.sign({ id: '', type: '', body, nowMs: Date.now(), secret: provider.secrets[0] })
    for (const _ of ['first', 'again']) expect((await feed.handler(requestOf(sent))).status).toBe(200)
    const [failed, ...others] = await hapax.failed.list({ consumer: 'billing' })
    expect([failed?.reason, failed?.message.source, others.length]).toEqual(['undecodable', 'stripe', 0])
    await hapax.close()
  })

  it('can feed a leased consumer', async () => {
    await using checker = await makePlace(store)
    const provider = providerOf('slack')
    const hapax = createHapax({ store: await openStore(checker.place), source: '/test', logger: silentLogger })
    const calls: string[] = []
    const bot = hapax.leased('bot').on(Paid, async (_, ctx) => {
      await ctx.effect('reply', async () => void calls.push(ctx.message.id))
    })
    const [now, later] = WAYS.toReversed().map((receive) =>
      bot.from(webhook(provider.scheme(provider.secrets[0]), { receive })),
    )
    const send = async (feed: typeof now, id: string) => (await feed?.handler(requestOf(eventOf(provider, id))))?.status
    expect([await send(now, 'a'), await send(now, 'a'), calls]).toEqual([200, 200, ['a']])
    expect([await send(later, 'b'), await send(later, 'b'), calls]).toEqual([200, 200, ['a']])
    const worker = hapax.worker({ consume: later === undefined ? [] : [later], pollMs: 50 })
    await worker.start()
    await worker.drain()
    expect(calls).toEqual(['a', 'b'])
    await hapax.close()
  })
})

describe.each(durableStores().filter((name) => name !== 'sqlite'))('webhooks while %s is away', (store) => {
  it.each(WAYS)('get a 503, and a 200 when they come again (%s)', async (receive) => {
    await using checker = await makePlace(store)
    const provider = providerOf('github')
    const scheme = provider.scheme(provider.secrets[0])
    const away = await openStore(checker.place, { url: nowhere(checker.place) })
    const lost = createHapax({ store: away, source: '/test', logger: silentLogger })
    const { handler } = lost
      .consumer('billing')
      .on(Paid, () => {})
      .from(webhook(scheme, { receive }))
    const response = await handler(requestOf(eventOf(provider, 'a')))
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5'])
    expect(await response.text()).not.toMatch(/127\.0\.0\.1|ECONN|sql/i)
    const { hapax, feed } = await world(checker, provider, 'direct')
    expect((await feed.handler(requestOf(eventOf(provider, 'a')))).status).toBe(200)
    expect(await countEffects(checker)).toEqual(new Map([['billing a', 1]]))
    await Promise.all([lost.close(), hapax.close()])
  })
})

describe.runIf(listedStores().includes('redis'))('webhooks on redis', () => {
  const open = (prefix: string) =>
    createHapax({ store: redis({ url: requireServer('redis'), prefix }), logger: silentLogger })

  it('that were forged leave no key, whatever the provider', async () => {
    const prefix = freshPrefix()
    const hapax = open(prefix)
    for (const [index, provider] of providers.entries()) {
      const { handler } = hapax
        .leased(`bot ${index}`)
        .on(Paid, () => {})
        .from(webhook(provider.scheme(provider.secrets[0])))
      for (const [forgery, sent] of forgeries(provider, 'evt_1')) {
        const { status } = await handler(requestOf(sent))
        expect([provider.name, forgery, status]).toEqual([
          provider.name,
          forgery,
          expect.toSatisfy((is) => is === 400 || is === 401),
        ])
      }
    }
    const client = new Redis(requireServer('redis'))
    expect(await client.keys(`${prefix}*`)).toEqual([])
    client.disconnect()
    await hapax.close()
  })

  it.each(providers)('of $name take effect once, and come again after a failure', async (provider) => {
    const hapax = open(freshPrefix())
    const [calls, attempts]: [string[], string[]] = [[], []]
    const bot = hapax.leased('bot', { retry: { minDelayMs: 0 } }).on(Paid, async (_, ctx) => {
      attempts.push(ctx.message.id)
      if (ctx.message.id === 'b' && ctx.attempt === 1) throw new Error('not now')
      await ctx.effect('reply', async () => void calls.push(ctx.message.id))
    })
    const { handler } = bot.from(webhook(provider.scheme(provider.secrets[0])))
    const send = async (id: string) => (await handler(requestOf(eventOf(provider, id)))).status
    expect([await send('a'), await send('a')]).toEqual([200, 200])
    expect([await send('b'), await send('b'), await send('b')]).toEqual([503, 200, 200])
    expect([calls, attempts]).toEqual([
      ['a', 'b'],
      ['a', 'b', 'b'],
    ])
    await hapax.close()
  })

  it('cannot be stored, because there is no inbox', () => {
    const { scheme, secrets } = providerOf('slack')
    const bot = open(freshPrefix()).leased('bot')
    expect(() => bot.from(webhook(scheme(secrets[0]), { receive: 'store' }))).toThrow('a store that has no inbox')
  })
})
