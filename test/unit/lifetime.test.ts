import { once } from 'node:events'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import {
  type ConsumerOptions,
  createHapax,
  defineMessage,
  type Hapax,
  isHapaxError,
  type Store,
  silentLogger,
} from 'hapax'
import { memory } from 'hapax/memory'
import { sqlite } from 'hapax/sqlite'
import { describe, expect, it } from 'vitest'
import type { Published } from './many-thread.ts'

const Ping = defineMessage<unknown>('ping')
const ping = (id: string) => ({ id, source: '/sender', type: 'ping', data: 1 })

const STORES: Readonly<Record<string, () => unknown>> = { memory, sqlite: () => sqlite({ path: ':memory:' }) }

async function open(store: () => unknown = memory): Promise<Hapax<unknown>> {
  const hapax = createHapax({
    store: store() as Store<unknown>,
    source: '/test',
    logger: silentLogger,
    delivery: 'local',
  })
  await hapax.migrate()
  return hapax
}

describe('options that cannot be kept', () => {
  const cases: [option: string, options: ConsumerOptions][] = [
    ['timeoutMs', { timeoutMs: 2 ** 31 }],
    ['lockTimeoutMs', { lockTimeoutMs: 2 ** 31 }],
    ['retry.minDelayMs', { retry: { minDelayMs: 1e16 } }],
    ['retry.maxDelayMs', { retry: { maxDelayMs: 1e16 } }],
  ]

  it.for(cases)('a %s that is too large is refused', async ([option, options]) => {
    const hapax = await open()
    expect(() => hapax.consumer('billing', options)).toThrow(
      expect.objectContaining({ code: 'invalid-option', message: expect.stringContaining(`expected ${option} to be`) }),
    )
  })

  it('a worker refuses the consumer of another hapax', async () => {
    const [one, other] = [await open(), await open()]
    const foreign = other.consumer('billing').on(Ping, () => {})
    one.consumer('billing').on(Ping, () => {})
    expect(() => one.worker({ consume: [foreign] })).toThrow(expect.objectContaining({ code: 'invalid-option' }))
  })
})

describe('H11: stop', () => {
  it.for([-1, 'x', Number.NaN])('refuses the deadline %s', async (deadlineMs) => {
    const hapax = await open()
    const worker = hapax.worker({ consume: [hapax.consumer('billing').on(Ping, () => {})] })
    await worker.start()
    await expect(worker.stop({ deadlineMs: deadlineMs as number })).rejects.toMatchObject({ code: 'invalid-option' })
    await hapax.close()
  })

  it('without a deadline waits for the handler, however long it takes', async () => {
    const store = memory()
    const hapax = await open(() => store)
    const begun = Promise.withResolvers<void>()
    let aborted = false
    const consumer = hapax.consumer('billing').on(Ping, async (_, { tx, signal }) => {
      begun.resolve()
      // Longer than the one millisecond that a timer makes of a time it cannot hold.
      await setTimeout(20)
      aborted = signal.aborted
      ;(tx as { insert(table: string, row: object): void }).insert('effects', {})
    })
    const worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Ping, 1))
    await begun.promise
    await worker.stop({ deadlineMs: Number.POSITIVE_INFINITY })
    expect([aborted, store.rows('effects').length]).toEqual([false, 1])
    await hapax.close()
  })
})

describe('a worker that is stopped', () => {
  it('while it starts comes to its start first, and leaves nothing behind', async () => {
    const hapax = await open()
    const worker = hapax.worker({ consume: [hapax.consumer('billing').on(Ping, () => {})] })
    const starting = worker.start()
    await worker.stop()
    await starting
    expect(worker.ready).toBe(false)
    expect((await hapax.status()).workers).toEqual([])
    await hapax.close()
  })

  it('H11: while a destination hangs in its start gives up in time', async () => {
    const hapax = await open()
    const hung = Promise.withResolvers<void>()
    const prepare = (): Promise<never> => {
      hung.resolve()
      return new Promise(() => {})
    }
    const publish = (): never[] => []
    const close = async (): Promise<void> => {}
    const worker = hapax.worker({ relay: { name: 'x', features: { keepsOrder: true }, prepare, publish, close } })
    const starting = worker.start().catch((error: unknown) => error)
    await hung.promise
    await worker.stop({ deadlineMs: 0 })
    expect(await starting).toMatchObject({ code: 'closed' })
    await hapax.close()
  })

  it('a second time with less patience aborts what the first one waits for', async () => {
    const hapax = await open()
    const begun = Promise.withResolvers<void>()
    const consumer = hapax.consumer('billing').on(Ping, async (_, { signal }) => {
      begun.resolve()
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
    })
    const worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Ping, 1))
    await begun.promise
    const patient = worker.stop({ deadlineMs: Number.POSITIVE_INFINITY })
    await worker.stop({ deadlineMs: 0 })
    await patient
    await hapax.close()
  })

  it('closes its destinations with its hapax', async () => {
    const hapax = await open()
    let closed = 0
    const close = async (): Promise<void> => {
      closed += 1
    }
    const prepare = async (): Promise<void> => {}
    const publish = (): never[] => []
    const worker = hapax.worker({ relay: { name: 'x', features: { keepsOrder: true }, prepare, publish, close } })
    await worker.start()
    await worker.stop()
    expect(closed).toBe(0)
    await hapax.close()
    expect(closed).toBe(1)
  })
})

describe.for(Object.entries(STORES))('on %s', ([, store]) => {
  it('H11: close waits for what is being handled, and afterwards nothing is taken', async () => {
    const hapax = await open(store)
    const begun = Promise.withResolvers<void>()
    const go = Promise.withResolvers<void>()
    const consumer = hapax.consumer('billing').on(Ping, async (_, { message }) => {
      begun.resolve()
      await go.promise
      if (message.id === 'b') throw new Error('no')
    })
    const handled = Promise.all(['a', 'b'].map((id) => consumer.handle(ping(id))))
    await begun.promise
    let closed = false
    const closing = hapax.close().then(() => {
      closed = true
    })
    await expect(consumer.handle(ping('c'))).rejects.toMatchObject({ code: 'closed' })
    await setImmediate()
    expect(closed).toBe(false)
    go.resolve()
    expect((await handled).map(({ status }) => status)).toEqual(['processed', 'retrying'])
    await closing
    await expect(consumer.handle(ping('d'))).rejects.toMatchObject({ code: 'closed' })
    await expect(consumer.handleMany([ping('e')])).rejects.toSatisfy((error) => isHapaxError(error, 'closed'))
  })

  it('A29: a worker with a long backlog lets others have the event loop in between', async () => {
    const hapax = await open(store)
    const count = 3_000
    let handled = 0
    const consumer = hapax.consumer('billing').on(Ping, () => {
      // So long that there are many moments to give way, however quick the machine is.
      for (const end = performance.now() + 0.1; performance.now() < end; );
      handled += 1
    })
    const drafts = Array.from({ length: count }, (_, n) => Ping.of(n))
    await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
    const seen = new Set<number>()
    const timer = globalThis.setInterval(() => seen.add(handled), 1)
    const worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await worker.drain()
    clearInterval(timer)
    expect(handled).toBe(count)
    for (const end of [0, count]) seen.delete(end)
    expect(seen.size).toBeGreaterThanOrEqual(5)
    await hapax.close()
  })
})

it.for(Object.keys(STORES))(
  'D14: publishes more messages in one call than a call may have arguments, on %s',
  async (store) => {
    const count = 30_000
    // With the stack that is usual it would take more than a hundred thousand to show it.
    const thread = new Worker(new URL('./many-thread.ts', import.meta.url), {
      workerData: { store, count },
      resourceLimits: { stackSizeMb: 0.4 },
    })
    const [said] = (await once(thread, 'message')) as [Published]
    expect(said).toEqual({ tooManyArguments: true, answered: count, outbox: count })
  },
)
