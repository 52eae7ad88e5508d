// An operation outlives the processes that work on it: they are killed half-way, and others go on.
import { createHapax, defineMessage, Permanent, silentLogger } from 'hapax'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Child } from '../support/child.ts'
import { countEffects, durableStores, insertEffect, makePlace, openStore, type Place } from '../support/databases.ts'
import { inThisRun, oneInTest } from '../support/runs.ts'
import type { OperationJob } from './operation-child.ts'

/** Fewer in `npm test`, where what takes long is left out. */
const TOTAL = inThisRun([2_000, 10_000], (total) => total === 2_000).at(-1) ?? 2_000
const Order = defineMessage<object>('order')

function start(place: Place, does: OperationJob['does']): Child<object> {
  const child = new Child<object>(new URL('./operation-child.ts', import.meta.url), { place, does }, 890_000)
  onTestFinished(() => child.kill('SIGKILL'))
  return child
}

/** Many rows take their time on a busy machine, and each process waits for the lease of the one before. */
async function eventually(holds: () => Promise<boolean>): Promise<void> {
  await expect.poll(holds, { timeout: 600_000, interval: 20 }).toBe(true)
}

const audit = (place: Place): string => (place.store === 'postgres' ? `${place.schema}.audit` : 'hapax_audit')

describe.each(oneInTest(durableStores(), 'postgres'))('%s: operations', (store) => {
  it('a retry of many goes on when the processes that work on it are killed: exactly those that had failed, each once', async () => {
    await using checker = await makePlace(store)
    const { place } = checker
    const hapax = createHapax({ store: await openStore(place), source: '/operations', logger: silentLogger })
    let failing = true
    const consumer = hapax.consumer('billing', { receive: 'store' })
    consumer.on(Order, async (_, { tx, message }) => {
      if (failing || message.id.startsWith('later')) throw new Permanent('the bank is down')
      await tx.query(insertEffect(place, 'billing', message.id))
    })
    const fail = async (prefix: string, count: number): Promise<void> => {
      const all = Array.from({ length: count }, (_, n) => `${prefix}${n}`)
      for (let from = 0; from < count; from += 500) {
        const part = all.slice(from, from + 500)
        await consumer.handleMany(part.map((id) => ({ id, source: '/shop', type: 'order', data: {} })))
      }
      const worker = hapax.worker({ consume: [consumer], pollMs: 20 })
      await worker.start()
      await worker.drain()
      await worker.stop()
    }
    await fail('first', TOTAL)
    expect(await hapax.failed.count()).toBe(TOTAL)

    const first = start(place, 'begin')
    const operation = async () => (await hapax.operations.list()).at(0)
    await eventually(async () => ((await operation())?.done ?? 0) >= TOTAL / 5)
    first.kill('SIGKILL')
    await first.ended
    // The server may still commit what the process had sent: the count is that of a moment in which nothing changed.
    let [killed, left] = [await operation(), await hapax.failed.count()]
    for (let now = await operation(); now?.done !== killed?.done; now = await operation()) {
      killed = now
      left = await hapax.failed.count()
    }
    expect(killed).toMatchObject({ state: 'running', total: TOTAL })
    expect(left).toBe(TOTAL - (killed?.done ?? 0))

    // More messages fail while nobody works on it.
    failing = false
    await fail('later', 20)
    const second = start(place, 'go on')
    await eventually(async () => ((await operation())?.done ?? 0) >= TOTAL / 2)
    second.kill('SIGKILL')
    await second.ended

    const worker = hapax.worker({ consume: [consumer], pollMs: 20 })
    await worker.start()
    await eventually(async () => (await operation())?.endedAt != null)
    await worker.drain()
    await worker.stop()
    expect(await operation()).toMatchObject({ state: 'done', total: TOTAL, done: TOTAL, gone: 0, errors: 0 })
    const [counted] = await checker.query(
      `select count(*) as n, count(distinct id) as ids from ${audit(place)} where action = 'retry'`,
    )
    expect([Number(counted?.['n']), Number(counted?.['ids'])]).toEqual([TOTAL, TOTAL])
    expect(await hapax.failed.count()).toBe(20)
    const effects = await countEffects(checker)
    expect(effects.size).toBe(TOTAL)
    expect([...effects.values()].every((times) => times === 1)).toBe(true)
    await hapax.close()
  }, 900_000)
})
