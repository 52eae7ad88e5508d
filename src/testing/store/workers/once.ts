import assert from 'node:assert/strict'
import { Permanent, RetryAfter } from '../../../base/index.ts'
import type { WorkedOnce } from '../../../contracts/index.ts'
import { LeapingClock } from '../../clock.ts'
import { feed } from '../../feed.ts'
import { until } from '../../wait.ts'
import type { Case } from '../case.ts'
import { TestDestination } from '../doubles.ts'
import { type AnyHapax, assertRejects, Ping, type Reader, type World } from '../world.ts'

/** Long enough for a busy machine: what is expected to end by itself ends long before. */
const MAX_MS = 60_000
const NOTHING: WorkedOnce = { processed: 0, sent: 0, retrying: 0, failed: 0, remaining: false }

/** Publishes pings to local consumers. */
async function publishLocally(hapax: AnyHapax, ids: readonly string[]): Promise<void> {
  const drafts = ids.map((id, n) => Ping.of({ n }, { id }))
  await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
}

function localReader(world: World, handler?: Parameters<World['reader']>[0], more = {}): Reader {
  return world.reader(handler, { hapax: world.hapax({ delivery: 'local' }), ...more })
}

const due: readonly Case[] = [
  {
    name: 'with nothing due, it ends by itself and leaves no worker behind',
    run: async (world) => {
      const { hapax, consumer } = world.reader()
      assert.deepEqual(
        await hapax.workOnce({ maxMs: MAX_MS, consume: [consumer], relay: new TestDestination() }),
        NOTHING,
      )
      assert.deepEqual((await hapax.status()).workers, [])
    },
  },
  {
    name: 'works what is due in inbox and outbox, and counts it',
    run: async (world) => {
      const { hapax, consumer } = localReader(world)
      const relays = { out: new TestDestination() }
      const ids = Array.from({ length: 30 }, (_, n) => `m${n}`)
      await publishLocally(hapax, ids)
      const sender = world.hapax({ relay: 'out' })
      await sender.transaction((tx) => sender.publish(tx, Ping, { n: 1 }, { id: 'sent' }))
      const worked = await hapax.workOnce({ maxMs: MAX_MS, consume: [consumer], relays })
      assert.deepEqual(worked, { ...NOTHING, processed: 30, sent: 1 })
      await world.assertEffects(ids)
      assert.deepEqual(relays.out.arrived, ['sent'])
      assert.deepEqual(await hapax.workOnce({ maxMs: MAX_MS, consume: [consumer], relays }), NOTHING)
      assert.deepEqual((await hapax.status()).workers, [])
    },
  },
  {
    name: 'works what leased consumers have to do',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const done: string[] = []
      const sms = hapax.leased('sms').on(Ping, async (_, ctx) => {
        done.push(await ctx.effect('send', async () => ctx.message.id))
      })
      await publishLocally(hapax, ['a', 'b'])
      assert.deepEqual(await hapax.workOnce({ maxMs: MAX_MS, consume: [sms] }), { ...NOTHING, processed: 2 })
      assert.deepEqual(done.sort(), ['a', 'b'])
    },
  },
  {
    name: 'what its handlers publish is worked as well',
    run: async (world) => {
      const { hapax, consumer } = localReader(world, async (ctx, { n }) => {
        await world.database.effect(ctx.tx, ctx.message.id)
        if (n > 0) await ctx.publish(Ping, { n: n - 1 }, { id: `n${n - 1}` })
      })
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 3 }, { id: 'n3' }))
      const worked = await hapax.workOnce({ maxMs: MAX_MS, consume: [consumer] })
      assert.deepEqual(worked, { ...NOTHING, processed: 4 })
      await world.assertEffects(['n3', 'n2', 'n1', 'n0'])
    },
  },
  {
    name: 'what fails for now or for good is counted, and a later attempt is not waited for',
    run: async (world) => {
      const { hapax, consumer } = localReader(world, ({ message }) => {
        if (message.id === 'later') throw new RetryAfter(3_600_000)
        throw new Permanent('never')
      })
      await publishLocally(hapax, ['later', 'never'])
      const worked = await hapax.workOnce({ maxMs: MAX_MS, consume: [consumer] })
      assert.deepEqual(worked, { ...NOTHING, retrying: 1, failed: 1 })
      await world.assertPlaces('later', ['inbox', 'receipt'])
      await world.assertPlaces('never', ['failed', 'receipt'])
    },
  },
]

const ends: readonly Case[] = [
  {
    name: 'ends in time although a handler does not, and its message runs again, once',
    run: async (world) => {
      let hanging = true
      const clock = new LeapingClock()
      const { hapax, consumer } = localReader(
        world,
        async (ctx) => {
          if (hanging) {
            // It has begun: from now on time flies, until it is cut off.
            const flying = setInterval(() => clock.leap(2_000), 5)
            const cut = new Promise((_, reject) =>
              ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)),
            )
            await cut.finally(() => clearInterval(flying))
          }
          await world.database.effect(ctx.tx, ctx.message.id)
        },
        { hapax: world.hapax({ delivery: 'local', clock }), timeoutMs: 600_000 },
      )
      await publishLocally(hapax, ['a'])
      const worked = await hapax.workOnce({ maxMs: MAX_MS, consume: [consumer] })
      assert.equal(worked.remaining, true)
      assert.equal(worked.processed, 0)
      await world.assertEffects([])
      hanging = false
      // It is due again after a while, as after any interruption.
      const again = async (): Promise<boolean> => {
        return (await hapax.workOnce({ maxMs: MAX_MS, consume: [consumer] })).processed === 1
      }
      await until(again, 'it is processed')
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'when the time is over, the rest is left for the next call, and nothing is lost or doubled',
    run: async (world) => {
      const ids = Array.from({ length: 60 }, (_, n) => `m${n}`)
      const clock = new LeapingClock()
      let begun = 0
      let flying: NodeJS.Timeout | undefined
      const { hapax, consumer } = localReader(
        world,
        async (ctx) => {
          await world.database.effect(ctx.tx, ctx.message.id)
          begun += 1
          // From the fifth on, time flies until the call has ended.
          if (begun === 5) flying = setInterval(() => clock.leap(2_000), 5)
          if (begun >= 5 && flying !== undefined) await new Promise((resolve) => setTimeout(resolve, 60))
        },
        { hapax: world.hapax({ delivery: 'local', clock }), concurrency: 1, group: { size: 1 }, timeoutMs: 600_000 },
      )
      await publishLocally(hapax, ids)
      const first = await hapax.workOnce({ maxMs: MAX_MS, consume: [consumer] })
      clearInterval(flying)
      flying = undefined
      assert.equal(first.remaining, true)
      assert.ok(first.processed < ids.length)
      // On a busy machine a handler may outlive the call that began it: it commits, and no call counts it.
      let processed = first.processed
      let remaining: boolean = first.remaining
      for (let calls = 0; calls < 100 && remaining; calls++) {
        const next = await hapax.workOnce({ maxMs: 20_000, consume: [consumer] })
        processed += next.processed
        remaining = next.remaining
      }
      assert.ok(processed <= ids.length)
      // One that was cut off at the end is due again only after a while.
      await until(async () => {
        await hapax.workOnce({ maxMs: MAX_MS, consume: [consumer] })
        return (await world.database.effects()).length >= ids.length
      }, 'all are processed')
      await world.assertEffects(ids)
    },
  },
  {
    name: 'two at once, as in two processes, share the work',
    run: async (world) => {
      const ids = Array.from({ length: 40 }, (_, n) => `m${n}`)
      const first = localReader(world)
      const { hapax } = first
      const readers = [first, world.reader(undefined, { hapax: await world.rival({ delivery: 'local' }) })]
      await publishLocally(hapax, ids)
      const calls = readers.flatMap((reader) => [reader, reader])
      const worked = await Promise.all(
        calls.map((each) => each.hapax.workOnce({ maxMs: MAX_MS, consume: [each.consumer] })),
      )
      for (const { remaining } of worked) assert.equal(remaining, false)
      await world.assertEffects(ids)
      assert.deepEqual((await hapax.status()).workers, [])
    },
  },
  {
    name: 'is refused with a source that only a broker knows the end of, without a limit, and with anything else',
    run: async (world) => {
      const { hapax, consumer } = world.reader()
      const source = consumer.from(feed([], {}).subscription)
      await assertRejects(hapax.workOnce({ maxMs: 1_000, consume: [source] }), 'invalid-option')
      await assertRejects(hapax.workOnce({ consume: [consumer] } as never), 'invalid-option')
      await assertRejects(hapax.workOnce({ maxMs: -1, consume: [consumer] }), 'invalid-option')
      await assertRejects(hapax.workOnce({ maxMs: 1, pollMs: 1, consume: [consumer] } as never), 'invalid-option')
      await assertRejects(hapax.workOnce({ maxMs: 1 }), 'invalid-option')
    },
  },
]

export const once: readonly Case[] = [...due, ...ends]
