import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { durableStores, makePlace, openStore, table } from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'
import type { RelayJob } from './relay-child.ts'

const TAKEOVER_MS = 1_000
const KEYS = 20
const Counted = defineMessage<{ key: string }>('counted', { key: ({ key }) => key })

/** The ids of each key in the order in which they arrived first. */
function firstArrivals(path: string): Map<string, number[]> {
  const arrived = new Map<string, Set<number>>()
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    const [key, id] = line.split(' ')
    if (key !== undefined && id !== undefined) arrived.set(key, (arrived.get(key) ?? new Set()).add(Number(id)))
  }
  return new Map([...arrived].map(([key, ids]) => [key, [...ids]]))
}

describe.each(oneInTest(durableStores(), 'postgres'))('%s: relays', (store) => {
  it('D17 D29: two relays paused and resumed around a takeover keep the first arrivals of a key in order', async () => {
    await using checker = await makePlace(store)
    const directory = mkdtempSync(join(tmpdir(), 'hapax-relays-'))
    const arrivals = join(directory, 'arrivals')
    writeFileSync(arrivals, '')
    const relayJob: RelayJob = { place: checker.place, arrivals, takeoverMs: TAKEOVER_MS }
    const start = (): Child<object> => new Child(new URL('./relay-child.ts', import.meta.url), relayJob, 170_000)
    const relays = [start(), start()] as const
    for (const relay of relays) await relay.next()

    const hapax = createHapax({ store: await openStore(checker.place), source: '/relays', logger: silentLogger })
    const publishing = (async () => {
      for (let id = 0; id < 1_200; id += 10) {
        await hapax.transaction(async (tx) => {
          for (let each = id; each < id + 10; each++) {
            await hapax.publish(tx, Counted, { key: `k${each % KEYS}` }, { id: String(each) })
          }
        })
        await delay(Math.random() * 30)
      }
    })()
    // Longer than it takes to be held for dead: the other one takes over, and the paused one comes back with old rows.
    for (let pause = 0; pause < 4; pause++) {
      const relay = relays[pause % 2] as Child<object>
      relay.kill('SIGSTOP')
      await delay(TAKEOVER_MS * 1.2)
      relay.kill('SIGCONT')
      await delay(100)
    }
    await publishing
    await expect
      .poll(() => checker.query(`select id from ${table(checker.place, 'outbox')} limit 1`), { timeout: 100_000 })
      .toEqual([])
    for (const relay of relays) relay.tell({ stop: true })
    for (const relay of relays) expect(await relay.ended).toMatchObject({ code: 0, errors: '' })
    await hapax.close()

    const seen = firstArrivals(arrivals)
    expect(seen.size).toBe(KEYS)
    for (const ids of seen.values()) {
      expect(ids).toEqual([...ids].sort((a, b) => a - b))
      expect(ids).toHaveLength(1_200 / KEYS)
    }
    rmSync(directory, { recursive: true })
  })
})
