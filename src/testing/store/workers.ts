import assert from 'node:assert/strict'
import { atEachLevel, type Case, parallelOnly } from './case.ts'
import { lossy } from './doubles.ts'
import { AT_ONCE, assertOutcome, assertRejects, due, gate, Ping, type World } from './world.ts'

const IDS = Array.from({ length: 20 }, (_, index) => `m${index}`)
const TYPES: ReadonlyMap<string, readonly string[]> = new Map([['billing', ['ping']]])

/** The seq of one message in the inbox. */
async function stored(world: World): Promise<string> {
  const reader = world.reader(undefined, { receive: 'store' })
  assertOutcome(await reader.deliver('a'), 'stored')
  const [row] = await world.store.due(TYPES, due())
  assert.ok(row)
  return row.seq
}

const levels: readonly Case[] = [
  {
    name: 'a stored message waits in the inbox and is handled by a worker',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      assertOutcome(await reader.deliver('a'), 'stored')
      assertOutcome(await reader.deliver('a'), 'duplicate')
      assert.deepEqual(reader.calls, [])
      await world.assertPlaces('a', ['inbox', 'receipt'])
      await world.drain(reader)
      assert.deepEqual(reader.calls, ['a'])
      await world.assertEffects(['a'])
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'two workers share an inbox, and each message takes effect once',
    needs: ['another store'],
    run: async (world) => {
      const one = world.reader(undefined, { receive: 'store' })
      const two = world.reader(undefined, { hapax: await world.rival() })
      await one.deliverMany(IDS)
      await Promise.all([world.drain(one), world.drain(two)])
      await world.assertEffects(IDS)
      assert.deepEqual(await one.hapax.failed.list(), [])
    },
  },
  {
    name: 'a row that is locked elsewhere is skipped, and one that is settled is gone',
    needs: ['another store'],
    run: async (world) => {
      const seq = await stored(world)
      const claim = { kind: 'claim', seqs: [seq], locked: 'skip' } as const
      const options = { isolation: world.isolation, lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
      const other = await world.database.another()
      const claimedElsewhere = () =>
        other.transaction(options, claim, async ({ claimed }) => ({ value: [...claimed], writes: undefined }))
      await world.store.transaction(options, claim, async ({ claimed }) => {
        assert.deepEqual([...claimed], [seq])
        if (world.features.parallelWriters) assert.deepEqual(await claimedElsewhere(), [])
        return { value: undefined, writes: {} }
      })
      assert.deepEqual(await claimedElsewhere(), [])
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'A1: a settled row whose commit had no answer is not run again',
    run: async (world) => {
      for (const cut of ['after', 'before'] as const) {
        const here = world.reader(undefined, { receive: 'store', name: cut })
        await here.deliver(cut)
        const hapax = world.hapax({ store: lossy(world.store, cut) })
        const reader = world.reader(undefined, { hapax, name: cut })
        await world.drain(reader)
        assert.deepEqual(reader.calls, cut === 'after' ? [cut] : [cut, cut])
      }
      await world.assertEffects(['after', 'before'])
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'a worker retries until a message succeeds',
    run: async (world) => {
      const reader = world.reader(
        async ({ tx, message, attempt }) => {
          await world.database.effect(tx, message.id)
          if (attempt < 8) throw new Error('not yet')
        },
        { retry: { ...AT_ONCE, attempts: 10 } },
      )
      const worker = await world.worker(reader)
      assertOutcome(await reader.deliver('a'), 'retrying')
      await worker.drain()
      await world.assertEffects(['a'])
      assert.equal(reader.calls.length, 8)
    },
  },
  {
    name: 'drain resolves when nothing is due, at once when there is nothing',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      const worker = await world.worker(reader)
      await worker.drain()
      await reader.deliverMany(IDS)
      await worker.drain()
      await world.assertEffects(IDS)
      await worker.stop()
      await worker.drain()
    },
  },
  {
    name: 'H11: stop waits for the handler that runs, and takes nothing new',
    run: async (world) => {
      const running = gate()
      const go = gate()
      const reader = world.reader(
        async ({ tx, message }) => {
          running.open()
          await go.passed
          await world.database.effect(tx, message.id)
        },
        { receive: 'store', concurrency: 1 },
      )
      await reader.deliverMany(['a', 'b'])
      const worker = await world.worker(reader)
      await running.passed
      const stopped = worker.stop()
      go.open()
      await stopped
      assert.equal((await world.database.effects()).length, 1)
      assert.equal(reader.calls.length, 1)
    },
  },
  {
    name: 'H11: stop gives up waiting at its deadline',
    run: async (world) => {
      const running = gate()
      const go = gate()
      const reader = world.reader(
        async () => {
          running.open()
          await go.passed
        },
        { receive: 'store' },
      )
      await reader.deliver('a')
      const worker = await world.worker(reader)
      await running.passed
      await worker.stop({ deadlineMs: 1 })
      go.open()
    },
  },
  {
    name: 'handlers of different messages run at the same time',
    skip: parallelOnly,
    run: async (world) => {
      const both = gate()
      let running = 0
      const reader = world.reader(
        async () => {
          if (++running === 2) both.open()
          await both.passed
        },
        { receive: 'store', concurrency: 2 },
      )
      await reader.deliverMany(['a', 'b'])
      await world.drain(reader)
      assert.equal(running, 2)
    },
  },
  {
    name: 'C2: a redelivered message runs from the inbox at once',
    run: async (world) => {
      const places: string[] = []
      const reader = world.reader()
      reader.hapax.events.on('stored', () => places.push('stored'))
      reader.hapax.events.on('processed', () => places.push('processed'))
      assertOutcome(await reader.deliver('a', { redelivered: true }), 'processed')
      assert.deepEqual(places, ['stored', 'processed'])
      assertOutcome(await reader.deliver('a', { redelivered: true }), 'duplicate')
      await world.assertEffects(['a'])
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'a redelivered message that fails is retried from its row',
    run: async (world) => {
      const reader = world.reader(async ({ tx, message, attempt }) => {
        if (attempt === 1) throw new Error('not yet')
        await world.database.effect(tx, message.id)
      })
      assertOutcome(await reader.deliver('a', { redelivered: true }), 'retrying')
      await world.drain(reader)
      await world.assertEffects(['a'])
      assert.deepEqual(reader.calls, ['a', 'a'])
    },
  },
  {
    name: 'due counts a start, answers no more rows than asked for, oldest first, and leaves those in hand alone',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      for (const id of ['a', 'b', 'c']) await reader.deliver(id)
      const first = await world.store.due(TYPES, due({ limit: 2 }))
      assert.deepEqual(
        first.map(({ message, starts, attempts }) => [message.id, starts, attempts]),
        [
          ['a', 1, 0],
          ['b', 1, 0],
        ],
      )
      const rest = await world.store.due(TYPES, due({ hideMs: 60_000 }))
      assert.deepEqual(
        rest.map(({ message }) => message.id),
        ['c'],
      )
      const [, again] = await world.store.due(TYPES, due({ started: true }))
      assert.deepEqual([again?.message.id, again?.starts], ['b', 2])
      const except = first.map(({ seq }) => seq)
      assert.deepEqual(await world.store.due(TYPES, due({ started: true, except })), [])
      assert.deepEqual(await world.store.due(new Map([['billing', ['pong']]]), due()), [])
      assert.deepEqual(await world.store.due(new Map([['others', ['ping']]]), due()), [])
      assert.equal(await world.store.nextDueMs(new Map([['others', ['ping']]])), undefined)
      assert.equal(await world.store.nextDueMs(TYPES), 0)
    },
  },
  {
    name: 'a row that another worker settled cannot be rescheduled or failed',
    run: async (world) => {
      const seq = await stored(world)
      const options = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
      await world.store.transaction(options, { kind: 'claim', seqs: [seq], locked: 'wait' }, async () => ({
        value: undefined,
        writes: {},
      }))
      const error = { name: 'Error', message: 'late' }
      assert.equal(await world.store.reschedule({ seq, attempts: 1, lost: 0, delayMs: 0, error }), false)
      assert.equal(await world.store.fail({ seq, attempts: 1, reason: 'permanent', error }), false)
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'counts receipts, waiting, retrying and failed by consumer',
    run: async (world) => {
      const hapax = world.hapax()
      const reader = world.reader((ctx) => (ctx.message.id === 'a' ? undefined : Promise.reject(new Error('no'))), {
        hapax,
        retry: { attempts: 2, minDelayMs: 60_000 },
      })
      await reader.deliver('a')
      await reader.deliver('b')
      await reader.deliver('c', { type: 'nobody' })
      await world.reader(undefined, { hapax, name: 'stock', receive: 'store' }).deliver('a')
      assert.deepEqual((await hapax.status()).consumers, [
        { consumer: 'billing', receipts: 3, waiting: 0, retrying: 1, failed: 1 },
        { consumer: 'stock', receipts: 1, waiting: 1, retrying: 0, failed: 0 },
      ])
    },
  },
  {
    name: 'rule 17: no handler may be added once a worker has started',
    run: async (world) => {
      const hapax = world.hapax()
      const consumer = hapax.consumer('billing')
      consumer.on(Ping, () => {})
      assert.throws(() => consumer.on(Ping, () => {}), { code: 'duplicate-handler' })
      const worker = await world.worker({ hapax, consumer })
      assert.throws(() => consumer.on(Ping, () => {}), { code: 'already-started' })
      await assertRejects(worker.start(), 'already-started')
    },
  },
]

export const workers: readonly Case[] = [...atEachLevel(levels), ...once]
