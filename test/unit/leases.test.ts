import { setImmediate } from 'node:timers/promises'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { expect, it } from 'vitest'
import { altered } from '../../src/testing/altered.ts'

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
