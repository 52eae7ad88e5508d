import assert from 'node:assert/strict'
import { type Clock, systemClock } from '../../../base/index.ts'
import { defineMessage } from '../../../message/index.ts'
import { altered } from '../../altered.ts'
import type { Case } from '../case.ts'
import { type AnyStore, assertOutcome, type Count, type Gate, gate, Ping, type Reader, type World } from '../world.ts'

/** A worker that finds nothing looks less and less often, in the end so rarely that a case would time out. */
const RARELY = { pollMs: 600_000 }

/** A clock on which no time passes: a worker looks once, and then only when it is woken. */
const STOPPED: Clock = { ...systemClock, after: () => () => {} }

const Keyed = defineMessage<Count>('ping', { key: () => 'k' })

function localReader(world: World, options: Parameters<World['reader']>[1] = {}): Reader {
  return world.reader(undefined, { hapax: world.hapax({ delivery: 'local' }), ...options })
}

/**
 * A clock on which long pauses never end, and whether the worker has come to one of its own, which is longer than its heartbeat. Pauses
 * that begin after `resume` end.
 */
function resting(): { clock: Clock; rests: Gate; resume(): void } {
  const rests = gate()
  let resumed = false
  const after: Clock['after'] = (ms, call) => {
    if (ms < 3_500 || resumed) return systemClock.after(ms, call)
    if (ms < 7_000) rests.open()
    return () => {}
  }
  const resume = (): void => {
    resumed = true
  }
  return { clock: { ...systemClock, after }, rests, resume }
}

/** A store whose notes wait for the handler, but not for ever: a handler that waits for its note is not called before. */
function slowNotes(store: AnyStore, called: Promise<void>): AnyStore {
  const note: AnyStore['workers']['note'] = async (id, inHand, beat) => {
    if (inHand.seqs.length > 0 && !beat) {
      let timer: NodeJS.Timeout | undefined
      await Promise.race([called, new Promise((resolve) => (timer = setTimeout(resolve, 100)))])
      clearTimeout(timer)
    }
    return store.workers.note(id, inHand, beat)
  }
  return altered(store, { workers: { note } })
}

export const promptness: readonly Case[] = [
  {
    name: 'a handler is not called before its message is noted, however long the note takes',
    run: async (world) => {
      const called = gate()
      const noted: number[] = []
      const hapax = world.hapax({ delivery: 'local', store: slowNotes(world.store, called.passed) })
      const reader = world.reader(
        async () => {
          called.open()
          const workers = world.features.parallelWriters ? await world.store.workers.list() : []
          noted.push(...workers.map(({ inHand }) => inHand))
        },
        { hapax },
      )
      const worker = await world.worker(reader, RARELY)
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
      await world.until(() => reader.calls.length === 1)
      await worker.drain()
      assert.deepEqual(noted, world.features.parallelWriters ? [1] : [])
    },
  },
  {
    name: 'what a process publishes locally is handled by its own worker without waiting for a look',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local', clock: STOPPED })
      const reader = world.reader(undefined, { hapax })
      await world.worker(reader, RARELY)
      for (const n of [1, 2, 3]) await hapax.transaction((tx) => hapax.publish(tx, Ping, { n }, { id: `m${n}` }))
      await world.until(async () => (await world.database.effects()).length === 3)
      await world.assertEffects(['m1', 'm2', 'm3'])
    },
  },
  {
    name: 'what a process stores is handled by its own worker without waiting for a look',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store', hapax: world.hapax({ clock: STOPPED }) })
      await world.worker(reader, RARELY)
      assertOutcome(await reader.deliver('a'), 'stored')
      await world.until(async () => (await world.database.effects()).length === 1)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'what is published in a transaction of the user is handled soon after it commits',
    skip: ({ ownTransactions }) => (ownTransactions ? undefined : 'it has no transactions of your own'),
    run: async (world) => {
      const { clock, rests, resume } = resting()
      const hapax = world.hapax({ delivery: 'local', clock })
      const reader = world.reader(undefined, { hapax })
      await world.worker(reader, RARELY)
      await rests.passed
      // The worker still rests until it is told. What it is told of may take long to commit: it looks more than once.
      resume()
      await world.database.own((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: 'a' }))
      await world.until(async () => (await world.database.effects()).length === 1)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'a message that is published behind a waiting one of its key runs after it',
    run: async (world) => {
      const order: string[] = []
      let fails = 2
      const hapax = world.hapax({ delivery: 'local' })
      const reader = world.reader(
        ({ message }) => {
          if (message.id === 'a' && fails-- > 0) throw new Error('not yet')
          order.push(message.id)
        },
        { hapax, order: 'wait', retry: { attempts: 5, minDelayMs: 100, maxDelayMs: 100 } },
      )
      await world.worker(reader, RARELY)
      await hapax.transaction((tx) => hapax.publish(tx, Keyed, { n: 1 }, { id: 'a' }))
      await world.until(() => reader.calls.includes('a'))
      for (const id of ['b', 'c']) await hapax.transaction((tx) => hapax.publish(tx, Keyed, { n: 1 }, { id }))
      await world.until(() => order.length === 3)
      assert.deepEqual(order, ['a', 'b', 'c'])
    },
  },
  {
    name: 'more messages than a worker takes into hand are all handled, without waiting for a look',
    run: async (world) => {
      const reader = localReader(world, { concurrency: 2 })
      const { hapax } = reader
      await world.worker(reader, RARELY)
      const ids = Array.from({ length: 150 }, (_, index) => `m${index}`)
      await Promise.all(ids.map((id) => hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id }))))
      await world.until(async () => (await world.database.effects()).length === ids.length)
      await world.assertEffects(ids)
    },
  },
]
