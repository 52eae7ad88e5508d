import assert from 'node:assert/strict'
import { defineMessage, type MessageType } from '../../../message/index.ts'
import { type Case, ofConnections } from '../case.ts'
import type { HarnessFeatures } from '../harness.ts'
import { type AnyHapax, assertRejects, type Count, type Gate, gate, Pong, type Tx, type World } from '../world.ts'

const ownOnly = ({ ownTransactions }: HarnessFeatures): string | undefined =>
  ownTransactions ? undefined : 'it has no transactions of your own'

/** A type whose schema validates once the `answer` gate is opened, and opens the `asked` gate when it is called. */
function slow(): { Slow: MessageType<Count>; asked: Gate; answer: Gate } {
  const [asked, answer] = [gate(), gate()]
  const validate = async (value: unknown): Promise<{ value: Count }> => {
    asked.open()
    await answer.passed
    return { value: value as Count }
  }
  const schema = { '~standard': { version: 1, vendor: 'test', validate } } as const
  return { Slow: defineMessage('pong', { schema }) as MessageType<Count>, asked, answer }
}

/** A hapax for each way of delivery, and what shows that nothing was written. */
async function ways(world: World): Promise<readonly (readonly [string, AnyHapax])[]> {
  const local = world.hapax({ delivery: 'local' })
  local.consumer('billing').on(Pong, () => {})
  return [
    ['relay', world.hapax()],
    ['local', local],
  ]
}

async function assertNothing(world: World): Promise<void> {
  assert.deepEqual(await world.database.outbox(), [])
  const { consumers } = await world.store.admin.status()
  assert.deepEqual(consumers, [])
}

const ROUNDS = 60

/** After some microtasks, or some fractions of a millisecond: a publish takes several of both. */
async function moment(round: number): Promise<void> {
  if (round % 2 === 0) for (let ticks = 0; ticks < round * 2; ticks++) await Promise.resolve()
  else await new Promise((resolve) => setTimeout(resolve, (round % 12) / 4))
}

/** Transactions of the user's go on as before, and nothing of an earlier one is left open. */
async function assertUsable(world: World, hapax: AnyHapax): Promise<void> {
  const before = (await world.database.outbox()).length
  await world.database.own(async (tx) => {
    await world.database.effect(tx, 'usable')
    await hapax.publish(tx, Pong, { n: 0 })
  })
  assert.equal((await world.database.outbox()).length, before + 1)
  assert.ok((await world.database.effects()).includes('usable'))
}

/** An unawaited publish in the user's own transaction, which ends as the case decides. */
async function forgotten(world: World, hapax: AnyHapax, type: MessageType<Count>, end: 'commit' | 'rollback') {
  let publishing: Promise<unknown> = Promise.resolve()
  const own = world.database.own(async (tx) => {
    publishing = hapax.publish(tx, type, { n: 1 })
    publishing.catch(() => {})
    if (end === 'rollback') throw new Error('given up')
  })
  await own.catch((error: Error) => assert.equal(error.message, 'given up'))
  return { publishing }
}

export const latePublishes: readonly Case[] = ofConnections([
  {
    name: 'K2: a publish whose schema resolves after the end of its transaction writes nothing',
    skip: ownOnly,
    run: async (world) => {
      for (const [, hapax] of await ways(world)) {
        for (const end of ['rollback', 'commit'] as const) {
          const { Slow, answer } = slow()
          const { publishing } = await forgotten(world, hapax, Slow, end)
          answer.open()
          await assertRejects(publishing, 'not-in-transaction')
          await assertNothing(world)
        }
      }
    },
  },
  {
    name: 'K2: nor does it write into the next transaction on its client, which continues undisturbed',
    skip: ownOnly,
    run: async (world) => {
      for (const [way, hapax] of await ways(world)) {
        const { Slow, answer } = slow()
        const { publishing } = await forgotten(world, hapax, Slow, 'rollback')
        await world.database.own(async (tx) => {
          await world.database.effect(tx, `before ${way}`)
          answer.open()
          await assertRejects(publishing, 'not-in-transaction')
          await world.database.effect(tx, `after ${way}`)
        })
        await assertNothing(world)
      }
      await world.assertEffects(['before relay', 'after relay', 'before local', 'after local'])
    },
  },
  {
    name: 'K2: an unawaited publish never survives a rollback, and survives a commit only if it resolves',
    skip: ownOnly,
    run: async (world) => {
      const hapax = world.hapax()
      for (let round = 1; round <= 20; round++) {
        const { publishing } = await forgotten(world, hapax, Pong, 'rollback')
        await publishing.catch(() => {})
        assert.deepEqual(await world.database.outbox(), [])
      }
      const { publishing } = await forgotten(world, hapax, Pong, 'commit')
      const resolved = await publishing.then(
        () => 1,
        () => 0,
      )
      assert.equal((await world.database.outbox()).length, resolved)
    },
  },
  {
    name: 'K2: a publish beside something that fails is rolled back with it, whenever that happens',
    skip: ownOnly,
    run: async (world) => {
      const hapax = world.hapax()
      const published: Promise<unknown>[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const own = world.database.own(async (tx) => {
          const publishing = hapax.publish(tx, Pong, { n: round })
          published.push(publishing.catch(() => {}))
          await Promise.all([publishing, moment(round).then(() => assert.fail('given up'))])
        })
        await assert.rejects(own)
      }
      await Promise.all(published)
      assert.deepEqual(await world.database.outbox(), [])
      await assertUsable(world, hapax)
    },
  },
  {
    name: 'K2: a publish beside a commit is there if it resolves, and only then, whenever that happens',
    skip: ownOnly,
    run: async (world) => {
      const hapax = world.hapax()
      const resolved: string[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const id = `p${round}`
        let publishing: Promise<unknown> = Promise.resolve()
        // The ORM may say that the transaction was broken off, if a statement was under way.
        await world.database
          .own(async (tx) => {
            publishing = hapax.publish(tx, Pong, { n: round }, { id })
            publishing.catch(() => {})
            await moment(round)
          })
          .catch(() => {})
        await publishing.then(
          () => resolved.push(id),
          () => {},
        )
      }
      assert.deepEqual((await world.database.outbox()).toSorted(), resolved.toSorted())
      await assertUsable(world, hapax)
    },
  },
  {
    name: 'K2: a schema that takes its time keeps no publish from its own transaction',
    skip: ownOnly,
    run: async (world) => {
      const hapax = world.hapax()
      await world.database.own(async (tx: Tx) => {
        const { Slow, asked, answer } = slow()
        const publishing = hapax.publishMany(tx, [Pong.of({ n: 1 }, { id: 'a' }), Slow.of({ n: 2 }, { id: 'b' })])
        await asked.passed
        await world.database.effect(tx, 'in between')
        answer.open()
        await publishing
        await hapax.publish(tx, Pong, { n: 3 }, { id: 'c' })
      })
      assert.deepEqual(await world.database.outbox(), ['a', 'b', 'c'])
      await world.assertEffects(['in between'])
    },
  },
  {
    name: 'K2: publishes at the same time in one transaction of your own are all written, whichever is ready first',
    skip: ownOnly,
    run: async (world) => {
      for (const [way, hapax] of await ways(world)) {
        await world.database.own(async (tx: Tx) => {
          const [first, second] = [slow(), slow()]
          const id = (name: string) => ({ id: `${way} ${name}` })
          const early = hapax.publish(tx, first.Slow, { n: 1 }, id('a'))
          await world.database.effect(tx, `${way} in between`)
          const late = hapax.publish(tx, second.Slow, { n: 2 }, id('b'))
          await Promise.all(['c', 'd', 'e'].map((name) => hapax.publish(tx, Pong, { n: 3 }, id(name))))
          first.answer.open()
          await early
          second.answer.open()
          await Promise.all([late, hapax.publish(tx, Pong, { n: 4 }, id('f'))])
        })
      }
      assert.deepEqual(
        (await world.database.outbox()).toSorted(),
        [...'abcdef'].map((name) => `relay ${name}`),
      )
      const { consumers } = await world.store.admin.status()
      assert.deepEqual(
        consumers.map(({ consumer, waiting }) => ({ consumer, waiting })),
        [{ consumer: 'billing', waiting: 6 }],
      )
      await world.assertEffects(['relay in between', 'local in between'])
    },
  },
])
