import { expect, it, onTestFinished } from 'vitest'
import { HapaxError } from '../../src/base/index.ts'
import { createHapax, defineMessage, silentLogger } from '../../src/index.ts'
import { memory } from '../../src/stores/memory/index.ts'
import { altered } from '../../src/testing/altered.ts'
import { lossy } from '../../src/testing/store/doubles.ts'

const Placed = defineMessage('order.placed')

it.each(['before', 'after'] as const)(
  'A1: the look for the outcome of a commit goes on while the lost session holds its lock (cut %s the commit)',
  async (cut) => {
    const lost = lossy(memory() as never, cut)
    let runs = 0
    const run: typeof lost.transactions.run = (...args) => {
      runs += 1
      // As a lock timeout does: the server has not noticed yet that the link has ended.
      if (runs === 2 || runs === 3) return Promise.reject(new HapaxError('busy', 'another transaction holds the lock'))
      return lost.transactions.run(...args)
    }
    const hapax = createHapax({
      store: altered(lost, { transactions: { run } }),
      source: '/shop',
      logger: silentLogger,
    })
    onTestFinished(() => hapax.close())
    let calls = 0
    const billing = hapax.consumer('billing').on(Placed, () => {
      calls += 1
    })
    const outcome = await billing.handle({ id: 'a', source: '/shop', type: 'order.placed', data: null })
    expect(outcome).toMatchObject({ status: 'processed' })
    expect([calls, runs]).toEqual([cut === 'before' ? 2 : 1, 4])
  },
)
