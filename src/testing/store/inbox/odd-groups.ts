import assert from 'node:assert/strict'
import { HapaxError } from '../../../base/index.ts'
import { altered } from '../../altered.ts'
import type { Case } from '../case.ts'
import { type AnyHapax, type AnyStore, AT_ONCE, assertOutcome, Ping, ping, type World } from '../world.ts'

/** Groups with an odd number of messages, or with odd halves. */
const SIZES = [3, 6] as const

/** Every position in groups of these sizes: the ids of the group, and the one at that position. */
const GROUPS = SIZES.flatMap((size) =>
  Array.from({ length: size }, (_, at) => {
    const ids = Array.from({ length: size }, (__, index) => `${index + 1} of ${size}, ${at + 1} is bad`)
    return { ids, bad: ids[at] as string }
  }),
)

const isBad = ({ id }: { readonly id: string }): boolean => GROUPS.some(({ bad }) => bad === id)

/** Wraps a store that always refuses bad messages in its inbox. */
function refusing(store: AnyStore): AnyStore {
  const storing: AnyStore['inbox']['store'] = async (options, deliveries) => {
    if (deliveries.messages.some(isBad)) throw new HapaxError('unstorable', 'no')
    return store.inbox.store(options, deliveries)
  }
  return altered(store, { inbox: { store: storing } })
}

/** A consumer of groups that fails for bad messages. */
function consumerOf(world: World, hapax: AnyHapax, receive: 'direct' | 'store') {
  const consumer = hapax.consumer('billing', { retry: { ...AT_ONCE, attempts: 1 }, receive, group: { size: 10 } })
  return consumer.onMany(Ping, async (items, { tx }) => {
    for (const { message } of items) await world.database.effect(tx, message.id)
    if (items.some(({ message }) => isBad(message))) throw new Error('bad')
  })
}

/** Asserts that all good messages took effect once, and that the bad one failed. */
async function assertDivided(world: World, hapax: AnyHapax): Promise<void> {
  const good = GROUPS.flatMap(({ ids, bad }) => ids.filter((id) => id !== bad))
  await world.assertEffects(good)
  const failed = await hapax.failed.list({ limit: 100 })
  assert.deepEqual(failed.map(({ message }) => message.id).sort(), GROUPS.map(({ bad }) => bad).sort())
}

/** Groups without equal halves, with one bad message. */
export const oddGroups: readonly Case[] = [
  {
    name: 'C9: wherever the bad message of an odd group is, all others take effect: delivered',
    run: async (world) => {
      const hapax = world.hapax()
      const consumer = consumerOf(world, hapax, 'direct')
      for (const { ids, bad } of GROUPS) {
        const outcomes = await consumer.handleMany(ids.map((id) => ping(id)))
        for (const [index, id] of ids.entries()) assertOutcome(outcomes[index], id === bad ? 'failed' : 'processed')
      }
      await assertDivided(world, hapax)
    },
  },
  {
    name: 'C9: wherever the bad message of an odd group is, all others take effect: from the inbox',
    run: async (world) => {
      const hapax = world.hapax()
      const consumer = consumerOf(world, hapax, 'store')
      for (const { ids } of GROUPS) {
        for (const outcome of await consumer.handleMany(ids.map((id) => ping(id)))) assertOutcome(outcome, 'stored')
        await world.drain({ hapax, consumer })
      }
      await assertDivided(world, hapax)
    },
  },
  {
    name: 'K16: wherever the message is that the store refuses in an odd batch, all others are stored',
    run: async (world) => {
      const hapax = world.hapax({ store: refusing(world.store) })
      const reader = world.reader(undefined, { hapax, receive: 'store' })
      for (const { ids, bad } of GROUPS) {
        const outcomes = await reader.deliverMany(ids)
        for (const [index, id] of ids.entries()) assertOutcome(outcomes[index], id === bad ? 'failed' : 'stored')
      }
      await world.drain(reader)
      await assertDivided(world, hapax)
    },
  },
]
