import { redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { ERROR, stored } from '../../src/testing/claims/world.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { requireServer } from '../support/servers.ts'

/** A message with a call that was made, whose journal is not on this node: its slot is being moved, or the key was evicted. */
async function halfThere() {
  const plain = new Redis(requireServer('redis'))
  const prefix = freshPrefix()
  const store = redis({ client: plain, prefix })
  const message = stored('a')
  const options = { token: crypto.randomUUID(), leaseMs: 60_000, alone: true }
  const [claimed] = await store.claims.claim('sms', [message], options)
  if (claimed?.kind !== 'ours') return expect.fail('it is free')
  const { lease } = claimed
  const effect = { consumer: 'sms', messageKey: message.messageKey, name: 'send' }
  await store.journal.begin(lease, 60_000, effect, false)
  const [more = ''] = await plain.keys(`${prefix}*:more`)
  const claim = more.slice(0, -':more'.length)
  const value = (): Promise<string | null> => plain.get(claim)
  await plain.del(more)
  return { store, lease, effect, message, value, [Symbol.dispose]: () => plain.disconnect() }
}

type Half = Awaited<ReturnType<typeof halfThere>>

const failure = { attempts: 1, reason: 'permanent', error: ERROR, entry: '{}', retentionMs: 1_000 } as const

// Each call is retried for some seconds, because the other half may still be moving.
it.concurrent.for<readonly [string, (half: Half) => Promise<unknown>]>([
  ['settled', ({ store, lease }) => store.claims.settle([lease], 60_000)],
  [
    'released',
    ({ store, lease }) => store.claims.release(lease, { attempts: 1, delayMs: 0, error: ERROR, entry: '{}' }),
  ],
  ['failed', ({ store, lease, message }) => store.claims.fail('sms', lease, { message, ...failure })],
  ['given a call', ({ store, lease, effect }) => store.journal.begin(lease, 60_000, effect, false)],
  [
    'given the result of a call',
    ({ store, lease, effect }) => store.journal.end(lease, effect, { state: 'done', result: '1', error: null }),
  ],
  ['asked for its calls', ({ store, effect }) => store.journal.of('sms', effect.messageKey)],
])('B9: a message with one half missing is not %s, and stays unchanged', async ([, use]) => {
  using half = await halfThere()
  const before = await half.value()
  expect(before).toContain(half.lease.token)
  await expect(use(half)).rejects.toMatchObject({ code: 'store-unavailable' })
  expect(await half.value()).toBe(before)
})
