// Counts instead of time: a round trip, a statement or a promise more per message is a change that somebody should have wanted.
import { randomUUID } from 'node:crypto'
import { redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Child } from '../support/child.ts'
import type { Allocated } from '../support/costs/allocating.ts'
import { type Budget, budgets, leasedBudgets } from '../support/costs/budgets.ts'
import { redisCounter } from '../support/costs/counting.ts'
import { type Job, jobs, leasedJobs, leasing } from '../support/costs/jobs.ts'
import { costOf, countedStore } from '../support/costs/measure.ts'
import { durableStores } from '../support/databases.ts'
import { LinkProxy } from '../support/link-proxy.ts'
import { requireServer, withoutRedis } from '../support/servers.ts'

describe.for(durableStores())('%s', (store) => {
  const budgetOf = new Map<string, Budget>(Object.entries(budgets[store]))

  test.for<[string, Job]>(Object.entries(jobs))(
    '%s takes no more round trips and statements than planned',
    async ([name, job]) => {
      await using ground = await countedStore(store)
      const { roundTrips, statements } = await costOf(job.open(ground), job.times, ground.counter)
      expect(roundTrips, 'round trips').toBeLessThanOrEqual(budgetOf.get(name)?.roundTrips ?? 0)
      expect(statements, 'statements').toBeLessThanOrEqual(budgetOf.get(name)?.statements ?? 0)
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
  }, 240_000)
})

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
