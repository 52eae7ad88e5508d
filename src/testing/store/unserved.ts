import assert from 'node:assert/strict'
import { silentLogger } from '../../base/index.ts'
import { altered } from '../altered.ts'
import { LeapingClock } from '../clock.ts'
import type { Case } from './case.ts'
import { TestDestination } from './doubles.ts'
import { type AnyHapax, type AnyStore, Ping, Pong, type Reader, type ReaderOptions, type World } from './world.ts'

interface Line {
  readonly consumer?: unknown
  readonly relay?: unknown
  readonly type?: unknown
  readonly advice?: unknown
}

/** A reader whose handler fails, and the warnings about missing workers that it got. */
function failing(world: World, options: ReaderOptions = {}): { readonly reader: Reader; readonly warned: Line[] } {
  const warned: Line[] = []
  const logger = {
    ...silentLogger,
    warn: (fields: Line, message: string) => void (message.includes('no live worker') && warned.push(fields)),
  }
  const fail = (): never => {
    throw new Error('not now')
  }
  const retry = { attempts: 5, minDelayMs: 60_000 }
  return { reader: world.reader(fail, { hapax: world.hapax({ logger }), retry, ...options }), warned }
}

/** What is published while no worker is there, and the warnings that come of it. */
function publisher(
  world: World,
  delivery: 'relay' | 'local',
): { readonly hapax: AnyHapax; readonly warned: Line[]; later(): Promise<void>; publish(id: string): Promise<void> } {
  const warned: Line[] = []
  const clock = new LeapingClock()
  let [begun, ended] = [0, 0]
  const counted = async <T>(work: Promise<T>): Promise<T> => {
    begun += 1
    try {
      return await work
    } finally {
      ended += 1
    }
  }
  const look: AnyStore['workers']['look'] = (shares) => counted(world.store.workers.look(shares))
  const list: AnyStore['workers']['list'] = () => counted(world.store.workers.list())
  const logger = {
    ...silentLogger,
    warn: (fields: Line, message: string) => void (message.includes('no live worker') && warned.push(fields)),
  }
  const hapax = world.hapax({ delivery, clock, logger, store: altered(world.store, { workers: { look, list } }) })
  return {
    hapax,
    warned,
    publish: (id) => hapax.transaction(async (tx) => void (await hapax.publish(tx, Ping, { n: 1 }, { id }))),
    later: async () => {
      const before = begun
      clock.leap(120_000)
      await world.until(() => begun > before && ended === begun)
    },
  }
}

export const unserved: readonly Case[] = [
  {
    name: 'messages of the outbox that no live worker relays are warned of some time after publish, once for each relay',
    run: async (world) => {
      const { hapax, warned, publish, later } = publisher(world, 'relay')
      await publish('a')
      assert.equal(warned.length, 0)
      await later()
      await world.until(() => warned.length === 1)
      assert.equal(warned[0]?.relay, 'default')
      assert.match(String(warned[0]?.advice), /hapax\.worker/)
      await publish('b')
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: 'c', relay: 'other' }))
      await later()
      await world.until(() => warned.length === 2)
      assert.deepEqual(warned[1]?.relay, 'other')
    },
  },
  {
    name: 'so are messages of local delivery that no live worker handles',
    run: async (world) => {
      const local = publisher(world, 'local')
      const { consumer } = world.reader(undefined, { hapax: local.hapax })
      await local.publish('a')
      await local.later()
      await world.until(() => local.warned.length === 1)
      assert.deepEqual([local.warned[0]?.consumer, local.warned[0]?.type], [consumer.name, 'ping'])
    },
  },
  {
    name: 'so are messages that are published in a transaction of the user',
    skip: ({ ownTransactions }) => (ownTransactions ? undefined : 'the user has no transactions of his own'),
    run: async (world) => {
      const own = publisher(world, 'relay')
      await world.database.own(async (tx) => void (await own.hapax.publish(tx, Ping, { n: 1 }, { id: 'b' })))
      await own.later()
      await world.until(() => own.warned.length === 1)
    },
  },
  {
    name: 'what a live worker serves, or nothing waits for, is not warned of; when that worker has gone, it is',
    run: async (world) => {
      const { warned, publish, later } = publisher(world, 'relay')
      const other = world.hapax()
      const worker = await world.worker({ hapax: other }, { relay: new TestDestination() })
      await publish('a')
      await worker.drain()
      await later()
      await worker.stop()
      await publish('b')
      const again = await world.worker({ hapax: world.hapax() }, { relay: new TestDestination() })
      await again.drain()
      await again.stop()
      await later()
      assert.deepEqual(warned, [])
      await publish('c')
      await later()
      await world.until(() => warned.length === 1)
    },
  },
  {
    name: 'a message that is left to a worker while none is alive is warned of, once for each consumer',
    run: async (world) => {
      const { reader, warned } = failing(world)
      for (const id of ['a', 'b']) assert.equal((await reader.deliver(id)).status, 'retrying')
      assert.equal(warned.length, 1)
      const [line] = warned
      assert.deepEqual([line?.consumer, line?.type], ['billing', 'ping'])
      assert.match(String(line?.advice), /hapax\.worker/)
    },
  },
  {
    name: 'so is one that is stored for a worker',
    run: async (world) => {
      const { reader, warned } = failing(world, { receive: 'store' })
      assert.equal((await reader.deliver('a')).status, 'stored')
      assert.equal(warned.length, 1)
    },
  },
  {
    name: 'a worker of another process that handles the type is enough, and one that does not is not',
    run: async (world) => {
      const elsewhere = world.hapax()
      await world.worker({ hapax: elsewhere, consumer: elsewhere.consumer('billing').on(Pong, () => {}) })
      const lonely = failing(world)
      await lonely.reader.deliver('a')
      assert.equal(lonely.warned.length, 1)

      const other = world.hapax()
      await world.worker({ hapax: other, consumer: other.consumer('billing').on(Ping, () => {}) })
      const served = failing(world)
      assert.equal((await served.reader.deliver('b')).status, 'retrying')
      assert.deepEqual(served.warned, [])
    },
  },
]
