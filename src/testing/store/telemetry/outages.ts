// What events say about the store and the broker being away, and about workers.

import assert from 'node:assert/strict'
import { HapaxError, type HapaxEvents } from '../../../base/index.ts'
import type { Confirmation } from '../../../contracts/index.ts'
import { altered } from '../../altered.ts'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { lossy, TestDestination } from '../doubles.ts'
import { type AnyHapax, type AnyStore, assertOutcome, assertRejects, Ping, type World } from '../world.ts'

/** The same store, which can go away. */
function leaving(store: AnyStore): { readonly store: AnyStore; away: boolean } {
  const gone = (): Promise<never> => Promise.reject(new HapaxError('store-unavailable', 'connection refused'))
  const run: AnyStore['transactions']['run'] = (options, opening, body) =>
    state.away ? gone() : store.transactions.run(options, opening, body)
  const look: AnyStore['workers']['look'] = (shares) => (state.away ? gone() : store.workers.look(shares))
  const note: AnyStore['workers']['note'] = (id, inHand, list) =>
    state.away ? gone() : store.workers.note(id, inHand, list)
  const state = { away: false, store: altered(store, { transactions: { run }, workers: { look, note } }) }
  return state
}

/** The names of events, in the order in which they came. */
function told<Name extends keyof HapaxEvents>(hapax: AnyHapax, names: readonly Name[]): string[] {
  const heard: string[] = []
  for (const name of names) hapax.events.on(name, () => heard.push(name))
  return heard
}

/** What became of unknown commits. */
function resolutions(hapax: AnyHapax): string[] {
  const heard: string[] = []
  hapax.events.on('commit-unknown', ({ messages }) => heard.push(`unknown ${messages.map(({ id }) => id).join(' ')}`))
  hapax.events.on('commit-resolved', ({ messages, resolved }) =>
    heard.push(`${resolved} ${messages.map(({ id }) => id).join(' ')}`),
  )
  return heard
}

const unavailable = (): Confirmation => ({ status: 'unavailable', error: new Error('not there') })

export const outages: readonly Case[] = [
  {
    name: 'an outage is told once, and its end once, however many deliveries it stops',
    run: async (world) => {
      const database = leaving(world.store)
      const hapax = world.hapax({ store: database.store })
      const heard = told(hapax, ['store-down', 'store-up'])
      const reader = world.reader(undefined, { hapax })
      assertOutcome(await reader.deliver('a'), 'processed')
      database.away = true
      for (const id of ['b', 'c']) await assertRejects(reader.deliver(id), 'store-unavailable')
      await assertRejects(reader.deliverMany(['d', 'e']), 'store-unavailable')
      await assertRejects(
        hapax.transaction(async () => {}),
        'store-unavailable',
      )
      assert.deepEqual(await reader.deliverMany([]), [])
      assert.deepEqual(heard, ['store-down'])
      database.away = false
      assertOutcome(await reader.deliver('b'), 'processed')
      assertOutcome(await reader.deliver('c'), 'processed')
      assert.deepEqual(heard, ['store-down', 'store-up'])
      database.away = true
      await assertRejects(reader.deliver('f'), 'store-unavailable')
      assert.deepEqual(heard, ['store-down', 'store-up', 'store-down'])
    },
  },
  {
    name: 'what had begun before an outage does not end it',
    run: async (world) => {
      const database = leaving(world.store)
      const hapax = world.hapax({ store: database.store })
      const heard = told(hapax, ['store-down', 'store-up'])
      const begun = Promise.withResolvers<void>()
      const ended = Promise.withResolvers<void>()
      const reader = world.reader(
        async () => {
          begun.resolve()
          await ended.promise
        },
        { hapax },
      )
      const slow = reader.deliver('slow')
      await begun.promise
      database.away = true
      await assertRejects(reader.deliver('b'), 'store-unavailable')
      ended.resolve()
      assertOutcome(await slow, 'processed')
      assert.deepEqual(heard, ['store-down'])
    },
  },
  {
    name: 'a worker tells of an outage and of its end as well, and that it starts, recovers and stops',
    run: async (world) => {
      const database = leaving(world.store)
      const hapax = world.hapax({ store: database.store })
      const heard = told(hapax, ['worker-started', 'worker-stopped', 'worker-recovered', 'store-down', 'store-up'])
      const reader = world.reader(undefined, { hapax })
      const worker = await world.worker(reader)
      database.away = true
      // A heartbeat may have told of the outage: only a worker whose round has failed recovers.
      await world.until(() => heard.includes('store-down') && !worker.ready)
      database.away = false
      await world.until(() => heard.includes('worker-recovered'))
      await worker.stop()
      await worker.stop()
      assert.deepEqual(heard, ['worker-started', 'store-down', 'store-up', 'worker-recovered', 'worker-stopped'])
    },
  },
  {
    name: 'heartbeats tell of the end of an outage while a worker does not look',
    run: async (world) => {
      const database = leaving(world.store)
      const looked = Promise.withResolvers<void>()
      let looks = true
      const look: AnyStore['workers']['look'] = async (shares) => {
        if (!looks) await looked.promise
        return database.store.workers.look(shares)
      }
      const hapax = world.hapax({ store: altered(database.store, { workers: { look } }) })
      const heard = told(hapax, ['store-down', 'store-up'])
      await world.worker(world.reader(undefined, { hapax }), { takeoverMs: 1_000 })
      database.away = true
      await world.until(() => heard.includes('store-down'))
      looks = false
      database.away = false
      await world.until(() => heard.includes('store-up'))
      looked.resolve()
    },
  },
  {
    name: 'A1: what became of an unknown commit is told once: of a delivery, of stored rows, of leased work',
    run: async (world) => {
      for (const [cut, resolved] of [
        ['after', 'committed'],
        ['before', 'not-committed'],
      ] as const) {
        const direct = world.reader(undefined, { hapax: world.hapax({ store: lossy(world.store, cut) }) })
        const heard = resolutions(direct.hapax)
        assertOutcome(await direct.deliver(`direct ${cut}`), 'processed')
        assert.deepEqual(heard, [`unknown direct ${cut}`, `${resolved} direct ${cut}`])

        await world.reader(undefined, { receive: 'store' }).deliver(`stored ${cut}`)
        const stored = world.reader(undefined, { hapax: world.hapax({ store: lossy(world.store, cut) }) })
        const ofStored = resolutions(stored.hapax)
        await world.drain(stored)
        assert.deepEqual(ofStored, [`unknown stored ${cut}`, `${resolved} stored ${cut}`])
        await assertLeased(world, cut, resolved)
      }
      await world.assertEffects(['direct after', 'direct before', 'stored after', 'stored before'])
    },
  },
  {
    name: 'A1: a commit whose outcome nobody learns is told as unresolved',
    run: async (world) => {
      const clock = new LeapingClock()
      const cut = lossy(world.store, 'after')
      let lost = false
      const run: AnyStore['transactions']['run'] = async (options, opening, body) => {
        if (!lost) {
          lost = true
          return cut.transactions.run(options, opening, body)
        }
        // Longer than an outcome is looked for.
        clock.leap(60_000)
        throw new HapaxError('store-unavailable', 'connection refused')
      }
      const hapax = world.hapax({ clock, store: altered(world.store, { transactions: { run } }) })
      const heard = resolutions(hapax)
      const outage = told(hapax, ['store-down'])
      await assertRejects(world.reader(undefined, { hapax }).deliver('a'), 'commit-unknown')
      assert.deepEqual(heard, ['unknown a', 'unresolved a'])
      assert.deepEqual(outage, ['store-down'])
    },
  },
  {
    name: 'D30: a relay tells that its broker is back, and for how long it was away',
    run: async (world) => {
      const clock = new LeapingClock()
      const hapax = world.hapax({ clock })
      const back: HapaxEvents['relay-up'][] = []
      let away = true
      hapax.events.on('relay-up', (event) => back.push(event))
      const heard = told(hapax, ['relay-down', 'relay-up'])
      hapax.events.on('relay-down', ({ pauseMs }) => {
        away = heard.length < 3
        setImmediate(() => clock.leap(pauseMs))
      })
      const publish = (id: string): Promise<unknown> =>
        hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id }))
      await publish('a')
      const worker = await world.worker(
        { hapax },
        { relay: new TestDestination(() => (away ? unavailable() : { status: 'confirmed' })) },
      )
      await world.until(() => back.length > 0)
      await publish('b')
      await worker.drain()
      assert.deepEqual(heard, ['relay-down', 'relay-down', 'relay-down', 'relay-up'])
      assert.deepEqual([back[0]?.relay, back[0]?.destination], ['default', 'a test topic'])
      assert.ok((back[0]?.downMs ?? 0) > 0)
    },
  },
]

async function assertLeased(world: World, cut: 'before' | 'after', resolved: string): Promise<void> {
  await world.reader(undefined, { name: 'sender', receive: 'store' }).deliver(`leased ${cut}`)
  const hapax = world.hapax({ store: lossy(world.store, cut) })
  const heard = resolutions(hapax)
  await world.drain({ hapax, consumer: hapax.leased('sender').on(Ping, () => {}) })
  assert.deepEqual(heard, [`unknown leased ${cut}`, `${resolved} leased ${cut}`])
}
