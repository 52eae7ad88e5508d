import { describe, expect, it } from 'vitest'
import { type DurableStore, durableStores, makePlace } from '../../support/databases.ts'
import { oneInTest } from '../../support/runs.ts'
import { seed } from '../../support/seeded.ts'
import { serverVariables } from '../../support/servers.ts'
import { type SoakOptions, type SoakResult, soak } from './soak.ts'

const full = process.env['HAPAX_TEST_SOAK'] === 'full'
const pgbouncer = process.env[serverVariables.pgbouncer]

/** Several processes share one database: not for a file. */
const stores = oneInTest(
  durableStores().filter((store) => store !== 'sqlite'),
  'postgres',
)
const ways: readonly { readonly name: string; readonly store: DurableStore; readonly url?: string }[] = [
  ...stores.map((store) => ({ name: store, store })),
  ...(full && pgbouncer ? [{ name: 'postgres through PgBouncer', store: 'postgres' as const, url: pgbouncer }] : []),
]

const options: SoakOptions = full
  ? {
      seed,
      messages: 50_000,
      keys: 200,
      publishers: 2,
      workers: 4,
      takeoverMs: 15_000,
      overMs: 300_000,
      calmMs: 10_000,
      awayMs: 10_000,
      cutMs: 1_000,
      silenceLimitMs: 20_000,
      restMs: 300_000,
      deadlineMs: 900_000,
    }
  : {
      seed,
      messages: 3_000,
      keys: 60,
      publishers: 2,
      workers: 3,
      takeoverMs: 3_000,
      overMs: 15_000,
      calmMs: 3_000,
      awayMs: 1_500,
      cutMs: 300,
      silenceLimitMs: 20_000,
      restMs: 300_000,
      // Twenty seconds on a quiet machine; heartbeats that come late on a busy one cost more.
      deadlineMs: 900_000,
    }

function show(name: string, { verdict, faults, ...rest }: SoakResult): void {
  const { effects, keys, silenceMs, afterKillMs, longestWaitMs } = verdict
  console.log(
    `soak on ${name} (seed ${seed}): ${effects} effects of ${keys} keys in ${rest.seconds.toFixed(0)} s, ` +
      `${rest.copies} copies, ${rest.repeated} publishes repeated, ` +
      `${faults.kill} kills, ${faults.pause} pauses, ${faults.cut} cuts, ${rest.workerErrors} errors of workers; ` +
      `longest silence ${silenceMs.toFixed(0)} ms, after a kill ${afterKillMs.toFixed(0)} ms, ` +
      `longest wait ${longestWaitMs.toFixed(0)} ms, at rest ${rest.restSeconds.toFixed(1)} s after the last fault`,
  )
}

if (ways.length === 0) it.skip('a soak needs a database server, and this run has none')

describe.each(ways)('$name: a soak', ({ name, store, url }) => {
  it(`${options.messages} keyed messages take effect once and in order while ${options.workers} workers are killed, paused and cut off (seed ${seed})`, {
    timeout: options.deadlineMs + 60_000,
  }, async () => {
    await using checker = await makePlace(store)
    const { place } = checker
    const result = await soak(place, options, { ...place, url: url ?? place.url })
    show(name, result)
    const { verdict, faults, contradictions, left, copies } = result
    expect(verdict.complaints, JSON.stringify(verdict)).toEqual([])
    expect({ left, contradictions }).toEqual({ left: [], contradictions: [] })
    expect(verdict.effects).toBe(options.messages)
    expect(copies).toBeGreaterThanOrEqual(options.messages * 0.19)
    expect(faults.kill).toBeGreaterThanOrEqual(options.workers)
    expect(faults.pause).toBeGreaterThanOrEqual(options.workers)
  })
})
