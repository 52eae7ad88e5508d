import assert from 'node:assert/strict'
import { silentLogger } from '../../base/index.ts'
import type { Case } from './case.ts'
import { Ping, Pong, type Reader, type ReaderOptions, type World } from './world.ts'

interface Line {
  readonly consumer?: unknown
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

export const unserved: readonly Case[] = [
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
