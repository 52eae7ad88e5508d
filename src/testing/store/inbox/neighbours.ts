import assert from 'node:assert/strict'
import { isHapaxError } from '../../../base/index.ts'
import { settled } from '../../wait.ts'
import { atEachLevel, type Case, parallelOnly } from '../case.ts'
import { type AnyStore, assertOutcome, type Context, gate, type World } from '../world.ts'

const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
const DAY_MS = 86_400_000

/** Few rows: a database that finds them by reading the whole table meets those of others, and waits for them. */
const IDS = ['a', 'b', 'c', 'd']

/** Runs some work while a handler has this message in hand. */
async function duringSlow(world: World, slow: string, work: () => Promise<void>): Promise<void> {
  const [running, go] = [gate(), gate()]
  const reader = world.reader(
    async ({ tx, message }) => {
      await world.database.effect(tx, message.id)
      running.open()
      await go.passed
    },
    { hapax: await world.rival() },
  )
  const delivery = reader.deliver(slow)
  await running.passed
  try {
    await settled(work(), 'what does not concern a slow handler')
  } finally {
    go.open()
  }
  assertOutcome(await delivery, 'processed')
}

/** What a transaction claims and commits; the row that another one has in hand stays. */
function claim(world: World, store: AnyStore, seqs: readonly string[]): Promise<readonly string[]> {
  const opening = { kind: 'claim', seqs, locked: 'skip' } as const
  return store.transactions.run({ isolation: world.isolation, ...OPTIONS }, opening, async ({ claimed }) => ({
    value: [...claimed.keys()],
    writes: {},
  }))
}

const levels: readonly Case[] = [
  {
    name: 'K23: a slow handler does not hold up what two workers do beside it',
    needs: ['another store'],
    skip: parallelOnly,
    run: async (world) => {
      const [running, go] = [gate(), gate()]
      const handle = async ({ tx, message }: Context): Promise<void> => {
        await world.database.effect(tx, message.id)
        if (message.id !== 'b') return
        running.open()
        await go.passed
      }
      const one = world.reader(handle, { receive: 'store', concurrency: 4, group: { size: 2 } })
      const two = world.reader(handle, { concurrency: 4, group: { size: 2 }, hapax: await world.rival() })
      await one.deliverMany(IDS)
      const workers = [await world.worker(one), await world.worker(two)]
      try {
        await running.passed
        // One may be in the group of the slow one.
        await world.until(async () => (await world.database.effects()).length >= 2)
      } finally {
        go.open()
      }
      await Promise.all(workers.map((worker) => worker.drain()))
      await world.assertEffects(IDS)
    },
  },
  {
    name: 'K23: rows around one that is in hand are claimed and settled without it',
    needs: ['another store'],
    skip: parallelOnly,
    run: async (world) => {
      const other = await world.database.another()
      for (const slow of IDS) {
        const reader = world.reader(undefined, { receive: 'store' })
        await reader.deliverMany(IDS.map((id) => `${slow} ${id}`))
        const seqs = await world.due()
        assert.equal(seqs.length, IDS.length)
        const mine = seqs[IDS.indexOf(slow)] as string
        const opening = { kind: 'claim', seqs: [mine], locked: 'skip' } as const
        const slowly = world.store.transactions.run({ isolation: world.isolation, ...OPTIONS }, opening, async () => {
          const claimed = await settled(claim(world, other, seqs), 'the claim of rows beside a slow one')
          assert.deepEqual([...claimed].sort(), seqs.filter((seq) => seq !== mine).sort())
          return { value: undefined, writes: {} }
        })
        await slowly.catch(async (error: unknown) => {
          // SERIALIZABLE may give the slow one up at its commit; it is repeated.
          if (!isHapaxError(error, 'transaction-conflict')) throw error
          assert.deepEqual(await claim(world, world.store, [mine]), [mine])
        })
        assert.deepEqual(await world.due(), [])
      }
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'K23: old receipts are cleaned up beside one that a slow handler writes',
    needs: ['another store'],
    skip: parallelOnly,
    run: async (world) => {
      const reader = world.reader()
      for (const id of ['a', 'b', 'd']) await reader.deliver(id)
      await world.until(async () => (await world.cleanable('billing')) === 3)
      await duringSlow(world, 'c', async () => {
        assert.deepEqual(await reader.hapax.cleanup({ consumer: 'billing', olderThanMs: 1 }), { receipts: 3 })
      })
      await world.assertEffects(IDS)
    },
  },
  {
    name: 'K23: rows of a dead worker are marked beside one that a slow handler has in hand',
    needs: ['another store'],
    skip: parallelOnly,
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliverMany(IDS)
      const seqs = await world.due()
      const opening = { kind: 'claim', seqs: seqs.slice(1, 2), locked: 'skip' } as const
      await world.store.transactions.run(OPTIONS, opening, async () => {
        await settled(world.crash(seqs), 'the burial of a worker beside a slow handler')
        return { value: undefined, writes: undefined }
      })
      const unharmed = (await world.look()).entries.filter((entry) => entry.deaths === 0)
      assert.deepEqual(
        unharmed.map((entry) => entry.seq),
        opening.seqs,
      )
    },
  },
  {
    name: 'K23: failed attempts are recorded beside a message that a slow handler has in hand',
    needs: ['another store'],
    skip: parallelOnly,
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliverMany(IDS)
      const [slow = '', ...others] = await world.due()
      const other = await world.database.another()
      const error = { name: 'Error', message: 'no' }
      const attempt = { leaseToken: null, attempts: 1, lost: 0, delayMs: DAY_MS, error, entry: '{}' }
      const opening = { kind: 'claim', seqs: [slow], locked: 'skip' } as const
      await world.store.transactions.run(OPTIONS, opening, async () => {
        const recorded = Promise.all(others.map((seq) => other.inbox.reschedule({ seq, ...attempt })))
        assert.deepEqual(await settled(recorded, 'records beside a slow handler'), [true, true, true])
        return { value: undefined, writes: {} }
      })
    },
  },
]

export const neighbours: readonly Case[] = [...atEachLevel(levels), ...once]
