import assert from 'node:assert/strict'
import type { Entry } from '../../../contracts/index.ts'
import type { HapaxOptions } from '../../../hapax.ts'
import { ALL_LANES } from '../../../message/index.ts'
import { LeapingClock } from '../../clock.ts'
import { feed } from '../../feed.ts'
import { gate, until } from '../../wait.ts'
import type { Case } from '../case.ts'
import type { PooledStore } from '../harness.ts'
import { leased, type Sms } from '../leased/world.ts'
import { type AnyHapax, assertRejects, Pong, ping, type Tx, type World } from '../world.ts'

/** Enough for both workers to have a share of them. */
const IDS = Array.from({ length: 40 }, (_, index) => `m${index}`)
const LATER = IDS.map((id) => `later-${id}`)

/** An application whose pool can be exhausted, and the events it emitted. */
async function pooled(
  world: World,
  options: Partial<HapaxOptions<Tx, Tx>> = {},
): Promise<PooledStore<Tx, Tx> & { hapax: AnyHapax; told: string[] }> {
  const pool = await world.database.pooled(4)
  const hapax = world.hapax({ store: pool.store, acquireMs: 300, ...options })
  const told: string[] = []
  for (const name of ['pool-exhausted', 'worker-stuck', 'worker-recovered'] as const) {
    hapax.events.on(name, () => told.push(name))
  }
  return { ...pool, hapax, told }
}

/** The doctor has something to say about a worker; without control connections it is dead to the others, and gone. */
async function isShown(world: World): Promise<boolean> {
  const findings = await world.hapax().doctor()
  const { workers } = await world.hapax().status()
  return workers.length === 1 || findings.some(({ check, level }) => check === 'workers' && level !== 'ok')
}

export const stuck: readonly Case[] = [
  {
    name: 'K9: a wait for a connection of an exhausted pool ends and is reported; afterwards everything continues',
    connection: true,
    needs: ['a pool'],
    run: async (world) => {
      const clock = new LeapingClock()
      const { hapax, useUp, told } = await pooled(world, { clock, acquireMs: 20_000 })
      const { consumer } = world.reader(undefined, { hapax })
      const giveBack = await useUp()
      const flying = setInterval(() => clock.leap(1_000), 5)
      try {
        await assertRejects(consumer.handle(ping('a')), 'store-unavailable')
        await assertRejects(
          hapax.transaction(async () => assert.fail('no connection')),
          'store-unavailable',
        )
      } finally {
        clearInterval(flying)
      }
      assert.ok(told.includes('pool-exhausted'))
      giveBack()
      assert.equal((await consumer.handle(ping('a'))).status, 'processed')
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'K9: a queue in front of a busy pool is fine while it moves',
    connection: true,
    needs: ['a pool'],
    run: async (world) => {
      const clock = new LeapingClock()
      const { hapax, told } = await pooled(world, { clock, acquireMs: 100_000 })
      let running = 0
      let go = gate()
      const { consumer } = world.reader(
        async ({ tx, message }) => {
          const { passed } = go
          running += 1
          await passed
          await world.database.effect(tx, message.id)
        },
        { hapax, timeoutMs: 600_000 },
      )
      const ids = IDS.slice(0, 16)
      const handled = Promise.all(ids.map((id) => consumer.handle(ping(id))))
      for (let most = 4; most <= ids.length; most += 4) {
        await until(() => running === most, `${most} handlers have begun`)
        clock.leap(60_000)
        const { open } = go
        go = gate()
        open()
      }
      assert.deepEqual(new Set((await handled).map(({ status }) => status)), new Set(['processed']))
      assert.deepEqual(told, [])
      await world.assertEffects(ids)
    },
  },
  {
    name: 'K9: a worker whose handlers get no connection leaves its messages to others, reports it, and comes back',
    needs: ['a pool', 'another store'],
    run: async (world) => {
      const { hapax, useUp } = await pooled(world)
      const here = world.reader(undefined, { hapax, receive: 'store', concurrency: 2 })
      const there = world.reader(undefined, { hapax: await world.rival(), receive: 'store', concurrency: 2 })
      const stuckOne = await world.worker(here, { takeoverMs: 3_000 })
      await world.worker(there, { takeoverMs: 3_000 })
      await world.until(async () => (await there.hapax.status()).workers.length === 2)
      const giveBack = await useUp()
      await there.deliverMany(IDS)
      await until(async () => (await world.database.effects()).length === IDS.length, 'the other worker has done all')
      await until(() => !stuckOne.ready, 'a worker that is stuck is not ready')
      await until(() => isShown(world), 'the doctor reports it')
      giveBack()
      await until(() => stuckOne.ready, 'it is ready again')
      // The other worker learns only by its next heartbeat that it is to share again.
      const later: string[] = []
      const takesPart = async (): Promise<boolean> => {
        later.push(`later ${later.length}`)
        await there.deliverMany(later.slice(-1))
        return here.calls.length > 0
      }
      await until(takesPart, 'it takes part again')
      await stuckOne.drain()
      await world.assertEffects([...IDS, ...later])
    },
  },
  {
    name: 'K9: a leased worker that gets no connection leaves its messages to others, and makes no call twice',
    needs: ['a pool', 'another store'],
    run: async (world) => {
      const { hapax, useUp } = await pooled(world)
      const made: string[] = []
      const handler: Sms = (ctx) => ctx.effect('send', () => made.push(ctx.message.id))
      const rival = await world.rival()
      const here = leased(world, handler, { hapax, concurrency: 2 })
      const there = leased(world, handler, { hapax: rival, concurrency: 2 })
      const stuckOne = await world.worker({ hapax }, { consume: [here], takeoverMs: 3_000 })
      await world.worker({ hapax: rival }, { consume: [there], takeoverMs: 3_000 })
      await world.until(async () => (await rival.status()).workers.length === 2)
      const giveBack = await useUp()
      await world.reader(undefined, { receive: 'store' }).deliverMany(IDS)
      await until(() => made.length === IDS.length, 'the other worker has made all calls')
      await until(() => !stuckOne.ready, 'a worker that is stuck is not ready')
      giveBack()
      await until(() => stuckOne.ready, 'it is ready again')
      await stuckOne.drain()
      assert.deepEqual([...made].sort(), [...IDS].sort())
    },
  },
  {
    name: 'K9: what a stuck worker has got from a subscription goes back, and others have it',
    needs: ['a pool', 'another store'],
    run: async (world) => {
      const { hapax, useUp } = await pooled(world)
      const queue = feed([])
      const here = world.reader(undefined, { hapax, concurrency: 2 })
      const there = world.reader(undefined, { hapax: await world.rival(), concurrency: 2 })
      const stuckOne = await world.worker({ hapax }, { consume: [here.consumer.from(queue.subscription)] })
      await world.worker({ hapax: there.hapax }, { consume: [there.consumer.from(queue.subscription)] })
      const giveBack = await useUp()
      queue.add(IDS)
      await until(() => queue.acked.length === IDS.length, 'the other worker has done all')
      await until(() => !stuckOne.ready && queue.readers === 1, 'a worker that is stuck reads nothing')
      giveBack()
      await until(() => stuckOne.ready && queue.readers === 2, 'it reads again')
      queue.add(LATER)
      await until(() => queue.acked.length === IDS.length + LATER.length, 'all are done')
      await world.assertEffects([...IDS, ...LATER])
      await until(() => here.calls.length > 0, 'it takes part again')
    },
  },
  {
    name: 'K9: while handlers have all connections, keys are set aside, dead workers are removed and confirmed messages are deleted',
    needs: ['a pool'],
    run: async (world) => {
      const { store, useUp } = await world.database.pooled(2)
      // Without control connections all of it waits for the handlers.
      if (store.features.pool?.control !== 0) return
      const hapax = world.hapax()
      for (const key of ['a', 'a', 'b', 'c']) {
        await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }, { key }))
      }
      const looked = async (): Promise<Entry[]> => {
        const share = {
          table: 'outbox',
          scope: 'default',
          types: [],
          lanes: ALL_LANES,
          limit: 640,
          after: new Map(),
        } as const
        return (await store.workers.look([share])).flatMap(({ entries }) => entries)
      }
      const seqsOf = (rows: Entry[], key: string): string[] =>
        rows.filter((row) => row.key === key).map(({ seq }) => seq)
      const rows = await looked()
      await store.outbox.postpone([
        {
          seq: seqsOf(rows, 'a')[0] as string,
          delayMs: 600_000,
          error: { name: 'Error', message: 'later' },
          entry: '{}',
        },
      ])
      await store.workers.join({ id: 'dead', name: 'dead', ttlMs: 1, serves: '{}' })
      await useUp()
      await looked()
      assert.deepEqual(seqsOf(await looked(), 'a'), [], 'the key stands aside')
      await until(async () => (await store.workers.bury()) > 0, 'the dead worker is buried')
      assert.deepEqual(await store.outbox.confirm(seqsOf(rows, 'b'), true), [])
      assert.deepEqual(await store.outbox.confirm(seqsOf(rows, 'c'), false), [])
    },
  },
]
