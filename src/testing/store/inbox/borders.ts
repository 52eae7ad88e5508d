import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import { type Case, ofConnections } from '../case.ts'
import { leased, type Sms } from '../leased/world.ts'
import { assertOutcome, type Context, gate, ping, type Reader, type ReaderOptions, type World } from '../world.ts'

/** The actions of a handler, which then succeeds or fails on its own. */
type Habit = (world: World, ctx: Context, effect: (label: string) => Promise<unknown>) => Promise<unknown>

/** Sets a savepoint before its effect, and leaves it open. */
const leaves: Habit = async ({ database }, { tx }, effect) => {
  await database.savepoint(tx, 'savepoint', 's')
  await effect('left')
}

/** Rolls back to its own savepoint, which it has not set yet. */
const goesBack: Habit = async ({ database }, { tx }, effect) => {
  await database.savepoint(tx, 'rollback to savepoint', 's')
  await effect('instead')
}

const habits: readonly Habit[] = [
  leaves,
  goesBack,
  (_, __, effect) => effect('plain'),
  async ({ database }, { tx }, effect) => {
    await effect('before')
    await database.savepoint(tx, 'savepoint', 's')
    await effect('undone')
    await database.savepoint(tx, 'rollback to savepoint', 's')
    await effect('after')
  },
  async ({ database }, { tx }, effect) => {
    await effect('before')
    await database.savepoint(tx, 'release savepoint', 's')
  },
  async ({ database }, { tx }, effect) => {
    for (const name of ['s', 'other', 's']) {
      await database.savepoint(tx, 'savepoint', name)
      await effect(name)
    }
    await database.savepoint(tx, 'release savepoint', 's')
  },
  async ({ database }, { tx }, effect) => {
    await effect('before')
    await database.savepoint(tx, 'rollback to savepoint', 'other')
  },
]

/** Nested transactions of the ORM, which are savepoints. */
const nesting: readonly Habit[] = [
  leaves,
  async ({ database }, { tx }, effect) => {
    await effect('before')
    const undone = database.nested?.(tx, async (inner) => {
      await database.effect(inner, 'undone')
      throw new Error('given up')
    })
    await assert.rejects(undone ?? Promise.resolve(), /given up/)
    await effect('after')
  },
  goesBack,
  async ({ database }, { tx }, effect) => {
    await database.nested?.(tx, async (inner) => {
      await database.savepoint(inner, 'savepoint', 's')
      await effect('inside')
    })
  },
  async ({ database }, { tx }, effect) => {
    await effect('before')
    await database.nested?.(tx, () => database.savepoint(tx, 'rollback to savepoint', 's'))
  },
]

/** All ordered pairs of habits, including each with itself. */
function inEveryOrder(all: readonly Habit[]): readonly Habit[] {
  return all.flatMap((one) => all.flatMap((other) => [one, other]))
}

/** The statuses and the effects of messages with these habits. */
async function resultOf(
  world: World,
  doing: readonly Habit[],
  name: string,
  options: ReaderOptions,
): Promise<readonly string[]> {
  const reader = world.reader(
    async (ctx, { n }) => {
      await doing[n]?.(world, ctx, (label) => world.database.effect(ctx.tx, `${name} ${n} ${label}`))
    },
    { name, ...options },
  )
  const statuses = (await deliverAll(reader, doing.length)).map((status, n) => `${n} ${status}`)
  if (options.receive === 'store') await world.drain(reader)
  const effects = (await world.database.effects()).filter((label) => label.startsWith(`${name} `))
  return [...statuses, ...effects.map((label) => label.slice(name.length + 1))].sort()
}

async function deliverAll({ consumer }: Reader, count: number): Promise<readonly string[]> {
  const messages = Array.from({ length: count }, (_, n) => ping(`m${n}`, { data: { n } }))
  return (await consumer.handleMany(messages)).map(({ status }) => status)
}

/** In groups of two, one per pair; and in groups of three, which are split into single messages less often than larger groups. */
async function assertAsAlone(world: World, doing: readonly Habit[], options: ReaderOptions = {}): Promise<void> {
  const alone = await resultOf(world, doing, 'alone', { ...options, group: { size: 1 } })
  for (const size of [2, 3]) {
    const grouped = await resultOf(world, doing, `by ${size}`, { ...options, group: { ...options.group, size } })
    assert.deepEqual(grouped, alone)
  }
}

/** Rolls back to the savepoint of hapax before its effect. Fails in later calls, so that they come to an end. */
async function takesOnce(world: World, tx: Context['tx'], calls: number): Promise<void> {
  if (calls > 1) throw new Permanent('called again')
  await world.database.savepoint(tx, 'rollback to savepoint', 'hapax')
  await world.database.effect(tx, 'once')
}

export const borders: readonly Case[] = ofConnections([
  {
    name: 'A17: a handler of a group cannot roll back to a savepoint of the previous message',
    needs: ['savepoints'],
    run: async (world) => {
      const doing = [leaves, goesBack]
      const reader = world.reader(
        (ctx, { n }) => doing[n]?.(world, ctx, (label) => world.database.effect(ctx.tx, label)),
        {
          group: { size: 2 },
        },
      )
      const [first, second] = await reader.consumer.handleMany([
        ping('a', { data: { n: 0 } }),
        ping('b', { data: { n: 1 } }),
      ])
      assertOutcome(first, 'processed')
      assert.equal(second?.status, 'retrying')
      await world.assertEffects(['left'])
    },
  },
  {
    name: 'A17: whatever savepoints its handlers set, name and release, a group has the same effects as its messages one by one',
    needs: ['savepoints'],
    run: (world) => assertAsAlone(world, inEveryOrder(habits)),
  },
  {
    name: 'A17: whatever savepoints its handlers use, a group from the inbox has the same effects as its messages one by one',
    needs: ['savepoints'],
    run: (world) => assertAsAlone(world, inEveryOrder(habits), { receive: 'store' }),
  },
  {
    name: 'A17: whatever savepoints its handlers use, a group called together has the same effects as its messages one by one',
    needs: ['savepoints'],
    run: (world) => assertAsAlone(world, inEveryOrder(habits.slice(0, 4)), { group: { together: true } }),
  },
  {
    name: 'A17: a handler that rolls back to the savepoint of hapax undoes no effects of others in its group',
    needs: ['savepoints'],
    run: async (world) => {
      const home: Habit = ({ database }, { tx }) => database.savepoint(tx, 'rollback to savepoint', 'hapax')
      const plain: Habit = (_, __, effect) => effect('plain')
      await assertAsAlone(world, [plain, leaves, home, plain, home, home, plain])
    },
  },
  {
    name: 'A17: a stored message takes effect once, even if its handler rolls back to the savepoint of hapax',
    needs: ['savepoints'],
    run: async (world) => {
      const reader = world.reader((ctx) => takesOnce(world, ctx.tx, reader.calls.length), { receive: 'store' })
      await reader.deliver('a')
      await world.drain(reader)
      assert.deepEqual(reader.calls, ['a'])
      await world.assertEffects(['once'])
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'A17: a leased message is settled once, even if its `complete` rolls back to the savepoint of hapax',
    needs: ['savepoints'],
    run: async (world) => {
      const hapax = world.hapax()
      let calls = 0
      const handler: Sms = (ctx) => {
        calls += 1
        ctx.complete((tx) => takesOnce(world, tx, calls))
      }
      const sms = leased(world, handler, { hapax })
      assertOutcome(await sms.handle(ping('a')), 'processed')
      await world.drain({ hapax, consumer: sms })
      assert.equal(calls, 1)
      await world.assertEffects(['once'])
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'A17: nested transactions of the ORM do not affect other messages in their group',
    needs: ['savepoints', 'nested transactions'],
    run: (world) => assertAsAlone(world, inEveryOrder(nesting)),
  },
  {
    name: 'A17: a nested transaction that fails in a group called together leaves no effects of others behind',
    needs: ['savepoints', 'nested transactions'],
    run: async (world) => {
      const { database } = world
      const [broken, nested] = [gate(), gate()]
      const doing: readonly Habit[] = [
        (_, { tx }) => database.breakStatement(tx).finally(broken.open),
        async (_, { tx }) => {
          await broken.passed
          const effect = (inner: Context['tx']): Promise<unknown> => database.effect(inner, 'nested')
          await (database.nested?.(tx, effect) ?? Promise.resolve()).finally(nested.open)
        },
        async (_, __, effect) => {
          await nested.passed
          await effect('plain')
        },
      ]
      const reader = world.reader((ctx, { n }) => doing[n]?.(world, ctx, (label) => database.effect(ctx.tx, label)), {
        group: { size: 3, together: true },
      })
      assert.deepEqual(await deliverAll(reader, 3), ['retrying', 'processed', 'processed'])
      await world.assertEffects(['nested', 'plain'])
    },
  },
])
