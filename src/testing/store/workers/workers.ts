import assert from 'node:assert/strict'
import { ALL_LANES, messageKey } from '../../../message/index.ts'
import { atEachLevel, type Case, parallelOnly } from '../case.ts'
import { lossy } from '../doubles.ts'
import { AT_ONCE, assertOutcome, assertRejects, gate, Ping, Pong, ping, statuses, type World } from '../world.ts'

const IDS = Array.from({ length: 20 }, (_, index) => `m${index}`)
/** The leased consumers of a service that calls many providers. */
const PROVIDERS = Array.from({ length: 13 }, (_, index) => `provider${index}`)
const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

/** The seq of one message in the inbox. */
async function stored(world: World): Promise<string> {
  const reader = world.reader(undefined, { receive: 'store' })
  assertOutcome(await reader.deliver('a'), 'stored')
  const [entry] = (await world.look()).entries
  assert.ok(entry)
  return entry.seq
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
      const options = { isolation: world.isolation, ...OPTIONS }
      const other = await world.database.another()
      const claimedElsewhere = () =>
        other.transactions.run(options, claim, async ({ claimed }) => ({
          value: [...claimed.keys()],
          writes: undefined,
        }))
      await world.store.transactions.run(options, claim, async ({ claimed }) => {
        assert.deepEqual([...claimed.keys()], [seq])
        assert.equal(claimed.get(seq)?.message.id, 'a')
        if (world.features.parallelWriters) assert.deepEqual(await claimedElsewhere(), [])
        return { value: undefined, writes: {} }
      })
      assert.deepEqual(await claimedElsewhere(), [])
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'A1: a settled row whose commit had no reply is not run again',
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
    name: 'H11: stop stops waiting at its deadline',
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
    name: 'a look lists what is due in the given lanes and types, oldest first, and when the next one is due',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      world.reader(undefined, { hapax })
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { delayMs: 3_600_000 }))
      assert.deepEqual((await world.look()).entries, [])
      const ids: string[] = []
      for (let n = 0; n < 3; n++) {
        ids.push(await hapax.transaction(async (tx) => (await hapax.publish(tx, Ping, { n })).id))
      }
      const { entries, nextMs } = await world.look()
      const seqs = entries.map((entry) => entry.seq)
      assert.equal(seqs.length, 3)
      const trace = await Promise.all(ids.map((id) => world.store.inbox.find('billing', messageKey('/test', id))))
      assert.deepEqual(seqs, trace)
      assert.ok(nextMs !== undefined && nextMs > 3_000_000 && nextMs <= 3_600_000, `${nextMs}`)
      for (const { key, type, held, deaths, dueMs, bytes } of entries) {
        assert.deepEqual({ key, type, held, deaths }, { key: null, type: 'ping', held: false, deaths: 0 })
        assert.ok(dueMs <= 0 && bytes > 0)
      }
      const lanes = [...new Set(entries.map((entry) => entry.lane))]
      const others = ALL_LANES.filter((lane) => !lanes.includes(lane))
      assert.deepEqual((await world.look({ lanes: others })).entries, [])
      assert.deepEqual((await world.look({ lanes: [] })).entries, [])
      assert.equal((await world.look({ lanes })).entries.length, 3)
      assert.deepEqual((await world.look({ types: ['pong'] })).entries, [])
      assert.deepEqual((await world.look({ scope: 'others' })).entries, [])
      assert.deepEqual((await world.look({ table: 'outbox' })).entries, [])
    },
  },
  {
    name: 'a type has its own retry policy',
    run: async (world) => {
      const hapax = world.hapax()
      const consumer = hapax.consumer('billing', { retry: AT_ONCE })
      const calls: string[] = []
      const fail = (_data: unknown, { message }: { message: { type: string } }): never => {
        calls.push(message.type)
        throw new Error('no')
      }
      consumer.on(Ping, fail, { retry: { attempts: 1 } })
      consumer.on(Pong, fail)
      const worker = await world.worker({ hapax, consumer })
      const message = { source: '/sender', data: { n: 1 } }
      assertOutcome(await consumer.handle({ ...message, id: 'a', type: 'ping' }), 'failed')
      assertOutcome(await consumer.handle({ ...message, id: 'b', type: 'pong' }), 'retrying')
      await worker.drain()
      assert.deepEqual(calls, ['ping', 'pong', 'pong', 'pong'])
      assert.throws(() => hapax.consumer('other').on(Ping, fail, { retry: { attempts: 0 } }), {
        code: 'invalid-option',
      })
    },
  },
  {
    name: 'a worker refuses to start where the pool is too small for its handlers',
    skip: ({ pool }) => (pool === undefined ? 'the size of the pool is not known' : undefined),
    run: async (world) => {
      const reader = world.reader(undefined, { concurrency: 1_000 })
      await assertRejects(world.worker(reader), 'pool-too-small')
    },
  },
  {
    name: 'K9: leased handlers hold no connection during their calls: 13 of them and a transaction share a pool of four',
    open: { connections: 4 },
    run: async (world) => {
      const hapax = world.hapax()
      const { consumer: billing } = world.reader(undefined, { hapax })
      const all = gate()
      let calling = 0
      const leased = PROVIDERS.map((name) =>
        hapax.leased(name).on(Ping, (_, ctx) =>
          ctx.effect('send', async () => {
            calling += 1
            if (calling === PROVIDERS.length) all.open()
            await all.passed
          }),
        ),
      )
      const worker = await world.worker({ hapax }, { consume: [billing, ...leased] })
      const outcomes = await Promise.all([billing, ...leased].map((consumer) => consumer.handle(ping('a'))))
      // The worker may lease a message before its `handle` does.
      const left = statuses(outcomes).filter((status) => status !== 'processed' && status !== 'stored')
      assert.deepEqual(left, [])
      await worker.drain()
      assert.equal(calling, PROVIDERS.length)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'I13: a worker refuses receipts that are forgotten before the last retry',
    run: async (world) => {
      const reader = world.reader(undefined, {
        retentionMs: 60_000,
        retry: { attempts: 10, minDelayMs: 60_000, maxDelayMs: 60_000 },
      })
      await assert.rejects(world.worker(reader), (error: Error) => {
        assert.match(
          error.message,
          /retentionMs of billing to be at least 540000 \(9 minutes\).*got 60000 \(1 minutes\)/,
        )
        return true
      })
    },
  },
  {
    name: 'a row that another worker settled cannot be rescheduled or failed',
    run: async (world) => {
      const seq = await stored(world)
      await world.store.transactions.run(OPTIONS, { kind: 'claim', seqs: [seq], locked: 'wait' }, async () => ({
        value: undefined,
        writes: {},
      }))
      const error = { name: 'Error', message: 'late' }
      assert.equal(
        await world.store.inbox.reschedule({
          seq,
          attempts: 1,
          lost: 0,
          delayMs: 0,
          error,
          entry: '{}',
          leaseToken: null,
        }),
        false,
      )
      assert.equal(
        await world.store.inbox.fail({
          seq,
          attempts: 1,
          reason: 'permanent',
          error,
          entry: '{}',
          leaseToken: null,
          hold: false,
        }),
        false,
      )
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
      const { consumers } = await hapax.status()
      assert.deepEqual(
        consumers.map(({ oldestAt: _, ...counts }) => counts),
        [
          { consumer: 'billing', waiting: 0, retrying: 1, held: 0, failed: 1, unknownEffects: 0, estimated: false },
          { consumer: 'stock', waiting: 1, retrying: 0, held: 0, failed: 0, unknownEffects: 0, estimated: false },
        ],
      )
    },
  },
  {
    name: 'rule 17: no handler may be added once a worker has started',
    run: async (world) => {
      const hapax = world.hapax()
      const consumer = hapax.consumer('billing')
      consumer.on(Ping, () => {})
      assert.throws(() => consumer.on(Ping, () => {}), { code: 'duplicate-handler' })
      assert.throws(() => consumer.onFailed(Pong, () => {}), { code: 'invalid-option' })
      consumer.onFailed(Ping, () => {})
      assert.throws(() => consumer.onFailed(Ping, () => {}), { code: 'duplicate-handler' })
      const worker = await world.worker({ hapax, consumer })
      assert.throws(() => consumer.on(Ping, () => {}), { code: 'already-started' })
      assert.throws(() => consumer.onFailed(Ping, () => {}), { code: 'already-started' })
      await assertRejects(worker.start(), 'already-started')
    },
  },
]

export const workers: readonly Case[] = [...atEachLevel(levels), ...once]
