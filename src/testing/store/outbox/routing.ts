// Where messages go: relays and local consumers in one hapax.

import assert from 'node:assert/strict'
import { silentLogger } from '../../../base/index.ts'
import type { PublishOptions } from '../../../message/index.ts'
import { defineMessage, type MessageType, type Place } from '../../../message/index.ts'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { lossy, TestDestination } from '../doubles.ts'
import { type AnyHapax, assertRejects, type Count, gate, Pong, type Reader, type Tx, type World } from '../world.ts'

/** Messages for local consumers, and messages for partners. Both are of one key. */
const Inner: MessageType<Count> = defineMessage<Count>('ping', { key: () => 'k', delivery: 'local' })
const Outer: MessageType<Count> = defineMessage<Count>('pong', { key: () => 'k', relay: 'partners' })

const ownOnly: Case['skip'] = ({ ownTransactions }) =>
  ownTransactions ? undefined : 'it has no transactions of your own'

/** A hapax that sends by relays, and a local consumer of it. */
function mixed(world: World, hapax: AnyHapax = world.hapax()): Reader {
  return world.reader(({ tx, message }) => world.database.effect(tx, message.id), { hapax, order: 'wait' })
}

/** Where a message is: the relay whose outbox has it, or `local`. */
async function placeOf({ store }: World, id: string): Promise<string | undefined> {
  const traces = await store.admin.trace(id)
  const found = traces.flatMap((trace) => {
    if (trace.where === 'outbox') return [trace.relay]
    return trace.where === 'inbox' ? ['local'] : []
  })
  assert.ok(found.length < 2, `${id} is in ${found}`)
  return found[0]
}

async function placesOf(world: World, ids: readonly string[]): Promise<readonly (string | undefined)[]> {
  return Promise.all(ids.map((id) => placeOf(world, id)))
}

/** What is said of a message, by whom, and where it goes then. */
interface Rule {
  readonly publish?: Place
  readonly type?: Place
  readonly route?: Place
  readonly hapax?: Place
  readonly goes: string
}

const RULES: readonly Rule[] = [
  { goes: 'default' },
  { hapax: { relay: 'own' }, goes: 'own' },
  { hapax: { delivery: 'local' }, goes: 'local' },
  { route: { relay: 'routed' }, goes: 'routed' },
  { route: { delivery: 'local' }, goes: 'local' },
  { route: {}, hapax: { relay: 'own' }, goes: 'own' },
  { route: { delivery: 'relay' }, hapax: { delivery: 'local' }, goes: 'default' },
  { type: { relay: 'typed' }, route: { delivery: 'local' }, goes: 'typed' },
  { type: { delivery: 'local' }, route: { relay: 'routed' }, goes: 'local' },
  { type: { delivery: 'relay' }, route: { relay: 'routed' }, hapax: { delivery: 'local' }, goes: 'routed' },
  { publish: { relay: 'named' }, type: { delivery: 'local' }, hapax: { delivery: 'local' }, goes: 'named' },
  { publish: { delivery: 'local' }, type: { relay: 'typed' }, route: { relay: 'routed' }, goes: 'local' },
  { publish: { delivery: 'relay' }, type: { relay: 'typed' }, hapax: { delivery: 'local' }, goes: 'typed' },
  { publish: { delivery: 'relay' }, type: { delivery: 'local' }, hapax: { relay: 'own' }, goes: 'own' },
]

/** Publishes one message of each rule, in whichever transaction. */
async function publishByRules(world: World, inTransaction: (work: (tx: Tx) => Promise<unknown>) => Promise<unknown>) {
  for (const [index, { publish = {}, type = {}, route, hapax: said = {} }] of RULES.entries()) {
    const hapax = world.hapax({ ...said, ...(route && { route: () => route }) })
    hapax.consumer('billing').on(Pong, () => {})
    const Typed = defineMessage<Count>('pong', type)
    await inTransaction((tx) => hapax.publish(tx, Typed, { n: 1 }, { id: `rule ${index}`, ...publish }))
  }
  const ids = RULES.map((_, index) => `rule ${index}`)
  const expected = RULES.map(({ goes }) => goes)
  assert.deepEqual(await placesOf(world, ids), expected)
}

const deciding: readonly Case[] = [
  {
    name: 'the publish says where a message goes, then its type, then the route, then createHapax',
    run: async (world) => {
      const hapax = world.hapax()
      await publishByRules(world, (work) => hapax.transaction(work))
    },
  },
  {
    name: "the same in the user's own transaction",
    skip: ownOnly,
    run: (world) => publishByRules(world, (work) => world.database.own(work)),
  },
  {
    name: 'the route sees the attributes of the message, and is not asked where others have decided',
    run: async (world) => {
      const seen: object[] = []
      const hapax = world.hapax({ route: (message) => void seen.push(message) })
      mixed(world, hapax)
      const options = { id: 'a', subject: 'orders/1', headers: { tenant: 'acme' }, correlationId: 'c' } as const
      await hapax.transaction(async () => {
        await hapax.publish(Pong, { n: 1 }, options)
        await hapax.publish(Pong, { n: 1 }, { relay: 'partners' })
        await hapax.publishMany([Inner.of({ n: 1 }), Outer.of({ n: 1 })])
      })
      assert.equal(seen.length, 1)
      assert.partialDeepStrictEqual(seen[0], { ...options, source: '/test', type: 'pong', key: 'key 1' })
    },
  },
  {
    name: 'a route that fails, or returns what is no place, refuses the publish and leaves the transaction usable',
    run: async (world) => {
      const wrong = [
        { relay: '' },
        { relay: 'a', delivery: 'local' },
        { to: 'a' },
        Promise.resolve({}),
        'partners',
        null,
      ]
      for (const place of wrong) {
        const hapax = world.hapax({ route: () => place as never })
        await hapax.transaction(async () => {
          await assertRejects(hapax.publish(Pong, { n: 1 }), 'invalid-option')
          await hapax.publish(Outer, { n: 1 })
        })
      }
      const hapax = world.hapax({
        route: () => {
          throw new Error('no route')
        },
      })
      await hapax.transaction(() => assert.rejects(hapax.publish(Pong, { n: 1 }), /no route/))
      assert.equal((await world.database.outbox()).length, wrong.length)
    },
  },
]

const ORDER: readonly PublishOptions[] = Array.from({ length: 30 }, (_, index) => ({ id: `m${index}` }))
const DRAFTS = ORDER.map((options, index) => (index % 3 === 0 ? Inner : Outer).of({ n: index }, options))
const [INNER, OUTER] = [0, 1].map((outer) =>
  ORDER.flatMap(({ id = '' }, index) => ((index % 3 === 0) === !outer ? [id] : [])),
)

/** All of them are where they belong, in order, and a worker takes both. */
async function assertMixed(world: World, reader: Reader): Promise<void> {
  assert.deepEqual(await world.database.outbox(), OUTER)
  const destination = new TestDestination()
  const worker = await world.worker(reader, { relays: { partners: destination } })
  await worker.drain()
  assert.deepEqual(destination.arrived, OUTER)
  assert.deepEqual(reader.calls, INNER)
  await world.assertEffects(INNER ?? [])
}

const together: readonly Case[] = [
  {
    name: 'one publishMany writes to relays and to local consumers, each in order, or nothing',
    run: async (world) => {
      const reader = mixed(world)
      const { hapax } = reader
      const given = hapax.transaction(async (tx) => {
        await hapax.publishMany(tx, DRAFTS)
        throw new Error('given up')
      })
      await assert.rejects(given, /given up/)
      assert.deepEqual(await placesOf(world, ['m0', 'm1']), [undefined, undefined])
      const published = await hapax.transaction((tx) => hapax.publishMany(tx, DRAFTS))
      assert.deepEqual(published, ORDER)
      await assertMixed(world, reader)
    },
  },
  {
    name: "so it does in the user's own transaction",
    skip: ownOnly,
    run: async (world) => {
      const reader = mixed(world)
      const { hapax } = reader
      const given = world.database.own(async (tx) => {
        await hapax.publishMany(tx, DRAFTS)
        throw new Error('given up')
      })
      await assert.rejects(given, /given up/)
      assert.deepEqual(await placesOf(world, ['m0', 'm1']), [undefined, undefined])
      assert.deepEqual(await world.database.own((tx) => hapax.publishMany(tx, DRAFTS)), ORDER)
      await assertMixed(world, reader)
    },
  },
  {
    name: 'so do publishes without ids, which are written last',
    run: async (world) => {
      const reader = mixed(world)
      const { hapax } = reader
      const ids = await hapax.transaction(async () => {
        const one = await hapax.publish(Outer, { n: 1 })
        const two = await hapax.publishMany([Inner.of({ n: 2 }), Outer.of({ n: 3 })])
        return [one, ...two].map(({ id }) => id)
      })
      assert.deepEqual(await placesOf(world, ids), ['partners', 'local', 'partners'])
      assert.deepEqual(await world.database.outbox(), [ids[0], ids[2]])
    },
  },
  {
    name: 'a local consumer that only the database knows is found beside a relay',
    run: async (world) => {
      await world.drain(mixed(world))
      const hapax = world.hapax()
      const drafts = [Outer.of({ n: 1 }), Inner.of({ n: 1 })]
      const ids = await hapax.transaction(async () => (await hapax.publishMany(drafts)).map(({ id }) => id))
      assert.deepEqual(await placesOf(world, ids), ['partners', 'local'])
    },
  },
  {
    name: 'A1: a commit that had no reply leaves each of them once',
    run: async (world) => {
      for (const cut of ['before', 'after'] as const) {
        const hapax = world.hapax({ store: lossy(world.store, cut) })
        hapax.consumer('audit').on(Pong, () => {})
        const reader = world.reader(
          async ({ publish }) => {
            await publish(Pong, { n: 1 }, { delivery: 'local' })
            await publish(Outer, { n: 1 }, { id: `outer ${cut}` })
          },
          { hapax, name: cut },
        )
        await reader.deliver(cut)
      }
      assert.deepEqual(await world.database.outbox(), ['outer before', 'outer after'])
      const { consumers } = await world.store.admin.status()
      assert.deepEqual(
        consumers.map(({ consumer, waiting }) => [consumer, waiting]).filter(([, waiting]) => waiting),
        [['audit', 2]],
      )
    },
  },
]

const refusing: readonly Case[] = [
  {
    name: 'only a local message can be a duplicate',
    run: async (world) => {
      const { hapax } = mixed(world)
      const drafts = [Outer.of({ n: 1 }, { id: 'o' }), Inner.of({ n: 1 }, { id: 'i' })]
      const publish = () =>
        hapax.transaction(async () => {
          await hapax.publish(Outer, { n: 1 }, { id: 'first' })
          return hapax.publishMany(drafts)
        })
      assert.deepEqual(await publish(), [{ id: 'o' }, { id: 'i' }])
      assert.deepEqual(await publish(), [{ id: 'o' }, { id: 'i', duplicate: true }])
      assert.deepEqual(await world.database.outbox(), ['first', 'o', 'first', 'o'])
    },
  },
  {
    name: 'if nobody handles the local ones, none of the list is published, and the transaction is usable',
    run: async (world) => {
      const hapax = world.hapax()
      const drafts = [Outer.of({ n: 1 }, { id: 'o' }), Inner.of({ n: 1 }, { id: 'i' })]
      await hapax.transaction(async () => {
        await assertRejects(hapax.publishMany(drafts), 'no-consumer')
        await hapax.publish(Outer, { n: 1 }, { id: 'other' })
      })
      assert.deepEqual(await world.database.outbox(), ['other'])
      if (!world.features.ownTransactions) return
      await world.database.own((tx) => assertRejects(hapax.publishMany(tx, drafts), 'no-consumer'))
      assert.deepEqual(await world.database.outbox(), ['other'])
    },
  },
  {
    name: "K2: a list for both writes neither if the user's own transaction has ended meanwhile",
    skip: ownOnly,
    run: async (world) => {
      const { hapax } = mixed(world)
      const checked = gate()
      const validate = async (value: unknown): Promise<{ value: unknown }> => {
        await checked.passed
        return { value }
      }
      const Slow = defineMessage('ping', { schema: { '~standard': { version: 1, vendor: 'test', validate } } })
      const drafts = [Outer.of({ n: 1 }, { id: 'o' }), Slow.of({ n: 1 }, { id: 'i', delivery: 'local' })]
      let publishing: Promise<unknown> = Promise.resolve()
      await world.database.own(async (tx) => {
        publishing = hapax.publishMany(tx, drafts)
        publishing.catch(() => {})
      })
      checked.open()
      await assertRejects(publishing, 'not-in-transaction')
      assert.deepEqual(await placesOf(world, ['o', 'i']), [undefined, undefined])
    },
  },
  {
    name: 'now overtakes no waiting message of its key at the same relay; elsewhere there is none to overtake',
    run: async (world) => {
      const { hapax } = mixed(world)
      await hapax.transaction(async () => {
        await hapax.publish(Outer, { n: 1 }, { id: 'waiting' })
        await hapax.publish(Inner, { n: 1 }, { id: 'local', now: true })
        await hapax.publish(Outer, { n: 1 }, { id: 'another relay', relay: 'others', now: true })
        await assertRejects(hapax.publish(Outer, { n: 1 }, { id: 'no', now: true }), 'invalid-option')
      })
      const ids = ['waiting', 'local', 'another relay', 'no']
      assert.deepEqual(await placesOf(world, ids), ['partners', 'local', 'others', undefined])
    },
  },
]

const noticing: readonly Case[] = [
  {
    name: 'workers of this process are told of both at once',
    run: async (world) => {
      const reader = mixed(world)
      const destination = new TestDestination()
      await world.worker(reader, { relays: { partners: destination }, pollMs: 600_000 })
      await reader.hapax.transaction(() => reader.hapax.publishMany([Inner.of({ n: 1 }), Outer.of({ n: 1 })]))
      await world.until(() => reader.calls.length === 1 && destination.arrived.length === 1)
    },
  },
  {
    name: 'a relay and a local type that no live worker serves are both warned of, also if they have one name',
    run: async (world) => {
      const warned: string[] = []
      const clock = new LeapingClock()
      const warn = ({ relay, type }: { readonly relay?: string; readonly type?: string }, text: string): void => {
        if (text.includes('no live worker')) warned.push(relay === undefined ? `type ${type}` : `relay ${relay}`)
      }
      const hapax = world.hapax({ clock, logger: { ...silentLogger, warn } })
      mixed(world, hapax)
      await hapax.transaction(async () => {
        await hapax.publishMany([Inner.of({ n: 1 }), Outer.of({ n: 1 }), Outer.of({ n: 1 }, { relay: 'ping' })])
      })
      clock.leap(120_000)
      await world.until(() => warned.length === 3)
      assert.deepEqual(warned.sort(), ['relay partners', 'relay ping', 'type ping'])
    },
  },
]

export const routing: readonly Case[] = [...deciding, ...together, ...refusing, ...noticing]
