import { randomUUID } from 'node:crypto'
import { createHapax, defineMessage, messageKey, silentLogger } from 'hapax'
import type { ClaimStore } from 'hapax/contracts'
import { redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { altered } from '../../src/testing/altered.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { requireServer } from '../support/servers.ts'

const DAY_MS = 86_400_000
const Ping = defineMessage<{ readonly n: number }>('ping')

function stored(id: string) {
  const [source, fingerprint] = ['/sender', '0123456789abcdef']
  const identity = { messageKey: messageKey(source, id), source, id, type: 'ping', fingerprint }
  return { ...identity, key: null, attributes: '{}', data: Buffer.from('{"n":1}') }
}

describe('what is asked of Redis at the same time', () => {
  let client: Redis
  let store: ClaimStore
  const scripts: string[] = []
  const prefix = freshPrefix()
  beforeAll(() => {
    client = new Redis(requireServer('redis'))
  })
  beforeEach(async () => {
    scripts.length = 0
    const call = (command: string, ...words: string[]) => {
      if (command === 'EVALSHA') scripts.push(words[1] as string)
      return client.call(command, ...words)
    }
    store = redis({ client: { call }, prefix })
    await claim('one', 'that', 'makes', 'the', 'scripts', 'known', randomUUID())
    scripts.length = 0
  })
  afterAll(() => client?.disconnect())

  const claim = (...ids: readonly string[]) =>
    store.claims.claim('sms', ids.map(stored), { token: randomUUID(), leaseMs: 30_000, alone: false })

  it('is asked in one call of a script, and everybody has their own answer', async () => {
    const ids = Array.from({ length: 10 }, () => randomUUID())
    const claims = await Promise.all(ids.map((id) => claim(id)))
    expect(scripts).toEqual(['10'])
    const leases = claims.flat().map((claimed) => (claimed.kind === 'ours' ? claimed.lease : expect.fail(claimed.kind)))
    expect(new Set(leases.map(({ token }) => token)).size).toBe(10)
    const [first, second, ...others] = leases as [(typeof leases)[0], (typeof leases)[0]]
    await store.claims.settle([first], DAY_MS)
    scripts.length = 0
    const stale = { ...second, token: randomUUID() }
    const settled = await Promise.all([[first], [stale], others].map((each) => store.claims.settle(each, DAY_MS)))
    expect(scripts).toEqual(['10'])
    expect(settled.map((each) => [...each])).toEqual([[first.seq], [], others.map(({ seq }) => seq)])
  })

  it('gives a message to one of those who claim it', async () => {
    const id = randomUUID()
    const others = Array.from({ length: 5 }, () => randomUUID())
    const claims = await Promise.all([claim(id), ...others.map((other) => claim(other, id)), claim(id)])
    const kinds = claims.map((each) => each.map(({ kind }) => kind).join())
    expect(kinds).toEqual(['ours', ...others.map(() => 'ours,busy'), 'busy'])
  })

  it('claims what nobody has, although somebody has another one of the group', async () => {
    const [done, busy, fresh] = [randomUUID(), randomUUID(), randomUUID()]
    const [claimed] = await claim(done)
    if (claimed?.kind === 'ours') await store.claims.settle([claimed.lease], DAY_MS)
    await claim(busy)
    const kinds = (await claim(done, fresh, busy)).map(({ kind }) => kind)
    expect(kinds).toEqual(['taken', 'ours', 'busy'])
  })

  it('lets the next handler run while the last one is being settled', async () => {
    const settling = Promise.withResolvers<void>()
    const slow = altered(store, {
      claims: {
        settle: async (leases, retentionMs) => {
          await settling.promise
          return store.claims.settle(leases, retentionMs)
        },
      },
    })
    const hapax = createHapax({ store: slow, source: '/test', logger: silentLogger })
    let calls = 0
    const sms = hapax.leased('slow', { concurrency: 1 }).on(Ping, () => {
      calls += 1
      if (calls === 2) settling.resolve()
    })
    const ping = () => ({ id: randomUUID(), source: '/sender', type: 'ping', data: { n: 1 } })
    const outcomes = await sms.handleMany([ping(), ping()])
    expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'processed'])
  })
})
