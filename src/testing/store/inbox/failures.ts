import assert from 'node:assert/strict'
import { Permanent, RetryAfter } from '../../../base/index.ts'
import { numberOf } from '../../../message/index.ts'
import { atEachLevel, type Case } from '../case.ts'
import { lossy } from '../doubles.ts'
import { AT_ONCE, assertOutcome, assertRejects, type Context, ping, type Reader, type World } from '../world.ts'

/** A reader whose handler writes its effect and then fails, while `failing` returns true. */
function failingReader(world: World, failing: (ctx: Context) => Error | undefined): Reader {
  return world.reader(async (ctx) => {
    await world.database.effect(ctx.tx, ctx.message.id)
    const error = failing(ctx)
    if (error !== undefined) throw error
  })
}

/** Puts messages into failed, and lets their handler succeed from then on. */
async function failedOnes(world: World, ids: readonly string[]): Promise<{ reader: Reader; seqs: readonly string[] }> {
  let failing = true
  const reader = failingReader(world, () => (failing ? new Permanent('never') : undefined))
  for (const id of ids) await reader.deliver(id)
  failing = false
  const failed = await reader.hapax.failed.list()
  return { reader, seqs: failed.map(({ seq }) => seq).reverse() }
}

const levels: readonly Case[] = [
  {
    name: 'C1: a failed attempt is recorded in its own transaction, and retried',
    run: async (world) => {
      const attempts: number[] = []
      const reader = failingReader(world, ({ attempt }) => {
        attempts.push(attempt)
        return attempt < 3 ? new Error('not yet') : undefined
      })
      assertOutcome(await reader.deliver('a'), 'retrying')
      await world.assertPlaces('a', ['inbox', 'receipt'])
      await world.assertEffects([])
      assertOutcome(await reader.deliver('a'), 'duplicate')
      await world.drain(reader)
      assert.deepEqual(attempts, [1, 2, 3])
      await world.assertEffects(['a'])
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'C1: attempts run out, and the message is in failed with its last error',
    run: async (world) => {
      const reader = failingReader(world, ({ attempt }) => new Error(`failure ${attempt}`))
      await reader.deliver('a')
      await world.drain(reader)
      const [failed] = await reader.hapax.failed.list()
      assert.deepEqual(
        [failed?.message.id, failed?.reason, failed?.attempts, failed?.error.message],
        ['a', 'attempts-exhausted', AT_ONCE.attempts, `failure ${AT_ONCE.attempts}`],
      )
      await world.assertEffects([])
      await world.assertPlaces('a', ['failed', 'receipt'])
    },
  },
  {
    name: 'C15: Permanent goes to failed at once',
    run: async (world) => {
      const reader = failingReader(world, () => new Permanent('no such customer'))
      const outcome = await reader.deliver('a')
      assertOutcome(outcome, 'failed')
      assert.equal(outcome.error?.message, 'no such customer')
      const [failed] = await reader.hapax.failed.list()
      assert.deepEqual([failed?.reason, failed?.attempts, failed?.error.name], ['permanent', 1, 'Permanent'])
      await world.assertEffects([])
    },
  },
  {
    name: 'C3: a message in failed is a duplicate when it comes again',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a'])
      assertOutcome(await reader.deliver('a'), 'duplicate')
      assertOutcome(await reader.deliver('a', { redelivered: true }), 'duplicate')
      await world.drain(reader)
      assert.deepEqual(reader.calls, ['a'])
      await world.assertPlaces('a', ['failed', 'receipt'])
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'C14: a delay is kept in the store',
    run: async (world) => {
      const reader = failingReader(world, () => new RetryAfter(60_000))
      assertOutcome(await reader.deliver('a'), 'retrying')
      const { nextMs: dueMs } = await world.look()
      assert.ok(dueMs !== undefined && dueMs > 30_000 && dueMs <= 60_000, `due in ${dueMs} ms`)
      const later = world.reader(undefined, { hapax: world.hapax() })
      await world.drain(later)
      assert.deepEqual(later.calls, [])
    },
  },
  {
    name: 'C9: the delay grows with the attempts and is written with the row',
    run: async (world) => {
      const reader = world.reader(() => Promise.reject(new Error('no')), {
        retry: { attempts: 5, minDelayMs: 10_000, maxDelayMs: 20_000, factor: 2 },
      })
      await reader.deliver('a')
      const [trace] = (await reader.hapax.explain('a')).filter((each) => each.where === 'inbox')
      const delayMs = Number(trace?.dueAt) - Number(trace?.at)
      assert.ok(delayMs > 9_000 && delayMs <= 20_000, `due after ${delayMs} ms`)
      assert.deepEqual([trace?.attempts, trace?.error?.message], [1, 'no'])
    },
  },
  {
    name: 'A1: a failure whose commit had no reply is recorded once',
    run: async (world) => {
      for (const cut of ['before', 'after'] as const) {
        const hapax = world.hapax({ store: lossy(world.store, cut) })
        const reader = world.reader(() => Promise.reject(new Error('no')), { hapax, name: cut })
        assertOutcome(await reader.deliver(cut), 'retrying')
        await world.assertPlaces(cut, ['inbox', 'receipt'])
      }
    },
  },
  {
    name: 'C2: a message that ends its process again and again goes to failed',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliver('a')
      for (let run = 0; run < 3; run++) await world.crash(await world.due(), true)
      await world.drain(reader)
      assert.deepEqual(reader.calls, [])
      const [failed] = await reader.hapax.failed.list()
      assert.deepEqual([failed?.message.id, failed?.reason], ['a', 'crash-loop'])
    },
  },
  {
    name: 'C2: a message that ended its process a few times still runs',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliver('a')
      for (let run = 0; run < 2; run++) await world.crash(await world.due(), true)
      for (let run = 0; run < 5; run++) await world.crash(await world.due())
      await world.drain(reader)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'C2: a recorded failure resets the starts',
    run: async (world) => {
      const reader = world.reader(() => Promise.reject(new Error('no')), { retry: { ...AT_ONCE, attempts: 12 } })
      await reader.deliver('a')
      await world.drain(reader)
      const [failed] = await reader.hapax.failed.list()
      assert.deepEqual([failed?.reason, failed?.attempts], ['attempts-exhausted', 12])
    },
  },
  {
    name: 'C4: a message of unknown type is in failed before it is acknowledged',
    run: async (world) => {
      const reader = world.reader()
      assertOutcome(await reader.deliver('a', { type: 'nobody' }), 'failed', 'unknown-type')
      const [failed] = await reader.hapax.failed.list()
      assert.deepEqual([failed?.message.type, failed?.reason, failed?.attempts], ['nobody', 'unknown-type', 0])
      await world.assertPlaces('a', ['failed', 'receipt'])
    },
  },
  {
    name: 'C5: undecodable bytes are in failed as they came',
    run: async (world) => {
      const reader = world.reader()
      const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)
      assertOutcome(await reader.deliver('a', { data: bytes }), 'failed', 'invalid-payload')
      const [failed] = await reader.hapax.failed.list()
      assert.deepEqual(Buffer.from(failed?.message.data ?? []), Buffer.from(bytes))
      assert.equal(failed?.reason, 'invalid-payload')
    },
  },
  {
    name: 'C10: a failed message that is retried runs once more',
    run: async (world) => {
      const { reader, seqs } = await failedOnes(world, ['a'])
      await reader.hapax.failed.retry(seqs[0] as string)
      await world.assertPlaces('a', ['inbox', 'receipt'])
      await world.drain(reader)
      await world.assertEffects(['a'])
      await world.assertPlaces('a', ['receipt'])
      assertOutcome(await reader.deliver('a'), 'duplicate')
    },
  },
  {
    name: 'C10: of two retries at once one finds nothing, and the message runs once',
    needs: ['another store'],
    run: async (world) => {
      const { reader, seqs } = await failedOnes(world, ['a'])
      const stores = [world.store, await world.database.another()]
      const retried = await Promise.all(
        stores.map((store) => store.failed.retry(seqs[0] as string, { actor: 'test', action: 'retry' })),
      )
      assert.deepEqual(retried.sort(), [false, true])
      await assertRejects(reader.hapax.failed.retry(seqs[0] as string), 'not-found')
      await world.drain(reader)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'C10: a retried message that fails again can be retried again',
    run: async (world) => {
      const reader = failingReader(world, () => new Permanent('never'))
      await reader.deliver('a')
      for (let run = 0; run < 3; run++) {
        const [failed] = await reader.hapax.failed.list()
        await reader.hapax.failed.retry(failed?.seq as string)
        await world.drain({ hapax: reader.hapax, consumer: reader.consumer })
      }
      assert.equal(reader.calls.length, 4)
      await world.assertPlaces('a', ['failed', 'receipt'])
    },
  },
  {
    name: 'C12: one bad row does not prevent others from running',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      const messages = ['a', 'bad', 'b'].map((id) => ping(id, id === 'bad' ? { data: Buffer.from('{') } : {}))
      for (const outcome of await reader.consumer.handleMany(messages)) assertOutcome(outcome, 'stored')
      await world.drain(reader)
      await world.assertEffects(['a', 'b'])
      const failed = await reader.hapax.failed.list()
      assert.deepEqual(
        failed.map(({ message, reason }) => [message.id, Buffer.from(message.data).toString(), reason]),
        [['bad', '{', 'invalid-payload']],
      )
    },
  },
  {
    name: 'discarding a failed message leaves its receipt: it cannot come back',
    run: async (world) => {
      const { reader, seqs } = await failedOnes(world, ['a'])
      await reader.hapax.failed.discard(seqs[0] as string)
      await assertRejects(reader.hapax.failed.discard(seqs[0] as string), 'not-found')
      await world.assertPlaces('a', ['receipt'])
      assertOutcome(await reader.deliver('a'), 'duplicate')
    },
  },
  {
    name: 'lists failed messages newest first, by consumer, type, reason and page',
    run: async (world) => {
      const { reader, seqs } = await failedOnes(world, ['a', 'b', 'c'])
      await reader.deliver('d', { type: 'other' })
      const { failed } = reader.hapax
      const ids = async (query: Parameters<typeof failed.list>[0]) =>
        (await failed.list(query)).map(({ message }) => message.id)
      assert.deepEqual(await ids({}), ['d', 'c', 'b', 'a'])
      assert.deepEqual(await ids({ limit: 2 }), ['d', 'c'])
      assert.deepEqual(await ids({ before: seqs[1] as string }), ['a'])
      assert.deepEqual(await ids({ type: 'other' }), ['d'])
      assert.deepEqual(await ids({ reason: 'permanent', limit: 1 }), ['c'])
      assert.deepEqual(await ids({ consumer: 'nobody' }), [])
      assert.equal((await failed.get(seqs[0] as string))?.message.id, 'a')
      assert.equal(await failed.get('999999-1'), undefined)
    },
  },
  {
    name: 'onError rollback keeps nothing: the caller delivers again',
    run: async (world) => {
      let failing = true
      const reader = world.reader(
        async ({ tx, message }) => {
          await world.database.effect(tx, message.id)
          if (failing) throw new Error('not now')
        },
        { onError: 'rollback' },
      )
      assertOutcome(await reader.deliver('a'), 'rolled-back')
      await world.assertPlaces('a', [])
      failing = false
      assertOutcome(await reader.deliver('a'), 'processed')
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'C15: onError rollback still keeps what can never succeed',
    run: async (world) => {
      const reader = world.reader(() => Promise.reject(new Permanent('never')), { onError: 'rollback' })
      assertOutcome(await reader.deliver('a'), 'failed')
      await world.assertPlaces('a', ['failed', 'receipt'])
    },
  },
  {
    name: 'H17: a seq beyond 2^53 stays exact',
    connection: true,
    needs: ['setting seq'],
    run: async (world) => {
      await world.database.setSeq('9007199254740993')
      const { reader, seqs } = await failedOnes(world, ['a', 'b'])
      assert.ok(BigInt(numberOf(seqs[0] as string)) >= 9007199254740993n)
      await reader.hapax.failed.retry(seqs[0] as string)
      await world.assertPlaces('a', ['inbox', 'receipt'])
      await world.assertPlaces('b', ['failed', 'receipt'])
      const [seq] = await world.due()
      assert.ok(BigInt(numberOf(seq as string)) >= 9007199254740993n)
      await world.drain(reader)
      await world.assertEffects(['a'])
    },
  },
]

export const failures: readonly Case[] = [...atEachLevel(levels), ...once]
