import { setTimeout as delay } from 'node:timers/promises'
import { type ClaimHapax, createHapax, defineMessage, silentLogger } from 'hapax'
import type { ClaimStore } from 'hapax/contracts'
import { memoryBroker } from 'hapax/memory-broker'
import { redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { altered } from '../../src/testing/altered.ts'
import { message } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { freshPrefix } from '../support/redis-stores.ts'
import { requireServer } from '../support/servers.ts'

const Sms = defineMessage('sms')
const NEVER = { attempts: 1 } as const

describe('a worker on a lease store', () => {
  let client: Redis
  beforeAll(() => {
    client = new Redis(requireServer('redis'))
  })
  afterAll(() => client?.disconnect())

  const open = (): ClaimStore => redis({ client, prefix: freshPrefix() })

  function hapaxOn(store: ClaimStore): ClaimHapax {
    const hapax = createHapax({ store, logger: silentLogger })
    onTestFinished(() => hapax.close())
    return hapax
  }

  /** Puts messages into the failed store, as a handler does that fails for good. */
  async function fail(store: ClaimStore, ids: readonly string[]): Promise<void> {
    const failing = hapaxOn(store)
      .leased('sms', { retry: NEVER })
      .on(Sms, () => Promise.reject(new Error('no')))
    await failing.handleMany(ids.map((id) => ({ id, source: '/sender', type: 'sms', data: {} })))
  }

  it('H11: stops in the middle of a look: what it finds is put back before stop is over, and nobody is called', async () => {
    const store = open()
    await fail(store, ['a'])
    const found = Promise.withResolvers<void>()
    const go = Promise.withResolvers<void>()
    let released = 0
    const slow = altered(store, {
      claims: {
        claimStored: async (...args) => {
          const look = await store.claims.claimStored(...args)
          if (look.claims.length > 0) {
            found.resolve()
            await go.promise
          }
          return look
        },
        release: async (...args) => {
          await delay(50)
          const done = await store.claims.release(...args)
          released += 1
          return done
        },
      },
    })
    const calls: string[] = []
    const stopping = hapaxOn(slow)
    const worker = stopping.worker({ consume: [stopping.leased('sms').on(Sms, () => void calls.push('stopping'))] })
    await worker.start()
    await stopping.failed.retryAll({ all: true })
    await found.promise
    const stopped = worker.stop()
    // Were the look not waited for, stop would be over by then.
    await Promise.race([stopped, delay(100)])
    go.resolve()
    await stopped
    expect(released).toBe(1)
    // Nobody has to wait for the lease, and that was no attempt.
    const next = hapaxOn(store)
    const sms = next.leased('sms').on(Sms, (_, ctx) => void calls.push(`next ${ctx.attempt}`))
    const other = next.worker({ consume: [sms], pollMs: 20 })
    await other.start()
    await until(() => calls.length > 0)
    await other.stop()
    expect(calls).toEqual(['next 1'])
  })

  it('H11: waits for the other looks when one of them fails', async () => {
    const store = open()
    await fail(store, ['a'])
    const looked = Promise.withResolvers<void>()
    const go = Promise.withResolvers<void>()
    let looks = 0
    let slowly = false
    const uneven = altered(store, {
      claims: {
        claimStored: async (consumer, options) => {
          if (!slowly) return { claims: [], nextMs: undefined }
          if (consumer === 'other') throw new Error('away')
          looks += 1
          looked.resolve()
          await go.promise
          return store.claims.claimStored(consumer, options)
        },
      },
    })
    const hapax = hapaxOn(uneven)
    const errors: string[] = []
    hapax.events.on('worker-error', ({ error }) => errors.push(error.message))
    const consume = ['sms', 'other'].map((name) => hapax.leased(name).on(Sms, () => {}))
    const worker = hapax.worker({ consume, pollMs: 5 })
    await worker.start()
    slowly = true
    await looked.promise
    for (let n = 0; n < 10; n++) {
      worker.wake()
      await delay(5)
    }
    expect([looks, errors]).toEqual([1, []])
    go.resolve()
    await until(() => errors.length > 0)
    await worker.stop()
  })

  /** A subscription whose backlog has no end until it is told; and how many of it were handled. */
  function backlog() {
    const broker = memoryBroker()
    const topic = broker.topic('sms')
    const queue = broker.queue('sms', { topic: 'sms' })
    const state = { handled: 0, endless: true }
    let sent = 0
    const send = (count: number): void => {
      const messages = Array.from({ length: count }, () => message(`other-${sent++}`, { type: 'sms' }))
      topic.publish(messages, new AbortController().signal, () => {})
    }
    const handle = async (): Promise<void> => {
      await delay(1)
      state.handled += 1
      if (state.endless) send(1)
    }
    return { queue, state, send, handle }
  }

  it('C10: what a person retries takes turns with a subscription that has a backlog', async () => {
    const store = open()
    const ids = Array.from({ length: 30 }, (_, n) => `failed-${n}`)
    await fail(store, ids)
    const hapax = hapaxOn(store)
    const { queue, state, send, handle } = backlog()
    const retried: string[] = []
    const sms = hapax.leased('sms', { concurrency: 2 }).on(Sms, async (_, { message: { id } }) => {
      if (!id.startsWith('failed')) return handle()
      await delay(1)
      retried.push(id)
    })
    const worker = hapax.worker({ consume: [sms.from(queue)], pollMs: 20 })
    send(50)
    await worker.start()
    await until(() => state.handled > 10)
    const before = state.handled
    await hapax.failed.retryAll({ all: true })
    await until(() => retried.length === ids.length)
    const meanwhile = state.handled - before
    state.endless = false
    await worker.drain()
    await worker.stop()
    expect(retried.sort()).toEqual(ids.sort())
    expect(meanwhile).toBeGreaterThan(ids.length / 3)
  })

  it('I9: does not look after every delivery for what people want to be tried again', async () => {
    const store = open()
    let looks = 0
    const counted = altered(store, {
      claims: {
        claimStored: (...args) => {
          looks += 1
          return store.claims.claimStored(...args)
        },
      },
    })
    const hapax = hapaxOn(counted)
    const { queue, state, send, handle } = backlog()
    const worker = hapax.worker({
      consume: [hapax.leased('sms', { concurrency: 2 }).on(Sms, handle).from(queue)],
      pollMs: 60_000,
    })
    send(10)
    await worker.start()
    await until(() => state.handled > 200)
    await worker.stop()
    expect(looks).toBeLessThan(5)
  })
})
