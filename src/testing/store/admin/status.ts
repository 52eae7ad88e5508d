import assert from 'node:assert/strict'
import { HapaxError, Permanent } from '../../../base/index.ts'
import type { StoreStatus } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import { type AnyHapax, assertRejects, Ping, Pong, type World } from '../world.ts'

const HOUR_MS = 3_600_000

const counts = ({ consumers }: StoreStatus, name: string) => {
  const { consumer: _, oldestAt: __, ...rest } = consumers.find(({ consumer }) => consumer === name) ?? {}
  return rest
}

/** A consumer whose messages wait for a worker that does not come. */
function stored(world: World, hapax: AnyHapax, name: string, order?: 'wait') {
  return world.reader(undefined, { hapax, name, receive: 'store', ...(order === undefined ? {} : { order }) })
}

export const status: readonly Case[] = [
  {
    name: 'status counts what waits, retries, is held and has failed, by consumer, relay and reason',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'relay' })
      const failing = world.reader(
        ({ message }) => {
          if (message.id.startsWith('bad')) throw new Permanent('bad')
          if (message.id === 'maybe') throw new HapaxError('unknown-effect', 'nobody knows')
          throw new Error('not yet')
        },
        { hapax, retry: { attempts: 5, minDelayMs: HOUR_MS } },
      )
      for (const id of ['bad 1', 'bad 2', 'maybe', 'again']) await failing.deliver(id)
      const kept = stored(world, hapax, 'stock', 'wait')
      for (const id of ['a', 'b', 'c']) await kept.deliver(id, { key: 'k' })
      const [first] = (await world.look({ scope: 'stock' })).entries
      const refused = { reason: 'permanent', error: { name: 'Error', message: 'no' }, leaseToken: null, entry: '{}' }
      await world.store.inbox.fail({ seq: first?.seq ?? '', attempts: 1, ...refused, hold: true })
      await hapax.transaction((tx) => hapax.publishMany(tx, [Pong.of({ n: 1 }), Pong.of({ n: 2 })]))
      const [outgoing] = (await world.look({ table: 'outbox', scope: 'default' })).entries
      const nacked = {
        seq: outgoing?.seq ?? '',
        delayMs: HOUR_MS,
        error: { name: 'Error', message: 'nacked' },
        entry: '{}',
      }
      await world.store.outbox.postpone([nacked])
      const found = await hapax.status()
      const nothing = { waiting: 0, retrying: 0, held: 0, failed: 0, unknownEffects: 0, estimated: false }
      assert.deepEqual(counts(found, 'billing'), { ...nothing, retrying: 1, failed: 3, unknownEffects: 1 })
      assert.deepEqual(counts(found, 'stock'), { ...nothing, waiting: 2, held: 1, failed: 1 })
      assert.deepEqual(
        found.relays.map(({ oldestAt: _, destination: __, ...rest }) => rest),
        [{ relay: 'default', waiting: 2, retrying: 1, held: 0, failed: 0, estimated: false }],
      )
      assert.deepEqual(
        found.failed.map(({ origin, scope, reason, count }) => `${origin} ${scope} ${reason} ${count}`).sort(),
        ['inbox billing permanent 2', 'inbox billing unknown-effect 1', 'inbox stock permanent 1'],
      )
      const exact = await hapax.status({ exact: true })
      assert.deepEqual(counts(exact, 'billing'), { ...counts(found, 'billing'), receipts: 4 })
      assert.deepEqual(counts(exact, 'stock'), { ...counts(found, 'stock'), receipts: 3 })
      assert.deepEqual(
        exact.consumers.map(({ oldestAt }) => oldestAt),
        found.consumers.map(({ oldestAt }) => oldestAt),
      )
      assert.deepEqual([exact.relays, exact.failed.length], [found.relays, found.failed.length])
      const rows = new Map(exact.tables.map((each) => [each.table, each.rows]))
      assert.deepEqual(
        ['inbox', 'outbox', 'failed', 'receipts', 'sent'].map((table) => rows.get(table as never)),
        [4, 2, 4, 7, 0],
      )
      await assertRejects(
        Promise.resolve().then(() => hapax.status({ exactly: true } as never)),
        'invalid-option',
      )
    },
  },
  {
    name: 'the oldest message of a consumer or relay is the one that has waited longest, not one that is held, or not due',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'relay' })
      const oldest = async (name: string): Promise<number | undefined> => {
        const [quick, exact] = [await hapax.status(), await hapax.status({ exact: true })].map(
          ({ consumers, relays }) =>
            [...consumers, ...relays].find((each) => ('relay' in each ? each.relay : each.consumer) === name),
        )
        assert.deepEqual(quick?.oldestAt, exact?.oldestAt)
        return quick?.oldestAt?.getTime()
      }
      const local = world.hapax({ delivery: 'local' })
      await world.worker({ hapax: local, consumer: local.consumer('later').on(Ping, () => {}) })
      await local.transaction((tx) => local.publish(tx, Ping, { n: 1 }, { delayMs: HOUR_MS }))
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { relay: 'slow', delayMs: HOUR_MS }))
      assert.equal(await oldest('later'), undefined)
      assert.equal(await oldest('slow'), undefined)
      for (const [name, order] of [
        ['loose', undefined],
        ['keyed', 'wait'],
      ] as const) {
        const reader = stored(world, hapax, name, order)
        const begun = (await hapax.status()).at.getTime()
        await reader.deliver('a', { key: 'k' })
        const first = Number(await oldest(name))
        const ended = (await hapax.status()).at.getTime()
        assert.ok(first >= begun && first <= ended, `${begun} <= ${first} <= ${ended}`)
        const [entry] = (await world.look({ scope: name })).entries
        const a = entry?.seq ?? ''
        await world.until(async () => (await hapax.status()).at.getTime() > first + 1)
        for (const id of ['b', 'c']) await reader.deliver(id, { key: 'k' })
        assert.equal(await oldest(name), first)
        // Once it has failed, it waits since it was stored, however late its next attempt is.
        const error = { name: 'Error', message: 'no' }
        await world.store.inbox.reschedule({
          seq: a,
          attempts: 1,
          lost: 0,
          delayMs: HOUR_MS,
          error,
          leaseToken: null,
          entry: '{}',
        })
        assert.ok(Math.abs(Number(await oldest(name)) - first) <= 1)
        const end = { attempts: 2, reason: 'permanent', error, leaseToken: null, entry: '{}', hold: order === 'wait' }
        assert.equal(await world.store.inbox.fail({ seq: a, ...end }), true)
        assert.ok(Number(await oldest(name)) > first + 1)
      }
    },
  },
  {
    name: 'the oldest message that retries is found behind a thousand messages of another consumer',
    run: async (world) => {
      const hapax = world.hapax()
      const crowd = hapax.consumer('crowd', { receive: 'store' }).on(Ping, () => {})
      const messages = Array.from({ length: 1_001 }, (_, n) => ({
        id: `${n}`,
        source: '/s',
        type: 'ping',
        data: { n },
      }))
      await crowd.handleMany(messages)
      const failing = world.reader(
        () => {
          throw new Error('not yet')
        },
        { hapax, retry: { attempts: 5, minDelayMs: HOUR_MS } },
      )
      await failing.deliver('again')
      const [quick, exact] = [await hapax.status(), await hapax.status({ exact: true })].map(
        ({ consumers }) => consumers.find(({ consumer }) => consumer === 'billing')?.oldestAt,
      )
      assert.ok(quick instanceof Date)
      assert.deepEqual(quick, exact)
    },
  },
]
