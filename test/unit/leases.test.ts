import { setImmediate } from 'node:timers/promises'
import { createHapax, defineMessage, HapaxError, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { expect, it, onTestFinished, vi } from 'vitest'
import { messageKey } from '../../src/message/index.ts'
import { altered } from '../../src/testing/altered.ts'
import { StillClock } from '../support/still-clock.ts'

const Ping = defineMessage('ping')

it('B3: a message is not settled while leases are prolonged: that would have to wait for its transaction', async () => {
  const store = memory()
  const renewing = Promise.withResolvers<void>()
  const renewed = Promise.withResolvers<void>()
  let settling = false
  const watched = altered(store, {
    inbox: {
      renew: async (leases, leaseMs) => {
        renewing.resolve()
        await renewed.promise
        return store.inbox.renew(leases, leaseMs)
      },
    },
    transactions: {
      run: (options, opening, body) => {
        if (opening.kind === 'settle') settling = true
        return store.transactions.run(options, opening, body)
      },
    },
  })
  const hapax = createHapax({ store: watched, source: '/test', logger: silentLogger })
  const sms = hapax.leased('sms', { leaseMs: 100 }).on(Ping, () => renewing.promise)
  const handled = sms.handle({ id: 'a', source: '/sender', type: 'ping', data: {} })
  await renewing.promise
  for (let turn = 0; turn < 50; turn++) await setImmediate()
  expect(settling).toBe(false)
  renewed.resolve()
  expect(await handled).toMatchObject({ status: 'processed' })
  expect(settling).toBe(true)
  await hapax.close()
})

it('B3: a handler that runs for two and a half leases keeps its message, although every second renewal fails', async () => {
  const clock = new StillClock()
  const store = memory({ clock })
  const leaseMs = 60_000
  let renewals = 0
  const renew: typeof store.inbox.renew = (...args) => {
    renewals += 1
    if (renewals % 2 === 1) return Promise.reject(new HapaxError('store-unavailable', 'no answer'))
    return store.inbox.renew(...args)
  }
  const hapax = createHapax({
    store: altered(store, { inbox: { renew } }),
    source: '/test',
    logger: silentLogger,
    clock,
  })
  const [entered, go] = [Promise.withResolvers<AbortSignal>(), Promise.withResolvers<void>()]
  const sms = hapax.leased('sms', { leaseMs, maxDurationMs: 10 * leaseMs }).on(Ping, (_, { signal }) => {
    entered.resolve(signal)
    return go.promise
  })
  const handled = sms.handle({ id: 'a', source: '/sender', type: 'ping', data: {} })
  const signal = await entered.promise
  const seq = (await store.inbox.find('sms', messageKey('/sender', 'a'))) as string
  for (let step = 1; step <= 25; step++) {
    clock.pass(leaseMs / 10)
    // Another process would claim it as soon as the lease expired.
    expect(await store.inbox.lease([seq], crypto.randomUUID(), leaseMs), `after ${step} tenths`).toEqual([])
    for (let turn = 0; turn < 5; turn++) await setImmediate()
  }
  expect(signal.aborted).toBe(false)
  go.resolve()
  expect(await handled).toMatchObject({ status: 'processed' })
  await hapax.close()
})

/** A hapax on a pool of four, two of them for heartbeats. `settling` tells how many messages are being settled, and how many were at most. */
function onSmallPool(clock?: StillClock) {
  const store = memory(clock && { clock })
  Object.assign(store, { features: { ...store.features, pool: { max: 4, control: 2 } } })
  const go = Promise.withResolvers<void>()
  const settling = { now: 0, most: 0 }
  const watched = altered(store, {
    transactions: {
      run: async (options, opening, body) => {
        if (opening.kind !== 'settle') return store.transactions.run(options, opening, body)
        settling.now += 1
        settling.most = Math.max(settling.most, settling.now)
        await go.promise
        return store.transactions.run(options, opening, body).finally(() => {
          settling.now -= 1
        })
      },
    },
  })
  const hapax = createHapax({ store: watched, source: '/test', logger: silentLogger, ...(clock && { clock }) })
  onTestFinished(() => {
    go.resolve()
    return hapax.close()
  })
  return { store, hapax, settling, go: go.resolve }
}

it('B3: 130 messages that wait for a connection of a small pool to be settled keep their leases, and run once', async () => {
  const clock = new StillClock()
  const leaseMs = 60_000
  const { store, hapax, settling, go } = onSmallPool(clock)
  let calls = 0
  const consumers = Array.from({ length: 13 }, (_, index) =>
    hapax.leased(`provider${index}`, { leaseMs }).on(Ping, (_data, ctx) => {
      calls += 1
      ctx.complete(() => {})
    }),
  )
  const ids = Array.from({ length: 10 }, (_, index) => `m${index}`)
  const handled = consumers.flatMap((consumer) =>
    ids.map((id) => consumer.handle({ id, source: '/sender', type: 'ping', data: {} })),
  )
  await vi.waitFor(() => expect(calls).toBe(130))
  await vi.waitFor(() => expect(settling.now).toBe(2))
  const seqs = store.rows('hapax_inbox').map((row) => String(Reflect.get(row, 'seq')))
  expect(seqs.length).toBe(130)
  for (let step = 1; step <= 25; step++) {
    clock.pass(leaseMs / 10)
    for (let turn = 0; turn < 5; turn++) await setImmediate()
  }
  // Two are locked by their transactions. Another process would claim the others as soon as their leases expired.
  expect((await store.inbox.lease(seqs, crypto.randomUUID(), leaseMs)).length).toBeLessThanOrEqual(2)
  go()
  await Promise.all(handled)
  expect(settling.most).toBe(2)
  expect(calls).toBe(130)
})

it('B3: leased messages are settled on what the handlers of a worker leave of its pool', async () => {
  const { hapax, settling, go } = onSmallPool()
  const billing = hapax.consumer('billing', { concurrency: 1 }).on(Ping, () => {})
  const sms = hapax.leased('sms').on(Ping, () => {})
  const worker = hapax.worker({ consume: [billing, sms] })
  await worker.start()
  const handled = ['a', 'b', 'c'].map((id) => sms.handle({ id, source: '/sender', type: 'ping', data: {} }))
  await vi.waitFor(() => expect(settling.now).toBe(1))
  for (let turn = 0; turn < 50; turn++) await setImmediate()
  go()
  await Promise.all(handled)
  expect(settling.most).toBe(1)
})
