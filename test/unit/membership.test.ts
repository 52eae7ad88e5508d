import { silentLogger } from 'hapax'
import type { StoreWorkers } from 'hapax/contracts'
import { expect, it } from 'vitest'
import { Membership, servesOf } from '../../src/worker/membership.ts'

it('the row of a worker says why a relay does not reach its destination, as the application redacts errors', async () => {
  const rows: string[] = []
  const store: StoreWorkers = {
    join: async ({ serves }) => void rows.push(serves),
    note: async () => [],
    bury: async () => 0,
    leave: async () => {},
    list: async () => [],
    look: async () => [],
  }
  const membership = new Membership({
    ...{ store, clock: { now: () => 0, monotonic: () => 0, after: () => () => {} }, logger: silentLogger },
    random: { number: () => 0, token: () => `worker-${rows.length}`, bytes: (count) => new Uint8Array(count) },
    redact: (text) => text.replace('rabbit-7.internal', '(host)'),
    outages: { during: (work) => work() },
    serves: { source: '/shop', consumers: new Map(), relays: ['default'], retention: new Map(), samples: false },
    takeoverMs: 15_000,
    inHand: () => ({ seqs: [], alone: false }),
    ...{ changed: () => {}, heard: () => {}, buried: () => {}, report: () => {} },
  })
  const failing = () => [...servesOf({ serves: rows.at(-1) ?? '' }).failing]
  await membership.join()
  await membership.failing(
    'default',
    new Error('no route to rabbit-7.internal by amqp://shop:s3cret@rabbit-7.internal'),
  )
  expect(failing()).toEqual([['default', 'no route to (host) by amqp://***@rabbit-7.internal']])
  await membership.failing('default', undefined)
  expect(failing()).toEqual([])
})
