import assert from 'node:assert/strict'
import { type Horizon, Permanent, type State, silentLogger } from '../../../base/index.ts'
import type { Worker } from '../../../contracts/index.ts'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { type AnyHapax, Ping, Pong, type World } from '../world.ts'

/** A process with a worker, and the samples that its listeners have now: the last one of each worker. */
interface Process {
  readonly hapax: AnyHapax
  readonly worker: Worker
  readonly shown: ReadonlyMap<string, State>
}

/** Starts a worker on a clock that leaps. `listens`: somebody wants samples. */
async function process(world: World, clock: LeapingClock, { listens = true, name = 'billing' } = {}): Promise<Process> {
  const hapax = world.hapax({ clock })
  const shown = new Map<string, State>()
  if (listens) {
    hapax.events.on('sampled', ({ worker, state }) => {
      if (state === undefined) shown.delete(worker)
      else shown.set(worker, state)
    })
  }
  const { consumer } = world.reader(undefined, { hapax, name })
  return { hapax, worker: await world.worker({ hapax, consumer }), shown }
}

/**
 * Lets time pass until a condition holds. Not faster than the database responds: otherwise the limits of workers, which are on the same
 * clock, would pass before any of their statements could.
 */
function leapUntil(world: World, clock: LeapingClock, holds: () => boolean): Promise<void> {
  return world.until(async () => {
    clock.leap(1_000)
    await world.store.admin.status()
    return holds()
  })
}

export const sampling: readonly Case[] = [
  {
    name: 'one of the workers that are listened to samples the database, and when it stops, another one does',
    run: async (world) => {
      const clock = new LeapingClock()
      const processes = [await process(world, clock), await process(world, clock), await process(world, clock)]
      const isSampled = (): boolean => processes.reduce((sum, { shown }) => sum + shown.size, 0) === 1
      await leapUntil(world, clock, isSampled)
      for (let minute = 0; minute < 120; minute++) clock.leap(500)
      await leapUntil(world, clock, isSampled)
      const [sampler] = processes.filter(({ shown }) => shown.size === 1)
      await sampler?.worker.stop()
      assert.equal(sampler?.shown.size, 0)
      await leapUntil(world, clock, isSampled)
      assert.equal(sampler?.shown.size, 0)
    },
  },
  {
    name: 'a worker that nobody listens to leaves the samples to one that somebody listens to',
    run: async (world) => {
      const clock = new LeapingClock()
      // Several: one of them would be likely to have it otherwise.
      for (let count = 0; count < 6; count++) await process(world, clock, { listens: false })
      const { shown } = await process(world, clock)
      await leapUntil(world, clock, () => shown.size === 1)
    },
  },
  {
    name: 'a sample tells what waits, what failed and who serves it',
    run: async (world) => {
      const clock = new LeapingClock()
      const idle = world.reader(undefined, { name: 'idle', receive: 'store' })
      await idle.deliver('a')
      const refuse = (): never => {
        throw new Permanent('no')
      }
      await world.reader(refuse, { name: 'broken' }).deliver('a')
      const { hapax, shown } = await process(world, clock)
      await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }))
      const state = (): State | undefined => [...shown.values()][0]
      await leapUntil(world, clock, () => state()?.relays.some(({ waiting }) => waiting === 1) ?? false)
      const named = (name: string) => state()?.consumers.find(({ consumer }) => consumer === name)
      assert.deepEqual([named('idle')?.waiting, named('idle')?.workers], [1, 0])
      assert.ok((named('idle')?.oldestMs ?? -1) >= 0)
      assert.deepEqual(
        [named('broken')?.waiting, named('broken')?.failed, named('broken')?.oldestMs],
        [0, 1, undefined],
      )
      assert.deepEqual(state()?.failed, [{ origin: 'inbox', scope: 'broken', reason: 'permanent', count: 1 }])
      assert.deepEqual(state()?.workers, { alive: 1, stuck: 0, dead: 0 })
      const [relay] = state()?.relays ?? []
      assert.deepEqual([relay?.relay, relay?.waiting, relay?.workers], ['default', 1, 0])
      assert.ok((relay?.oldestMs ?? -1) >= 0)
    },
  },
  {
    name: 'a worker tells how long receipts are kept and how long messages may come again, until it stops',
    run: async (world) => {
      const clock = new LeapingClock()
      const hapax = world.hapax({ clock })
      const told: (readonly Horizon[])[] = []
      hapax.events.on('horizons', ({ horizons }) => void told.push(horizons))
      const retry = { attempts: 3, minDelayMs: 1_000, maxDelayMs: 60_000, factor: 2 }
      const { consumer } = world.reader(undefined, { hapax, retry, retentionMs: 86_400_000 })
      const worker = await world.worker({ hapax, consumer })
      await leapUntil(world, clock, () => told.length > 0)
      assert.deepEqual(told[0], [{ consumer: 'billing', retentionMs: 86_400_000, redeliveryMs: 6_000 }])
      await worker.stop()
      assert.deepEqual(told.at(-1), [])
    },
  },
  {
    name: 'what waits and is not served is warned of once, also if nobody listens',
    run: async (world) => {
      const warned: string[] = []
      const logger = {
        ...silentLogger,
        warn: (_: object, message: string) => void (message.includes('no live worker') && warned.push(message)),
      }
      const clock = new LeapingClock()
      const idle = world.reader(undefined, { name: 'idle', receive: 'store' })
      await idle.deliver('a')
      const hapax = world.hapax({ clock, logger })
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
      const { consumer } = world.reader(undefined, { hapax })
      await world.worker({ hapax, consumer })
      await leapUntil(world, clock, () => warned.length >= 2)
      const end = clock.monotonic() + 200_000
      await leapUntil(world, clock, () => clock.monotonic() > end)
      assert.deepEqual(warned.sort(), [
        'messages of idle wait in its inbox, but no live worker serves it',
        'messages wait in the outbox for the relay default, but no live worker serves it',
      ])
    },
  },
]
