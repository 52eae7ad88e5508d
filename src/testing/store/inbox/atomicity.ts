import assert from 'node:assert/strict'
import type { StandardSchema } from '../../../message/index.ts'
import { defineMessage, type MessageType } from '../../../message/index.ts'
import { LeapingClock } from '../../clock.ts'
import { atEachLevel, type Case, ofConnections, parallelOnly } from '../case.ts'
import {
  assertOutcome,
  assertRejects,
  type Context,
  type Count,
  gate,
  Pong,
  type Reader,
  type World,
} from '../world.ts'

/** Longer than anything takes that is not stuck. */
const TIMEOUT_MS = 60_000

/** The message failed for good because its handler ended the transaction itself; a redelivery changes nothing. */
async function assertBroken(world: World, reader: Reader): Promise<void> {
  assertOutcome(await reader.deliver('a'), 'failed', 'broken-atomicity')
  assertOutcome(await reader.deliver('a'), 'duplicate')
  assert.deepEqual(
    (await reader.hapax.failed.list()).map(({ message, reason }) => [message.id, reason]),
    [['a', 'broken-atomicity']],
  )
  assert.deepEqual(reader.calls, ['a'])
  await world.assertPlaces('a', ['failed', 'receipt'])
}

const unawaitedOnly: Case['skip'] = ({ unawaited }) =>
  unawaited === 'detected' ? undefined : 'unawaited statements cannot be detected here'

const levels: readonly Case[] = [
  {
    name: 'A3: a swallowed SQL error does not ack what was not written',
    run: async (world) => {
      let broken = true
      const reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        if (broken) await assert.rejects(world.database.breakStatement(tx))
      })
      const outcome = await reader.deliver('a')
      if (world.features.errorsAbort) {
        assertOutcome(outcome, 'retrying', 'transaction-aborted')
        await world.assertEffects([])
        await world.assertPlaces('a', ['inbox', 'receipt'])
        broken = false
        await world.drain(reader)
      } else assertOutcome(outcome, 'processed')
      await world.assertEffects(['a'])
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'A3: an SQL error that the handler rethrows undoes everything',
    run: async (world) => {
      const reader = world.reader(async ({ tx, message, publish }) => {
        await world.database.effect(tx, message.id)
        await publish(Pong, { n: 1 })
        await world.database.breakStatement(tx)
      })
      assertOutcome(await reader.deliver('a'), 'retrying')
      await world.assertEffects([])
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'A4: a handler that commits and returns is broken atomicity',
    needs: ['ending the transaction'],
    run: async (world) => {
      const reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        await world.database.commitInside(tx)
      })
      await assertBroken(world, reader)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A4: a handler that commits and throws is broken atomicity, not a duplicate',
    needs: ['ending the transaction'],
    run: async (world) => {
      const reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        await world.database.commitInside(tx)
        throw new Error('after the commit')
      })
      await assertBroken(world, reader)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A4: a handler that rolls back and returns is broken atomicity',
    needs: ['ending the transaction'],
    run: async (world) => {
      const reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        await world.database.rollbackInside(tx)
      })
      await assertBroken(world, reader)
      await world.assertEffects([])
    },
  },
  {
    name: 'A4: a handler that rolls back and continues in autocommit is broken atomicity',
    needs: ['ending the transaction'],
    run: async (world) => {
      const reader = world.reader(async ({ tx, message, publish }) => {
        await world.database.rollbackInside(tx)
        await world.database.effect(tx, message.id)
        await publish(Pong, { n: 1 })
      })
      await assertBroken(world, reader)
      assert.deepEqual(await world.database.outbox(), [], 'a publish must not go out without its receipt')
    },
  },
  {
    name: 'A16: a unique violation of the handler is its error, not a duplicate',
    run: async (world) => {
      const reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        await world.database.unique(tx, 'the same')
      })
      assertOutcome(await reader.deliver('a'), 'processed')
      assertOutcome(await reader.deliver('b'), 'retrying')
      await world.assertEffects(['a'])
      await world.assertPlaces('b', ['inbox', 'receipt'])
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'A8: a message that deadlocks is run again, and no attempt is counted',
    needs: ['row locks', 'another store'],
    skip: parallelOnly,
    run: async (world) => {
      assertRunAgain(await deadlock(world, (locked) => locked))
    },
  },
  {
    name: 'A6: a message whose handler swallows a deadlock is run again as well',
    needs: ['row locks', 'another store', 'watched statements'],
    skip: parallelOnly,
    run: async (world) => {
      assertRunAgain(await deadlock(world, (locked) => locked.catch(() => {})))
    },
  },
  {
    name: 'A6: what a handler has sent behind a statement that deadlocks takes no effect by itself',
    needs: ['row locks', 'another store'],
    skip: parallelOnly,
    run: async (world) => {
      const both = async (locked: Promise<unknown>, beside: () => Promise<unknown>): Promise<void> => {
        const [first, second] = await Promise.allSettled([locked, beside()])
        if (first.status === 'rejected') throw first.reason
        if (second.status === 'rejected') throw second.reason
      }
      assertRunAgain(await deadlock(world, both, { effects: (id) => [id, `${id} beside`] }))
    },
  },
  {
    name: 'A6: nor does what it sends afterwards, if it has swallowed the deadlock',
    needs: ['row locks', 'another store'],
    skip: parallelOnly,
    run: async (world) => {
      const goesOn = async (locked: Promise<unknown>, beside: () => Promise<unknown>): Promise<void> => {
        await locked.catch(() => {})
        await beside().catch(() => {})
      }
      // Where the statements of an ORM are not watched, it costs an attempt.
      await deadlock(world, goesOn, { effects: (id) => [id, `${id} beside`], may: ['processed', 'retrying'] })
    },
  },
  {
    name: 'A9: a query that the handler does not await is not committed',
    skip: unawaitedOnly,
    run: async (world) => {
      let forgetful = true
      const reader = world.reader(async ({ tx, message }) => {
        const write = world.database.effect(tx, message.id)
        if (!forgetful) await write
        forgetful = false
      })
      assertOutcome(await reader.deliver('a'), 'retrying', 'unawaited-query')
      await world.assertEffects([])
      await world.drain(reader)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A9: a publish that the handler does not await is not committed',
    run: async (world) => {
      const checked = gate()
      const reader = world.reader(async ({ tx, message, publish }) => {
        await world.database.effect(tx, message.id)
        void publish(slow(checked.passed), { n: 1 })
      })
      assertOutcome(await reader.deliver('a'), 'retrying', 'unawaited-publish')
      checked.open()
      await world.assertEffects([])
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'A9: nothing is committed with a failed publish that the handler did not await',
    run: async (world) => {
      const reader = world.reader(async ({ tx, message, publish }) => {
        void publish(Pong, 1n as never)
        await world.database.effect(tx, message.id)
      })
      assertOutcome(await reader.deliver('a'), 'retrying', 'unawaited-publish')
      await world.assertEffects([])
    },
  },
  {
    name: 'A9: a handle is refused once its transaction has settled',
    skip: ({ lateUse }) => (lateUse === 'refused' ? undefined : 'an ORM hands out objects that cannot be revoked'),
    run: async (world) => {
      let kept: Context | undefined
      const reader = world.reader((ctx) => {
        kept = ctx
      })
      assertOutcome(await reader.deliver('a'), 'processed')
      await assertLate(world, kept)
    },
  },
  {
    name: 'A11: a handler that times out leaves nothing behind, and is called again',
    run: async (world) => {
      let late = true
      const forever = gate()
      const clock = new LeapingClock()
      const reader = world.reader(
        async ({ tx, message, signal }) => {
          await world.database.effect(tx, message.id)
          if (!late) return
          signal.addEventListener('abort', forever.open)
          clock.leap(TIMEOUT_MS)
          await forever.passed
        },
        { timeoutMs: TIMEOUT_MS, hapax: world.hapax({ clock }) },
      )
      assertOutcome(await reader.deliver('a'), 'retrying', 'handler-timeout')
      await forever.passed
      assert.deepEqual(reader.calls, ['a'])
      await world.assertEffects([])
      late = false
      await world.drain(reader)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A11: a handler that continues after its timeout is refused',
    skip: ({ lateUse }) => (lateUse === 'refused' ? undefined : 'an ORM hands out objects that cannot be revoked'),
    run: async (world) => {
      const timeUp = gate()
      const done = gate()
      let refused: unknown
      const reader = world.reader(
        async (ctx) => {
          await timeUp.passed
          await assertLate(world, ctx).catch((error: unknown) => {
            refused = error
          })
          done.open()
        },
        { timeoutMs: 50 },
      )
      assertOutcome(await reader.deliver('a'), 'retrying', 'handler-timeout')
      // The connection has other work by now.
      assertOutcome(await world.reader(undefined, { name: 'other' }).deliver('b'), 'processed')
      timeUp.open()
      await done.passed
      assert.equal(refused, undefined)
      await world.assertEffects(['b'])
    },
  },
  {
    name: 'A31: the receipt comes first: the handler of a duplicate is never started',
    needs: ['another store'],
    run: async (world) => {
      const running = gate()
      const go = gate()
      const first = world.reader(async () => {
        running.open()
        await go.passed
      })
      const second = world.reader(undefined, { hapax: await world.rival(), lockTimeoutMs: 1 })
      const winning = first.deliver('a')
      await running.passed
      for (let run = 0; run < 3; run++) assertOutcome(await second.deliver('a'), 'busy')
      go.open()
      await winning
      assert.deepEqual(second.calls, [])
    },
  },
  {
    name: 'hapax.transaction keeps what it writes when it returns and nothing when it throws',
    run: async (world) => {
      const hapax = world.hapax()
      const kept = async (tx: unknown): Promise<number> => {
        await world.database.effect(tx, 'kept')
        return 7
      }
      assert.equal(await hapax.transaction(kept), 7)
      const thrown = new Error('given up')
      const given = hapax.transaction(async (tx) => {
        await world.database.effect(tx, 'gone')
        throw thrown
      })
      await assert.rejects(given, thrown)
      await world.assertEffects(['kept'])
    },
  },
  {
    name: 'A4: hapax.transaction rejects when its work ended the transaction',
    needs: ['ending the transaction'],
    run: async (world) => {
      const hapax = world.hapax()
      for (const end of ['commitInside', 'rollbackInside'] as const) {
        const work = hapax.transaction(async (tx) => {
          await world.database[end](tx)
          await hapax.publish(tx, Pong, { n: 1 })
        })
        await assertRejects(work, 'broken-atomicity')
      }
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'A17: what a handler undoes in its own savepoint is undone, the rest is kept',
    needs: ['savepoints'],
    run: async (world) => {
      const reader = world.reader(async ({ tx, message }) => {
        await world.database.effect(tx, message.id)
        await world.database.undone(tx, () => world.database.effect(tx, 'undone'))
        await world.database.undone(tx, () => assert.rejects(world.database.breakStatement(tx)))
        await world.database.effect(tx, 'after')
      })
      assertOutcome(await reader.deliver('a'), 'processed')
      await world.assertEffects(['a', 'after'])
    },
  },
]

export const atomicity: readonly Case[] = ofConnections([...atEachLevel(levels), ...once])

/** Neither a query nor a publish gets through. */
async function assertLate(world: World, ctx: Context | undefined): Promise<void> {
  assert.ok(ctx)
  await assertRejects((async () => world.database.effect(ctx.tx, 'late'))(), 'transaction-closed')
  await assertRejects(ctx.publish(Pong, { n: 1 }), 'transaction-closed')
  await assertRejects(world.hapax().publish(ctx.tx, Pong, { n: 1 }), 'transaction-closed')
  assert.ok(!(await world.database.effects()).includes('late'))
  assert.deepEqual(await world.database.outbox(), [])
}

/**
 * The handler that gave way was called again, still in its first attempt. How often is up to the database: the repeated handler may lock its
 * row before the other one, which waits for that row, has woken up; then they deadlock once more.
 */
function assertRunAgain(attempts: readonly number[]): void {
  assert.ok(attempts.length > 2, `expected a handler to run again, got ${attempts.length} calls`)
  assert.deepEqual([...new Set(attempts)], [1])
}

/** What may become of messages that deadlock: their outcomes, and the effects of one that was processed. */
interface Ends {
  readonly effects?: (id: string) => readonly string[]
  readonly may?: readonly string[]
}

/**
 * Two handlers lock two rows in opposite order; `second` gets the lock of the other row, and may write another effect. Returns the attempts of all
 * calls: at least one handler is called twice.
 */
async function deadlock(
  world: World,
  second: (locked: Promise<unknown>, beside: () => Promise<unknown>) => Promise<unknown>,
  { effects = (id) => [id], may = ['processed'] }: Ends = {},
): Promise<number[]> {
  const attempts: number[] = []
  const both = [gate(), gate()] as const
  const reader = async (mine: 1 | 2) => {
    const other = mine === 1 ? 2 : 1
    const handler = async ({ tx, message, attempt }: Context): Promise<void> => {
      attempts.push(attempt)
      await world.database.effect(tx, message.id)
      await world.database.lockRow(tx, mine)
      both[mine - 1]?.open()
      await both[other - 1]?.passed
      await second(world.database.lockRow(tx, other), () => world.database.effect(tx, `${message.id} beside`))
    }
    return world.reader(handler, { hapax: await world.rival() })
  }
  const [one, two] = await Promise.all([reader(1), reader(2)])
  const [a, b] = await Promise.all([one.deliver('a'), two.deliver('b')])
  for (const { status, error } of [a, b]) assert.ok(may.includes(status), `${status} ${error}`)
  const done = [a, b].map(({ status }, index) => (status === 'processed' ? effects(index === 0 ? 'a' : 'b') : []))
  await world.assertEffects(done.flat())
  return attempts
}

/** A message type whose schema takes its time. */
function slow(checked: Promise<void>): MessageType<Count> {
  const validate = async (value: unknown): Promise<{ value: Count }> => {
    await checked
    return { value: value as Count }
  }
  const schema: StandardSchema<Count> = { '~standard': { version: 1, vendor: 'hapax', validate } }
  return defineMessage('slow', { schema })
}
