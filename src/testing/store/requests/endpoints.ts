import assert from 'node:assert/strict'
import type { Audit, Endpoint } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import type { World } from '../world.ts'

const ADDED: Audit = { actor: 'ada', action: 'add', note: 'for a partner' }
const CHANGED: Audit = { actor: 'bob', action: 'change' }

function endpoint(id: string, relay = 'partners'): Omit<Endpoint, 'createdAt' | 'changedAt'> {
  return {
    ...{ id, relay, url: `https://example.com/hooks?for=${id}`, types: ['order.placed', 'invoice.*'] },
    ...{ secrets: [{ secret: 'whsec_c2VjcmV0', until: null }], enabled: true, reason: null, note: null },
  }
}

async function audits(world: World, id: string): Promise<readonly (readonly string[])[]> {
  const traces = await world.store.admin.trace(id)
  return traces.flatMap((each) => (each.where === 'audit' ? [[each.action, each.actor, each.consumer]] : []))
}

/** What was written, without the times. */
function written({ createdAt: _, changedAt: __, ...rest }: Endpoint): object {
  return rest
}

export const endpoints: readonly Case[] = [
  {
    name: 'an endpoint is added once, under an id of its own, and audited',
    run: async (world) => {
      const { endpoints: all } = world.store
      assert.equal(await all.add(endpoint('ep-1'), ADDED), true)
      const added = await all.list()
      const second = { ...endpoint('ep-1'), secrets: [{ secret: 'whsec_b3RoZXI=', until: null }] }
      assert.equal(await all.add({ ...second, url: 'https://example.org' }, ADDED), false)
      assert.deepEqual(await all.list(), added)
      const [only, ...more] = added
      assert.deepEqual([only && written(only), more], [endpoint('ep-1'), []])
      // A database may look at its clock twice.
      assert.ok(only && Math.abs(only.changedAt.getTime() - only.createdAt.getTime()) < 60_000)
      assert.deepEqual(await audits(world, 'ep-1'), [['add', 'ada', 'partners']])
    },
  },
  {
    name: 'of two that add an endpoint with the same id at once, one does',
    run: async (world) => {
      const rivals = ['whsec_YQ==', 'whsec_Yg==', 'whsec_Yw=='].map((secret) =>
        world.store.endpoints.add({ ...endpoint('ep-1'), secrets: [{ secret, until: null }] }, ADDED),
      )
      assert.deepEqual((await Promise.all(rivals)).filter(Boolean).length, 1)
      assert.equal((await world.store.endpoints.list()).length, 1)
      assert.equal((await audits(world, 'ep-1')).length, 1)
    },
  },
  {
    name: 'endpoints are listed by relay and id, those of one relay or all',
    run: async (world) => {
      const { endpoints: all } = world.store
      for (const [id, relay] of [
        ['b', 'partners'],
        ['a', 'shops'],
        ['a2', 'partners'],
        ['B', 'partners'],
      ] as const) {
        await all.add(endpoint(id, relay), ADDED)
      }
      const ids = async (relay?: string): Promise<readonly string[]> => (await all.list(relay)).map(({ id }) => id)
      assert.deepEqual(await ids(), ['B', 'a2', 'b', 'a'])
      assert.deepEqual(await ids('partners'), ['B', 'a2', 'b'])
      assert.deepEqual(await ids('nobody'), [])
      const looked = await all.look()
      assert.deepEqual(
        looked,
        (await all.list()).map(({ secrets: _, ...rest }) => rest),
      )
      assert.ok(looked.every((each) => !('secrets' in each)))
    },
  },
  {
    name: 'a change changes what it names, is audited, and leaves the rest',
    run: async (world) => {
      const { endpoints: all } = world.store
      await all.add(endpoint('ep-1'), ADDED)
      await all.add(endpoint('ep-2'), ADDED)
      const until = new Date('2026-12-24T18:00:00.123Z')
      const secrets = [
        { secret: 'whsec_bmV3', until: null },
        { secret: 'whsec_c2VjcmV0', until },
      ]
      assert.equal(await all.change('ep-1', { secrets, types: 'all' }, CHANGED), true)
      assert.equal(await all.change('ep-1', { enabled: false, reason: 'gone' }, CHANGED), true)
      const [first, second] = await all.list()
      const expected = { ...endpoint('ep-1'), secrets, types: 'all', enabled: false, reason: 'gone' }
      assert.deepEqual(first && written(first), expected)
      assert.deepEqual(second && written(second), endpoint('ep-2'))
      assert.ok(first && first.changedAt.getTime() >= first.createdAt.getTime())
      assert.equal(await all.change('ep-1', { enabled: true, reason: null, note: 'back' }, CHANGED), true)
      const [again] = await all.list()
      assert.deepEqual([again?.enabled, again?.reason, again?.note], [true, null, 'back'])
      assert.deepEqual(
        (await audits(world, 'ep-1')).map(([action]) => action),
        ['add', 'change', 'change', 'change'],
      )
      assert.equal(await all.change('nobody', { enabled: false }, CHANGED), false)
      assert.deepEqual(await audits(world, 'nobody'), [])
    },
  },
  {
    name: 'a removed endpoint is gone, and its id is free',
    run: async (world) => {
      const { endpoints: all } = world.store
      await all.add(endpoint('ep-1'), ADDED)
      assert.equal(await all.remove('ep-1', { actor: 'eve', action: 'remove' }), true)
      assert.equal(await all.remove('ep-1', { actor: 'eve', action: 'remove' }), false)
      assert.deepEqual(await all.list(), [])
      assert.equal(await all.add(endpoint('ep-1', 'shops'), ADDED), true)
      assert.deepEqual(await audits(world, 'ep-1'), [
        ['add', 'ada', 'partners'],
        ['remove', 'eve', 'partners'],
        ['add', 'ada', 'shops'],
      ])
    },
  },
  {
    name: 'any text comes back as it was',
    run: async (world) => {
      const odd = {
        ...endpoint('ep "1" é'),
        url: `https://example.com/${'x'.repeat(4_000)}?q=é`,
        types: ['order.*', 'naïve "type"', '中文'],
        reason: `it's "gone"; nul \u0000 \\ 中文`,
        note: '',
      }
      assert.equal(await world.store.endpoints.add(odd, ADDED), true)
      const [found] = await world.store.endpoints.list()
      assert.deepEqual(found && written(found), odd)
      assert.equal(await world.store.endpoints.change(odd.id, { types: [] }, CHANGED), true)
      assert.deepEqual((await world.store.endpoints.list())[0]?.types, [])
    },
  },
]
