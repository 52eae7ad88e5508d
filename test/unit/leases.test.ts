import { setImmediate } from 'node:timers/promises'
import { createHapax, defineMessage, HapaxError, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { expect, it } from 'vitest'
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
