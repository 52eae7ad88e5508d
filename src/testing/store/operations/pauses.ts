import assert from 'node:assert/strict'
import type { Audit } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import { assertTexts, ODD } from './world.ts'

const PAUSED: Audit = { actor: 'ada', action: 'pause', note: 'the bank is down' }
const RESUMED: Audit = { actor: 'bob', action: 'resume' }

export const pauses: readonly Case[] = [
  {
    name: 'a consumer is paused once: who did it first, and why, stays',
    run: async (world) => {
      const { pauses: all } = world.store
      assert.deepEqual(await all.list(), [])
      assert.equal(await all.pause('inbox', 'billing', PAUSED), true)
      assert.equal(await all.pause('inbox', 'billing', { actor: 'eve', action: 'pause' }), false)
      const [pause, ...more] = await all.list()
      const { at, ...rest } = pause ?? { at: undefined }
      assert.deepEqual(rest, { origin: 'inbox', scope: 'billing', actor: 'ada', note: 'the bank is down' })
      assert.ok(at instanceof Date && Math.abs(at.getTime() - Date.now()) < 600_000)
      assert.deepEqual(more, [])
    },
  },
  {
    name: 'a consumer and a relay of the same name are paused one by one, and resumed',
    run: async (world) => {
      const { pauses: all } = world.store
      const names = async (): Promise<readonly string[]> =>
        (await all.list()).map(({ origin, scope }) => `${origin} ${scope}`)
      await all.pause('outbox', 'b', PAUSED)
      await all.pause('inbox', 'b', PAUSED)
      await all.pause('inbox', 'B', PAUSED)
      assert.deepEqual(await names(), ['inbox B', 'inbox b', 'outbox b'])
      assert.equal(await all.resume('inbox', 'b', RESUMED), true)
      assert.equal(await all.resume('inbox', 'b', RESUMED), false)
      assert.deepEqual(await names(), ['inbox B', 'outbox b'])
      assert.equal(await all.pause('inbox', 'b', { actor: 'eve', action: 'pause' }), true)
      assert.equal((await all.list()).find(({ actor }) => actor === 'eve')?.note, null)
    },
  },
  {
    name: 'of several people who pause, or resume, at once, one does',
    run: async (world) => {
      const { pauses: all } = world.store
      const people = ['ada', 'bob', 'eve', 'joe']
      const paused = await Promise.all(people.map((actor) => all.pause('inbox', 'x', { actor, action: 'pause' })))
      assert.equal(paused.filter(Boolean).length, 1)
      assert.equal((await all.list())[0]?.actor, people[paused.indexOf(true)])
      const resumed = await Promise.all(people.map((actor) => all.resume('inbox', 'x', { actor, action: 'resume' })))
      assert.equal(resumed.filter(Boolean).length, 1)
      assert.deepEqual(await all.list(), [])
    },
  },
  {
    name: 'the status shows what is paused, by whom and why',
    run: async (world) => {
      await world.store.pauses.pause('outbox', 'default', { actor: 'eve', action: 'pause' })
      await world.store.pauses.pause('inbox', 'billing', PAUSED)
      assert.deepEqual((await world.store.admin.status()).paused, await world.store.pauses.list())
      await world.store.pauses.resume('outbox', 'default', RESUMED)
      assert.deepEqual((await world.store.admin.status({ exact: true })).paused, await world.store.pauses.list())
    },
  },
  {
    name: 'any text of a pause comes back as it was',
    run: async (world) => {
      const scope = `${ODD}${'s'.repeat(150)}`
      const note = `${ODD}${'x'.repeat(10_000)}`
      const audit = { actor: ODD, action: 'pause', note } as const
      assert.equal(await world.store.pauses.pause('inbox', scope, audit), true)
      assert.equal(await world.store.pauses.pause('inbox', scope, audit), false)
      const [found] = await world.store.pauses.list()
      assertTexts(found?.scope, scope)
      assertTexts(found?.actor, ODD)
      assertTexts(found?.note, note)
      assert.deepEqual((await world.store.admin.status()).paused, await world.store.pauses.list())
      assert.equal(await world.store.pauses.resume('inbox', scope, RESUMED), true)
    },
  },
]
