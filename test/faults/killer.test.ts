import { createHapax, defineMessage, silentLogger } from 'hapax'
import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { countEffects, durableStores, makePlace, openStore, table } from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'
import type { KillerJob } from './killer-child.ts'

describe.each(oneInTest(durableStores(), 'postgres'))('%s: a message that ends its process', (store) => {
  it('C2: in a group of 100 it is parked alone, and no bystander is', async () => {
    await using checker = await makePlace(store)
    const hapax = createHapax({ store: await openStore(checker.place), source: '/killer', logger: silentLogger })
    const consumer = hapax.consumer('billing', { receive: 'store' }).on(defineMessage('order'), () => {})
    const ids = Array.from({ length: 99 }, (_, n) => `m${n}`).toSpliced(50, 0, 'killer')
    const outcomes = await consumer.handleMany(ids.map((id) => ({ id, source: '/shop', type: 'order', data: null })))
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['stored']))

    const killerJob: KillerJob = { place: checker.place, takeoverMs: 600 }
    let deaths = 0
    for (;;) {
      const child = new Child(new URL('./killer-child.ts', import.meta.url), killerJob, 120_000)
      const { code, signal, errors } = await child.ended
      if (code === 0) break
      expect({ signal, errors }).toEqual({ signal: 'SIGKILL', errors: '' })
      deaths += 1
    }
    // Three times alone, and before that among the others: once, or again if the next process was there before the last one
    // was known to be dead.
    expect(deaths).toBeGreaterThanOrEqual(4)
    expect(deaths).toBeLessThanOrEqual(10)
    const effects = await countEffects(checker)
    expect(effects.size).toBe(99)
    expect(new Set(effects.values())).toEqual(new Set([1]))
    const failed = await checker.query(`select id, reason from ${table(checker.place, 'failed')}`)
    expect(failed.map((row) => ({ id: String(row['id']), reason: String(row['reason']) }))).toEqual([
      { id: 'killer', reason: 'crash-loop' },
    ])
    expect(await checker.query(`select id from ${table(checker.place, 'inbox')}`)).toEqual([])
    await hapax.close()
  }, 300_000)
})
