import assert from 'node:assert/strict'
import { atEachLevel, type Case } from '../case.ts'
import { AT_ONCE, assertOutcome, type Count, Ping, ping, statuses, type World } from '../world.ts'

const IDS = Array.from({ length: 10 }, (_, index) => `m${index}`)

/** A consumer of many pings: it writes the effects of all of them, and fails if one of them is `bad`. */
function manyReader(world: World, bad: string) {
  const hapax = world.hapax()
  const sizes: number[] = []
  const consumer = hapax.consumer('billing', { retry: AT_ONCE })
  consumer.onMany(Ping, async (items, { tx }) => {
    sizes.push(items.length)
    for (const { message } of items) await world.database.effect(tx, message.id)
    if (items.some(({ message }) => message.id === bad)) throw new Error('bad')
  })
  return { hapax, consumer, sizes }
}

const levels: readonly Case[] = [
  {
    name: 'processes a group in one transaction',
    run: async (world) => {
      const reader = world.reader(undefined, { group: { size: 10 } })
      assert.deepEqual(new Set(statuses(await reader.deliverMany(IDS))), new Set(['processed']))
      await world.assertEffects(IDS)
      assert.deepEqual(new Set(statuses(await reader.deliverMany(IDS))), new Set(['duplicate']))
      assert.equal(reader.calls.length, IDS.length)
    },
  },
  {
    name: 'one failing in a group of ten leaves nine processed',
    run: async (world) => {
      const reader = world.reader(
        async ({ tx, message }) => {
          await world.database.effect(tx, message.id)
          if (message.id === 'm4') throw new Error('bad')
        },
        { group: { size: 10 } },
      )
      const outcomes = await reader.deliverMany(IDS)
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        IDS.map((id) => (id === 'm4' ? 'retrying' : 'processed')),
      )
      await world.assertEffects(IDS.filter((id) => id !== 'm4'))
      await world.assertPlaces('m4', ['inbox', 'receipt'])
    },
  },
  {
    name: 'handlers that run together share their transaction; when one fails, the others are done without it',
    run: async (world) => {
      let running = 0
      let most = 0
      const reader = world.reader(
        async ({ tx, message }) => {
          most = Math.max(most, ++running)
          await world.database.effect(tx, message.id)
          running -= 1
          if (message.id === 'm4') throw new Error('bad')
        },
        { group: { size: 10, together: true } },
      )
      const outcomes = await reader.deliverMany(IDS)
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        IDS.map((id) => (id === 'm4' ? 'retrying' : 'processed')),
      )
      assert.equal(most, IDS.length)
      await world.assertEffects(IDS.filter((id) => id !== 'm4'))
      await world.assertPlaces('m4', ['inbox', 'receipt'])
    },
  },
  {
    name: 'A9: of handlers that run together, none continues after one has failed',
    run: async (world) => {
      let open = 0
      const seen: number[] = []
      const reader = world.reader(
        async ({ tx, message }) => {
          open += 1
          if (message.id === 'm0') {
            open -= 1
            throw new Error('at once')
          }
          for (let each = 0; each < 3; each++) await world.database.effect(tx, `${message.id} ${each}`)
          open -= 1
        },
        { group: { size: 10, together: true } },
      )
      reader.hapax.events.on('retrying', () => seen.push(open))
      await reader.deliverMany(IDS)
      assert.deepEqual(seen, [0])
      await world.assertEffects(IDS.slice(1).flatMap((id) => [0, 1, 2].map((each) => `${id} ${each}`)))
    },
  },
  {
    name: 'A19: groups in opposite order on two stores end, each message once',
    needs: ['another store'],
    run: async (world) => {
      const options = { group: { size: 10 } }
      const readers = [
        world.reader(undefined, options),
        world.reader(undefined, { ...options, hapax: await world.rival() }),
      ]
      const rounds = Array.from({ length: 4 }, (_, round) => IDS.map((id) => `${round} ${id}`))
      for (const ids of rounds) {
        const [one, two] = await Promise.all([
          readers[0]?.deliverMany(ids),
          readers[1]?.deliverMany([...ids].reverse()),
        ])
        const all = statuses([...(one ?? []), ...(two ?? [])])
        assert.deepEqual(all, [...ids.map(() => 'duplicate'), ...ids.map(() => 'processed')])
      }
      await world.assertEffects(rounds.flat())
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'A9: a query that the handler of one message does not await fails that message, and not the others',
    skip: ({ unawaited }) => (unawaited === 'detected' ? undefined : 'unawaited statements cannot be detected here'),
    run: async (world) => {
      for (const together of [undefined, false]) {
        const name = `${together}`
        const reader = world.reader(
          async ({ tx, message, attempt }) => {
            const write = world.database.effect(tx, message.id)
            if (!message.id.endsWith('m6') || attempt > 1) await write
          },
          { name, group: { size: 10, ...(together === undefined ? {} : { together }) } },
        )
        const ids = IDS.map((id) => `${name} ${id}`)
        const outcomes = await reader.deliverMany(ids)
        for (const [index, outcome] of outcomes.entries()) {
          if (ids[index]?.endsWith('m6')) assertOutcome(outcome, 'retrying', 'unawaited-query')
          else assertOutcome(outcome, 'processed')
        }
      }
      await world.assertEffects(
        ['undefined', 'false'].flatMap((name) => IDS.filter((id) => id !== 'm6').map((id) => `${name} ${id}`)),
      )
    },
  },
  {
    name: 'a message twice in a group takes effect once',
    run: async (world) => {
      const reader = world.reader(undefined, { group: { size: 10 } })
      const outcomes = await reader.deliverMany(['a', 'b', 'a', 'a'])
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ['processed', 'processed', 'duplicate', 'duplicate'],
      )
      await world.assertEffects(['a', 'b'])
    },
  },
  {
    name: 'a group of new ones and duplicates calls the handler for the new ones',
    run: async (world) => {
      const reader = world.reader(undefined, { group: { size: 10 } })
      await reader.deliverMany(['b', 'd'])
      const outcomes = await reader.deliverMany(['a', 'b', 'c', 'd'])
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ['processed', 'duplicate', 'processed', 'duplicate'],
      )
      await world.assertEffects(['a', 'b', 'c', 'd'])
    },
  },
  {
    name: 'a message that cannot be decoded does not disturb its group',
    run: async (world) => {
      const reader = world.reader(undefined, { group: { size: 10 } })
      const messages = ['a', 'bad', 'b'].map((id) => ping(id, id === 'bad' ? { data: Buffer.from('{') } : {}))
      const outcomes = await reader.consumer.handleMany(messages)
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ['processed', 'failed', 'processed'],
      )
      await world.assertEffects(['a', 'b'])
    },
  },
  {
    name: 'onMany gets the group as one array',
    run: async (world) => {
      const { consumer, sizes } = manyReader(world, 'none')
      const outcomes = await consumer.handleMany(IDS.map((id) => ping(id)))
      assert.deepEqual(new Set(statuses(outcomes)), new Set(['processed']))
      assert.deepEqual(sizes, [10])
      await world.assertEffects(IDS)
    },
  },
  {
    name: 'onMany is called with halves until the bad one is alone',
    run: async (world) => {
      const { consumer, sizes } = manyReader(world, 'm2')
      const outcomes = await consumer.handleMany(IDS.slice(0, 8).map((id) => ping(id)))
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        IDS.slice(0, 8).map((id) => (id === 'm2' ? 'retrying' : 'processed')),
      )
      assert.deepEqual(sizes, [8, 4, 2, 2, 1, 1, 4])
      await world.assertEffects(IDS.slice(0, 8).filter((id) => id !== 'm2'))
    },
  },
  {
    name: 'a worker takes a group from the inbox, and one by one when one of it fails',
    run: async (world) => {
      const reader = world.reader(
        async ({ tx, message, attempt }) => {
          await world.database.effect(tx, message.id)
          if (message.id === 'm4' && attempt < 2) throw new Error('not yet')
        },
        { group: { size: 10 }, receive: 'store' },
      )
      for (const outcome of await reader.deliverMany(IDS)) assertOutcome(outcome, 'stored')
      await world.drain(reader)
      await world.assertEffects(IDS)
      assert.deepEqual(await reader.hapax.failed.list(), [])
    },
  },
  {
    name: 'carries the largest group: 1000 messages in one transaction',
    run: async (world) => {
      const seen: Count[] = []
      const reader = world.reader((_ctx, data) => void seen.push(data), { group: { size: 1000 } })
      const outcomes = await reader.deliverMany(Array.from({ length: 1000 }, (_, index) => `large ${index}`))
      assert.deepEqual(new Set(statuses(outcomes)), new Set(['processed']))
      assert.equal(seen.length, 1000)
    },
  },
]

export const groups: readonly Case[] = [...atEachLevel(levels), ...once]
