import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import type { Case } from '../case.ts'
import { seqOf } from '../leased/world.ts'
import { assertOutcome, type World } from '../world.ts'

const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

/** Stores a1, a2, a3 and b1 in that order, keyed by their first letter; a1 has failed for good and is held. */
async function withHeldHead(world: World): Promise<ReadonlyMap<string, string>> {
  const reader = world.reader(
    () => {
      throw new Permanent('never')
    },
    { receive: 'store', order: 'wait' },
  )
  const deliver = (id: string) => reader.deliver(id, { key: id.slice(0, 1) })
  assertOutcome(await deliver('a1'), 'stored')
  await world.drain(reader)
  for (const id of ['a2', 'a3', 'b1']) assertOutcome(await deliver(id), 'stored')
  const [failed] = await reader.hapax.failed.list()
  assert.deepEqual([failed?.message.id, failed?.held], ['a1', true])
  const seqs = new Map<string, string>()
  for (const id of ['a1', 'a2', 'a3', 'b1']) seqs.set(id, await seqOf(world, id))
  return seqs
}

/** The ids of the given rows that a handler's transaction claims; it is rolled back. */
async function claimed(world: World, seqs: readonly string[]): Promise<readonly string[]> {
  let ids: readonly string[] = []
  const end = world.store.transactions.run(OPTIONS, { kind: 'claim', seqs, locked: 'skip' }, async (unit) => {
    ids = [...unit.claimed.values()].map(({ message }) => message.id)
    throw new Error('undone')
  })
  await assert.rejects(end, { message: 'undone' })
  return ids
}

/** Rows as an earlier look found them, one of which has been held since. */
const CHOICES: readonly (readonly [ids: readonly string[], theirs: readonly string[]])[] = [
  [['a1'], []],
  [['a2'], []],
  [['a1', 'a2'], []],
  [['a2', 'a3'], []],
  [['a1', 'a2', 'a3', 'b1'], ['b1']],
]

/** Rows that are held after a look has found them, and before they are taken. */
export const heldRows: readonly Case[] = [
  {
    name: 'C13: a claim gets neither a row that was held after the look, nor a later one of its key',
    run: async (world) => {
      const seqs = await withHeldHead(world)
      for (const [ids, theirs] of CHOICES) {
        const asked = ids.map((id) => seqs.get(id) as string)
        assert.deepEqual(await claimed(world, asked), theirs, `a claim of ${ids}`)
      }
    },
  },
  {
    name: 'C13: a lease gets neither a row that was held after the look, nor a later one of its key',
    run: async (world) => {
      const seqs = await withHeldHead(world)
      for (const [ids, theirs] of CHOICES) {
        const asked = ids.map((id) => seqs.get(id) as string)
        const rows = await world.store.inbox.lease(asked, crypto.randomUUID(), 60_000)
        assert.deepEqual(
          rows.map(({ message }) => message.id),
          theirs,
          `a lease of ${ids}`,
        )
      }
    },
  },
]
