import assert from 'node:assert/strict'
import type { Outcome } from '../../../contracts/index.ts'
import type { IncomingMessage } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import { assertOutcome, Ping, Pong, ping, type ReaderOptions, type World } from '../world.ts'

type Change = Partial<IncomingMessage>

/** A way in which a message and a second one with its identity can arrive; returns both outcomes. */
interface Path {
  readonly options: ReaderOptions
  readonly first: 'processed' | 'stored'
  arrive(handle: (messages: readonly IncomingMessage[]) => Promise<readonly Outcome[]>, change: Change): Arrived
}

type Arrived = Promise<readonly (Outcome | undefined)[]>

const oneByOne: Path['arrive'] = async (handle, change) => [
  ...(await handle([ping('a')])),
  ...(await handle([ping('a', change)])),
]

const together: Path['arrive'] = (handle, change) => handle([ping('a'), ping('a', change)])

const PATHS: Readonly<Record<string, Path>> = {
  'direct delivery': { options: {}, first: 'processed', arrive: oneByOne },
  'delivery to the inbox': { options: { receive: 'store' }, first: 'stored', arrive: oneByOne },
  redelivery: {
    options: {},
    first: 'processed',
    arrive: (handle, change) => oneByOne(handle, { ...change, redelivered: true }),
  },
  'two copies in one call': { options: {}, first: 'processed', arrive: together },
  'two copies in one group': { options: { group: { size: 10 } }, first: 'processed', arrive: together },
  'two copies to the inbox': { options: { receive: 'store' }, first: 'stored', arrive: together },
}

const OTHER_DATA: Change = { data: { n: 2 } }
const OTHER_TYPE: Change = { type: 'pong' }

/** Lets a message and another one under its identity arrive; the second is a conflict, or a duplicate and a mismatch. */
async function assertSecond(world: World, path: Path, change: Change, second: 'conflict' | 'duplicate'): Promise<void> {
  const onMismatch = second === 'conflict' ? { onMismatch: second } : {}
  const reader = world.reader(undefined, { ...path.options, ...onMismatch })
  reader.consumer.on(Pong, () => assert.fail('the second one must not run'))
  const mismatches: string[] = []
  reader.hapax.events.on('mismatch', ({ message }) => mismatches.push(message.id))
  const outcomes = await path.arrive((messages) => reader.consumer.handleMany(messages), change)
  assert.equal(outcomes.length, 2)
  assertOutcome(outcomes[0], path.first)
  assertOutcome(outcomes[1], second)
  await world.drain(reader)
  await world.assertEffects(['a'])
  const failed = (await reader.hapax.failed.list()).map(({ message, reason }) => [
    reason,
    message.id,
    message.type,
    Buffer.from(message.data).toString(),
  ])
  const kept = ['conflict', 'a', change.type ?? 'ping', JSON.stringify(change.data ?? { n: 1 })]
  assert.deepEqual(failed, second === 'conflict' ? [kept] : [])
  if (second === 'duplicate') assert.deepEqual(mismatches, ['a'])
}

const onEachPath: readonly Case[] = Object.entries(PATHS).flatMap(([what, path]) => [
  {
    name: `F7: the same id with another payload is a conflict and kept in failed, where asked for: ${what}`,
    run: (world: World) => assertSecond(world, path, OTHER_DATA, 'conflict'),
  },
  {
    name: `F7: the same id with another payload is a duplicate and reported as a mismatch: ${what}`,
    run: (world: World) => assertSecond(world, path, OTHER_DATA, 'duplicate'),
  },
  {
    name: `F7: the same id with another type is a conflict and kept in failed, where asked for: ${what}`,
    run: (world: World) => assertSecond(world, path, OTHER_TYPE, 'conflict'),
  },
  {
    name: `F7: the same id with another type is a duplicate and reported as a mismatch: ${what}`,
    run: (world: World) => assertSecond(world, path, OTHER_TYPE, 'duplicate'),
  },
])

const types: readonly Case[] = [
  {
    name: 'F1: messages without an id that differ in their type are two failed ones',
    run: async (world) => {
      const reader = world.reader()
      for (const type of ['ping', 'pong']) {
        assertOutcome(await reader.deliver(undefined, { type }), 'failed', 'missing-id')
        assertOutcome(await reader.deliver(undefined, { type }), 'duplicate')
      }
      const failed = await reader.hapax.failed.list()
      assert.deepEqual(failed.map(({ message }) => message.type).sort(), ['ping', 'pong'])
    },
  },
  {
    name: 'F1: missingId hash takes the same payload under two types as two messages',
    run: async (world) => {
      const consumer = world.hapax().consumer('billing', { missingId: 'hash' })
      for (const type of [Ping, Pong]) consumer.on(type, (_, { tx }) => world.database.effect(tx, type.type))
      for (const { type } of [Ping, Pong]) {
        assertOutcome(await consumer.handle(ping(undefined, { type })), 'processed')
        assertOutcome(await consumer.handle(ping(undefined, { type })), 'duplicate')
      }
      await world.assertEffects(['ping', 'pong'])
    },
  },
]

export const mismatches: readonly Case[] = [...onEachPath, ...types]
