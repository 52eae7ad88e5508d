import assert from 'node:assert/strict'
import type { Finding } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import type { World } from '../world.ts'
import { DAY_MS, leasedRequest, ORDERS, request, take } from './request.ts'

async function findings(world: World, check: string, options = {}): Promise<readonly Finding[]> {
  const found = await world.hapax().doctor(options)
  return found.filter((each) => each.check === check && each.level !== 'ok')
}

export const looks: readonly Case[] = [
  {
    name: 'a scope is listed with its receipts, and needs no worker',
    run: async (world) => {
      for (const id of ['a', 'b']) await take(world, request(id))
      const { consumers, tables } = await world.store.admin.status({ exact: true })
      assert.deepEqual(
        consumers.map(({ consumer, waiting, receipts }) => [consumer, waiting, receipts]),
        [[ORDERS, 0, 2]],
      )
      assert.equal(tables.find(({ table }) => table === 'responses')?.rows, 2)
      assert.deepEqual(await findings(world, 'workers'), [])
      assert.deepEqual(await findings(world, 'growth', { maxAgeMs: { receipts: 1, responses: 1 } }), [])
      const { rows } = await world.hapax().receipts.list({ consumer: ORDERS })
      assert.deepEqual(rows.map(({ id, type }) => [id, type]).sort(), [
        ['a', 'http.request'],
        ['b', 'http.request'],
      ])
    },
  },
  {
    name: 'doctor says nothing of a request that somebody works on, and warns once nobody does',
    run: async (world) => {
      const { seq, leaseToken, fence } = await leasedRequest(world, request('a'))
      assert.deepEqual(await findings(world, 'workers'), [])
      await world.store.inbox.renew([{ seq, token: leaseToken ?? '', fence }], 0)
      let found: readonly Finding[] = []
      await world.until(async () => {
        found = await findings(world, 'workers')
        return found.length > 0
      })
      assert.deepEqual(
        found.map(({ level, message }) => [level, message]),
        [['warning', `1 request of ${ORDERS} is not finished, and no live worker serves it`]],
      )
    },
  },
  {
    name: 'doctor warns of responses that expired long ago',
    run: async (world) => {
      await take(world, request('a'), { keepMs: -2 * DAY_MS })
      await take(world, request('b'), { keepMs: DAY_MS })
      const [old, ...more] = await findings(world, 'growth')
      assert.deepEqual([old?.message, more], ['responses that expired 2 days ago are still there', []])
      assert.equal(await world.store.responses.expire(10), 1)
      assert.deepEqual(await findings(world, 'growth'), [])
    },
  },
]
