import assert from 'node:assert/strict'
import { LeapingClock } from '../../clock.ts'
import { settled } from '../../wait.ts'
import type { Case } from '../case.ts'
import type { Need } from '../harness.ts'
import { assertOutcome, type Context, gate, Pong, type Reader, type World } from '../world.ts'

const CONNECTIONS = 2
const TIMEOUT_MS = 60_000

/** A way to fail, and what a reader has to report. */
interface Failure {
  readonly what: string
  readonly needs?: readonly Need[]
  readonly times?: number
  fail(world: World, ctx: Context): unknown
  expect(world: World): Parameters<typeof assertOutcome>[1] | 'aborted'
}

const failures: readonly Failure[] = [
  { what: 'an error of the handler', fail: () => Promise.reject(new Error('no')), expect: () => 'retrying' },
  {
    what: 'an error of a statement',
    fail: (world, { tx }) => world.database.breakStatement(tx),
    expect: () => 'retrying',
  },
  {
    what: 'an error of a statement that is swallowed',
    fail: (world, { tx }) => world.database.breakStatement(tx).catch(() => {}),
    expect: ({ features }) => (features.errorsAbort ? 'retrying' : 'processed'),
  },
  {
    what: 'a commit by the handler',
    needs: ['ending the transaction'],
    fail: (world, { tx }) => world.database.commitInside(tx),
    expect: () => 'failed',
  },
  {
    what: 'a rollback by the handler',
    needs: ['ending the transaction'],
    fail: (world, { tx }) => world.database.rollbackInside(tx),
    expect: () => 'failed',
  },
  {
    what: 'a publish that is refused',
    fail: (_world, { publish }) => publish(Pong, 1n as never),
    expect: () => 'failed',
  },
  {
    what: 'a session that was ended',
    needs: ['sessions'],
    fail: (world, { tx }) => world.database.server?.end(tx),
    expect: () => 'rolled-back',
  },
  {
    what: 'something that was left open',
    needs: ['something left open'],
    // A connection waits a second for it.
    times: 2,
    fail: (world, { tx }) => void world.database.leaveOpen(tx),
    expect: () => 'retrying',
  },
]

/** All connections of the pool can be had at the same time, and no session is left in a transaction. */
async function assertAllUsable(world: World): Promise<void> {
  const count = world.features.parallelWriters ? CONNECTIONS : 1
  const hapax = world.hapax({ acquireMs: 30_000 })
  const there = Array.from({ length: count }, gate)
  const all = there.map(({ open }, index) =>
    hapax.transaction(async (tx) => {
      await world.database.effect(tx, `usable ${index}`)
      open()
      await Promise.all(there.map(({ passed }) => passed))
    }),
  )
  await settled(Promise.all(all), 'every connection of the pool is in use at the same time')
  const { server } = world.database
  if (server === undefined || 'sessions' in world.features.cannot) return
  // A pool closes those that it has not used for a while, so the last look may find none.
  let most = 0
  await world.until(async () => {
    const { open, inTransaction } = await server.sessions()
    most = Math.max(most, open)
    return inTransaction === 0 && open <= CONNECTIONS
  })
  assert.ok(most > 0, 'the sessions of the pool are found at the server')
}

async function timedOut(world: World, reader: (late: (ctx: Context) => Promise<void>, clock: LeapingClock) => Reader) {
  for (let n = 0; n < 5; n++) {
    const over = gate()
    const clock = new LeapingClock()
    const late = async ({ tx, message, signal }: Context): Promise<void> => {
      await world.database.effect(tx, message.id)
      signal.addEventListener('abort', over.open)
      clock.leap(TIMEOUT_MS)
      await over.passed
      // It goes on, and nobody listens.
      await (async () => world.database.effect(tx, 'late'))().catch(() => {})
    }
    assertOutcome(await reader(late, clock).deliver(`m${n}`), 'retrying', 'handler-timeout')
  }
}

export const leaks: readonly Case[] = [
  ...failures.map(
    ({ what, needs = [], times = 5, fail, expect }): Case => ({
      name: `K5: the connection is given back after ${what}`,
      needs,
      open: { connections: CONNECTIONS },
      run: async (world) => {
        const reader = world.reader(async (ctx) => {
          await world.database.effect(ctx.tx, 'written')
          await fail(world, ctx)
        })
        for (let n = 0; n < times; n++) {
          const { status, error } = await reader.deliver(`m${n}`)
          assert.equal(status, expect(world), `${status} ${error ?? ''}`)
        }
        await assertAllUsable(world)
      },
    }),
  ),
  {
    name: 'K5: the connection is given back after a handler that timed out, and nothing of it is kept',
    open: { connections: CONNECTIONS },
    run: async (world) => {
      await timedOut(world, (late, clock) =>
        world.reader(late, { timeoutMs: TIMEOUT_MS, hapax: world.hapax({ clock }) }),
      )
      await assertAllUsable(world)
      const kept = (await world.database.effects()).filter((label) => !label.startsWith('usable'))
      assert.deepEqual(kept, [])
    },
  },
]
