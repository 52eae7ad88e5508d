import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import { ALL_LANES, messageKey } from '../../../message/index.ts'
import { atEachLevel, type Case } from '../case.ts'
import { subscription } from '../doubles.ts'
import { assertOutcome, assertRejects, type Context, Ping, type Reader, type World } from '../world.ts'

const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

/** A consumer with order that has stored these messages: `a1` is the first of key `a`. */
async function stored(
  world: World,
  ids: readonly string[],
  order: 'wait' | 'skip' = 'wait',
  handler?: (ctx: Context) => unknown,
): Promise<Reader> {
  const reader = world.reader(handler, { order })
  const messages = ids.map((id) => ({ id, source: '/sender', type: 'ping', data: { n: 1 }, key: id.slice(0, 1) }))
  for (const outcome of await reader.consumer.handleMany(messages)) assertOutcome(outcome, 'stored')
  return reader
}

async function seqsOf(world: World, ids: readonly string[]): Promise<readonly string[]> {
  const seqs = await Promise.all(ids.map((id) => world.store.inbox.find('billing', messageKey('/sender', id))))
  return seqs.map((seq) => seq ?? assert.fail('it is not in the inbox'))
}

/** The ids that a claim of these messages gets; nothing is kept. */
async function claim(world: World, ids: readonly string[]): Promise<readonly string[]> {
  const seqs = await seqsOf(world, ids)
  const options = { ...OPTIONS, isolation: world.isolation }
  return world.store.transactions.run(options, { kind: 'claim', seqs, locked: 'skip' }, async ({ claimed }) => ({
    value: [...claimed.values()].map(({ message }) => message.id),
    writes: undefined,
  }))
}

/** Fails for good with the given ids, else writes the effect. */
function failing(world: World, ids: ReadonlySet<string>): (ctx: Context) => Promise<void> {
  return async ({ tx, message }) => {
    if (ids.has(message.id)) throw new Permanent('no')
    await world.database.effect(tx, message.id)
  }
}

const levels: readonly Case[] = [
  {
    name: 'D16: a row with order is claimed only together with all older rows of its key',
    run: async (world) => {
      await stored(world, ['a1', 'a2', 'a3', 'b1'])
      assert.deepEqual(await claim(world, ['a2']), [])
      assert.deepEqual(await claim(world, ['a2', 'a3']), [])
      assert.deepEqual(await claim(world, ['a1', 'a3']), ['a1'])
      assert.deepEqual(await claim(world, ['a3', 'b1', 'a1', 'a2']), ['a1', 'a2', 'a3', 'b1'])
      assert.deepEqual(await claim(world, ['b1', 'a3']), ['b1'])
    },
  },
  {
    name: 'C13: a row behind one that is taken elsewhere, or waits for its next attempt, is not claimed',
    needs: ['another store'],
    skip: ({ parallelWriters }) => (parallelWriters ? undefined : 'one writer at a time: two claims never meet'),
    run: async (world) => {
      await stored(world, ['a1', 'a2'])
      const [first] = (await seqsOf(world, ['a1'])) as [string]
      const other = await world.database.another()
      const options = { ...OPTIONS, isolation: world.isolation }
      await other.transactions.run(options, { kind: 'claim', seqs: [first], locked: 'skip' }, async ({ claimed }) => {
        assert.equal(claimed.size, 1)
        assert.deepEqual(await claim(world, ['a1', 'a2']), [])
        return { value: undefined, writes: undefined }
      })
      const error = { name: 'Error', message: 'later' }
      await world.store.inbox.reschedule({
        seq: first,
        attempts: 1,
        lost: 0,
        delayMs: 60_000,
        error,
        entry: '{}',
        leaseToken: null,
      })
      assert.deepEqual(await claim(world, ['a2']), [])
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'I6: effects of a key follow the order in which they were stored, through retries and with two workers',
    needs: ['another store'],
    run: async (world) => {
      const ids = ['a', 'b', 'c'].flatMap((key) => Array.from({ length: 15 }, (_, n) => `${key}${n}`))
      const done: string[] = []
      const flaky = async ({ tx, message, attempt }: Context): Promise<void> => {
        if (attempt < 3 && Number(message.id.slice(1)) % 5 === 1) throw new Error('not yet')
        await world.database.effect(tx, message.id)
        done.push(message.id)
      }
      const one = await stored(world, ids, 'wait', flaky)
      const two = world.reader(flaky, { order: 'wait', group: { size: 4 }, hapax: await world.rival() })
      await Promise.all([world.drain(one), world.drain(two)])
      const effects = await world.database.effects()
      assert.equal(effects.length, ids.length)
      for (const key of ['a', 'b', 'c']) {
        const last = done.filter((id) => id.startsWith(key))
        assert.deepEqual(
          [...new Set(last)],
          ids.filter((id) => id.startsWith(key)),
        )
      }
    },
  },
  {
    name: 'order wait: a message that failed for good holds its key and no other, until it is retried',
    run: async (world) => {
      const bad = new Set(['a1'])
      const reader = await stored(world, ['a1', 'a2', 'b1'], 'wait', failing(world, bad))
      const worker = await world.worker(reader)
      await worker.drain()
      await world.assertEffects(['b1'])
      const [failed] = await reader.hapax.failed.list()
      assert.deepEqual([failed?.message.id, failed?.held, failed?.reason], ['a1', true, 'permanent'])
      const [held] = await reader.hapax.keys.list()
      assert.deepEqual([held?.scope, held?.key, held?.id, held?.waiting], ['billing', 'a', 'a1', 1])
      bad.clear()
      await reader.hapax.failed.retry(failed?.seq as string)
      await worker.drain()
      await world.assertEffects(['a1', 'a2', 'b1'])
      assert.deepEqual(await reader.hapax.failed.list(), [])
      assert.deepEqual(await reader.hapax.keys.list(), [])
    },
  },
  {
    name: 'order wait: a held key continues when its message is discarded or the key is released',
    run: async (world) => {
      const bad = new Set(['a1', 'b1'])
      const reader = await stored(world, ['a1', 'a2', 'b1', 'b2'], 'wait', failing(world, bad))
      const worker = await world.worker(reader)
      await worker.drain()
      const failed = await reader.hapax.failed.list()
      await reader.hapax.failed.discard(failed.find(({ message }) => message.id === 'a1')?.seq as string)
      await reader.hapax.keys.release({ origin: 'inbox', scope: 'billing', key: 'b' })
      await worker.drain()
      await world.assertEffects(['a2', 'b2'])
      const left = await reader.hapax.failed.list()
      assert.deepEqual(
        left.map(({ message, held }) => [message.id, held]),
        [['b1', false]],
      )
    },
  },
  {
    name: 'C11: an edit takes the place of a held message, under another id, and the old one is kept',
    run: async (world) => {
      const bad = new Set(['a1'])
      const reader = await stored(world, ['a1', 'a2'], 'wait', failing(world, bad))
      const worker = await world.worker(reader)
      await worker.drain()
      const [failed] = await reader.hapax.failed.list()
      const { id } = await reader.hapax.failed.edit(failed?.seq as string, { n: 2 })
      await worker.drain()
      assert.deepEqual(await world.database.effects(), [id, 'a2'])
      const [old] = await reader.hapax.failed.list({ replaced: true })
      assert.deepEqual([old?.message.id, old?.replacedBy], ['a1', id])
    },
  },
  {
    name: 'order skip: a message that failed for good leaves its key, and finishes when it is retried',
    run: async (world) => {
      const bad = new Set(['a1'])
      const reader = await stored(world, ['a1', 'a2'], 'skip', failing(world, bad))
      const worker = await world.worker(reader)
      await worker.drain()
      assert.deepEqual(await world.database.effects(), ['a2'])
      bad.clear()
      const [failed] = await reader.hapax.failed.list()
      assert.equal(failed?.held, false)
      await reader.hapax.failed.retry(failed?.seq as string)
      await worker.drain()
      assert.deepEqual(await world.database.effects(), ['a2', 'a1'])
    },
  },
  {
    name: 'a look goes through all keys page by page, and shows only the head of one that is held or waits',
    run: async (world) => {
      const ids = Array.from({ length: 40 }, (_, n) => `${String.fromCharCode(0x4e00 + n)}1`)
      await stored(world, [...ids, ...ids.map((id) => `${id.slice(0, 1)}2`)])
      const seen = new Set<string>()
      let after: ReadonlyMap<number, string> = new Map()
      let looks = 0
      do {
        const look = await world.look({ limit: 4, lanes: ALL_LANES, after })
        for (const { seq } of look.entries) seen.add(seq)
        after = look.after
        looks += 1
      } while (after.size > 0 && looks < 100)
      assert.equal(seen.size, 80)
      const [head] = (await seqsOf(world, [ids[0] as string])) as [string]
      const error = { name: 'Error', message: 'no' }
      await world.store.inbox.fail({
        seq: head,
        attempts: 1,
        reason: 'permanent',
        error,
        entry: '{}',
        leaseToken: null,
        hold: true,
      })
      const { entries } = await world.look()
      const ofKey = entries.filter(({ key }) => key === (ids[0] as string).slice(0, 1))
      assert.deepEqual(
        ofKey.map(({ seq, held }) => [seq, held]),
        [[head, true]],
      )
      assert.equal(entries.length, 79)
    },
  },
  {
    name: 'a message without a key has no order to keep',
    run: async (world) => {
      const bad = new Set(['x'])
      const reader = world.reader(failing(world, bad), { order: 'wait' })
      await reader.deliver('x')
      await reader.deliver('y')
      await world.drain(reader)
      await world.assertEffects(['y'])
      assert.equal((await reader.hapax.failed.list())[0]?.held, false)
    },
  },
  {
    name: 'order from a subscription that cannot give it is refused, and from one that can is kept',
    run: async (world) => {
      const reader = world.reader(undefined, { order: 'wait' })
      const ids = Array.from({ length: 20 }, (_, n) => `a${n}`)
      const attributes = { source: '/sender', type: 'ping', key: 'a', data: { n: 1 } }
      const messages = ids.map((id) => ({ ...attributes, id }))
      const competing = reader.consumer.from(subscription(messages, false).subscription)
      await assertRejects(world.worker({ hapax: reader.hapax }, { consume: [competing] }), 'order-impossible')
      const single = subscription(messages, true)
      const consume = [reader.consumer.from(single.subscription)]
      const worker = await world.worker({ hapax: reader.hapax }, { consume })
      await world.until(async () => (await world.database.effects()).length === ids.length)
      assert.deepEqual(await world.database.effects(), ids)
      // A worker may have found a message before the process that stored it read the reply to its commit.
      await world.until(() => single.acked.length === ids.length)
      assert.deepEqual(single.acked, ids)
      await worker.stop()
    },
  },
  {
    name: 'order cannot be combined with direct deliveries or a delay',
    run: async (world) => {
      const hapax = world.hapax()
      assert.throws(() => hapax.consumer('a', { order: 'wait', receive: 'direct' }), { code: 'invalid-option' })
      const publish = (): Promise<unknown> =>
        hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { key: 'a', delayMs: 1_000 }))
      await assertRejects(publish(), 'invalid-option')
    },
  },
]

export const order: readonly Case[] = [...atEachLevel(levels), ...once]
