import assert from 'node:assert/strict'
import { assertOutcome, ping } from '../store/world.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import { type ClaimWorld, ERROR } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

/** An owner of the message dies. */
async function crash(world: ClaimWorld, id: string): Promise<void> {
  await world.lease(id, { leaseMs: 1 })
}

/** The number of deaths so far, as reported to a process that claims the message now. */
async function taken(world: ClaimWorld, id: string) {
  let found: Awaited<ReturnType<typeof world.claim>> | undefined
  await until(async () => {
    found = await world.claim(id)
    return found.kind === 'ours'
  })
  return found?.kind === 'ours' ? found : assert.fail()
}

/** Owners that die, and owners that put the message back in between. */
export const crashes: readonly Case[] = [
  {
    name: 'C2: a message that is put back untried between crashes keeps its crash count, up to the crash loop',
    run: async (world) => {
      for (let death = 1; death <= 3; death++) {
        await crash(world, 'a')
        const { lease, crashes: seen } = await taken(world, 'a')
        assert.equal(seen, death)
        const untried = { attempts: 0, crashes: seen, delayMs: 0, error: ERROR, entry: '' }
        assert.ok(await world.store.claims.release(lease, untried))
      }
      const sms = world.sms(() => assert.fail('called once more'))
      assertOutcome(await sms.handle(ping('a')), 'failed', 'crash-loop')
    },
  },
  {
    name: 'C2: an ordinary failure after a crash clears the suspicion',
    run: async (world) => {
      await crash(world, 'a')
      const { lease, crashes: seen } = await taken(world, 'a')
      assert.equal(seen, 1)
      assert.ok(await world.store.claims.release(lease, { attempts: 1, delayMs: 0, error: ERROR, entry: '{}' }))
      assert.equal((await taken(world, 'a')).crashes, 0)
    },
  },
]
