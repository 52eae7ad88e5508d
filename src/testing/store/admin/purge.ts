import assert from 'node:assert/strict'
import type { Case } from '../case.ts'
import { type AnyHapax, assertRejects } from '../world.ts'
import { kept } from './kept.ts'

const HOUR_MS = 3_600_000

async function ids(hapax: AnyHapax): Promise<readonly string[]> {
  return (await hapax.sent.list()).map(({ message }) => message.id).sort()
}

const MESSAGES = [
  ['a', 'default'],
  ['b', 'partners'],
  ['c', 'default'],
] as const

export const purge: readonly Case[] = [
  {
    name: 'published messages are counted and deleted by filter, and the audit records who did it',
    run: async (world) => {
      const hapax = await kept(world, MESSAGES)
      const seen: number[] = []
      const onProgress = ({ purged }: { purged: number }): void => void seen.push(purged)
      assert.deepEqual(await hapax.sent.purge({ relay: 'default' }, { dryRun: true, onProgress }), { purged: 2 })
      assert.deepEqual(await ids(hapax), ['a', 'b', 'c'])
      assert.deepEqual(await hapax.sent.purge({ olderThanMs: HOUR_MS }), { purged: 0 })
      assert.deepEqual(await hapax.sent.purge({ relay: 'default' }, { by: { actor: 'ada' }, onProgress }), {
        purged: 2,
      })
      assert.deepEqual(seen, [2, 2])
      assert.deepEqual(await ids(hapax), ['b'])
      await world.until(async () => (await hapax.cleanupAudit({ olderThanMs: 1, dryRun: true })).audit === 1)
      assert.deepEqual(await hapax.sent.purge({ all: true }), { purged: 1 })
      assert.deepEqual(await ids(hapax), [])
    },
  },
  {
    name: 'nothing is purged that was not named, nor what has another mark',
    run: async (world) => {
      const hapax = await kept(world, MESSAGES)
      const [first] = await hapax.sent.list({ limit: 1 })
      const number = first?.seq.split('-')[0]
      assert.equal(await world.store.sent.purge([`${number}-1`, '999-1']), 0)
      assert.equal(await world.store.sent.purge([]), 0)
      assert.equal((await hapax.sent.list()).length, 3)
      for (const where of [{}, { all: false }, { relay: '' }, { all: true, relay: 'default' }]) {
        await assertRejects(hapax.sent.purge(where as { all: true }), 'invalid-option')
      }
      await assertRejects(hapax.sent.purge({ all: true }, { limit: 5 } as object), 'invalid-option')
    },
  },
  {
    name: 'old entries of the audit are counted and deleted in steps, and only they',
    run: async (world) => {
      const hapax = await kept(world, MESSAGES)
      for (const { seq } of await hapax.sent.list()) await hapax.sent.republish(seq)
      const step = (after?: string) => world.store.admin.clean({ kind: 'audit', after, dryRun: true }, 1, 2)
      await world.until(async () => (await step()).deleted === 2 && (await step((await step()).after)).deleted === 1)
      const first = await step()
      assert.deepEqual(await step(first.after), { deleted: 1, after: undefined })
      assert.deepEqual(await hapax.cleanupAudit({ olderThanMs: HOUR_MS }), { audit: 0 })
      assert.deepEqual(await hapax.cleanupAudit({ olderThanMs: 1, dryRun: true }), { audit: 3 })
      assert.deepEqual(await hapax.cleanupAudit({ olderThanMs: 1 }), { audit: 3 })
      // What was done is the one entry that is left.
      await world.until(async () => (await hapax.cleanupAudit({ olderThanMs: 1, dryRun: true })).audit === 1)
      await assertRejects(hapax.cleanupAudit({ olderThanMs: 0 }), 'invalid-option')
    },
  },
]
