// Counts instead of time: a round trip, a statement or a promise more per message is a change that somebody should have wanted.
import { randomUUID } from 'node:crypto'
import { createHapax, silentLogger } from 'hapax'
import { redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { Child } from '../support/child.ts'
import type { Allocated } from '../support/costs/allocating.ts'
import { type Budget, budgets, leasedBudgets } from '../support/costs/budgets.ts'
import { type Counts, redisCounter } from '../support/costs/counting.ts'
import { type Job, jobs, leasedJobs, leasing } from '../support/costs/jobs.ts'
import { costOf, countedStore } from '../support/costs/measure.ts'
import { durableStores } from '../support/databases.ts'
import { requireServer, withoutRedis } from '../support/servers.ts'

function isWithin(cost: Counts | undefined, roundTrips: number, statements: number): boolean {
  return cost !== undefined && cost.roundTrips <= roundTrips && cost.statements <= statements
}

describe.for(durableStores())('%s', (store) => {
  const budgetOf = new Map<string, Budget>(Object.entries(budgets[store]))

  test.for<[string, Job]>(Object.entries(jobs))(
    '%s takes no more round trips and statements than planned',
    async ([name, job]) => {
      const { roundTrips: trips = 0, statements: most = 0 } = budgetOf.get(name) ?? {}
      let cost: Counts | undefined
      // A worker that waits for a slow disk looks for work meanwhile, but what every message costs is there each time.
      for (let times = job.paced ? 3 : 1; times > 0 && !isWithin(cost, trips, most); times--) {
        await using ground = await countedStore(store)
        cost = await costOf(job.open(ground), job.times, ground.counter)
      }
      expect(cost?.roundTrips, 'round trips').toBeLessThanOrEqual(trips)
      expect(cost?.statements, 'statements').toBeLessThanOrEqual(most)
    },
  )

  test('jobs allocate no more than planned', async () => {
    const program = new URL('../support/costs/allocating.ts', import.meta.url)
    const child = new Child<Allocated>(program, store, 240_000, process.execPath, ALLOCATION_FLAGS)
    onTestFinished(() => child.kill('SIGKILL'))
    const over: Allocated[] = []
    for (const _ of Object.values<Job>(jobs).filter(({ paced }) => !paced)) {
      const allocated = await child.next()
      const { kib = 0, promises = 0 } = budgetOf.get(allocated.name) ?? {}
      if (allocated.kib > kib * TOLERANCE || allocated.promises > promises * 1.01 + 1) over.push(allocated)
    }
    expect(over).toEqual([])
  })
})

test.for(durableStores().filter((store) => store === 'postgres'))(
  '%s: a request takes two round trips beyond those of its handler, and a repetition one before its response',
  async (store) => {
    await using ground = await countedStore(store)
    const { counter } = ground
    await using hapax = closing(createHapax({ store: ground.store, source: '/costs', logger: silentLogger }))
    const handle = hapax.http('orders', { principal: 'none' }).handler(async (_, { tx }) => {
      await ground.write(tx, [1])
      return new Response('placed', { status: 201 })
    })
    /** The round trips until the response is there. */
    const trips = async (key: string): Promise<[replayed: boolean, trips: number]> => {
      const request = new Request('http://a/orders', {
        method: 'POST',
        headers: { 'idempotency-key': key },
        body: '{}',
      })
      const start = counter.read().roundTrips
      const response = await handle(request)
      const { roundTrips } = counter.read()
      // The end of a transaction that had nothing to keep comes after the response.
      await ground.store.transactions.run(PLAIN, { kind: 'plain' }, async () => ({ value: 0, writes: undefined }))
      return [response.headers.has('idempotent-replayed'), roundTrips - start]
    }
    for (const key of ['warm', 'warm', 'up', 'up']) await trips(key)
    expect(await trips('a')).toEqual([false, 3])
    expect(await trips('a')).toEqual([true, 1])
    expect(await trips('a')).toEqual([true, 1])
  },
)

test.skipIf(withoutRedis()).for(Object.entries(leasedJobs))(
  'redis: %s take no more commands than planned',
  async ([name, size]) => {
    const counter = redisCounter()
    await using proxy = await LinkProxy.open(requireServer('redis'), () => counter.tap())
    const client = new Redis(proxy.url)
    onTestFinished(() => client.disconnect())
    const prefix = `costs-${randomUUID()}:`
    const { statements } = await costOf(leasing(redis({ client, prefix }), size), 5, counter)
    expect(statements).toBeLessThanOrEqual(new Map<string, number>(Object.entries(leasedBudgets)).get(name) ?? 0)
  },
)

/** Between runs of the same code, and between patch releases of Node.js. */
const TOLERANCE = 1.1

const ALLOCATION_FLAGS = ['--no-opt', '--expose-gc', '--min-semi-space-size=128', '--max-semi-space-size=128']

const PLAIN = { lockTimeoutMs: 10_000, idleTimeoutMs: 10_000 }

function closing<H extends { close(): Promise<void> }>(hapax: H): H & AsyncDisposable {
  return Object.assign(hapax, { [Symbol.asyncDispose]: () => hapax.close() })
}
