import { randomInt } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { expect, test } from 'vitest'
import { replayCommand, runSeed, simulate, summary } from './runner.ts'

/** A violation is a bug whatever the seed; another one in each run sees more of them. */
const from = Number(process.env['HAPAX_SEED'] ?? randomInt(1, 2 ** 30))
/** So many if somebody wants to know, else as many as fit into a minute. */
const wanted = process.env['HAPAX_HISTORIES']
const share = wanted === undefined ? { histories: 2 ** 30, seconds: 40 } : { histories: Number(wanted) }

test(`keeps I1 to I8 in all histories from seed ${from}`, { timeout: 1_800_000 }, async () => {
  const began = performance.now()
  const report = await simulate({ from, ...share }, Math.max(2, availableParallelism()))
  process.stdout.write(summary(report, from, (performance.now() - began) / 1_000))
  expect(report.failures.map((failure) => replayCommand(failure))).toEqual([])
  // Thousands on a quiet machine; how many there are says nothing about the code.
  expect(report.histories).toBeGreaterThanOrEqual(wanted === undefined ? 100 : Number(wanted))
  expect(report.faults.get('nothing at all') ?? 0).toBeLessThan(report.histories / 5)
})

test('replays a seed exactly', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const [one, two] = [await runSeed(seed, { trace: true }), await runSeed(seed, { trace: true })]
    expect(one.trace.join('\n')).toBe(two.trace.join('\n'))
    expect(JSON.stringify(one.evidence)).toBe(JSON.stringify(two.evidence))
  }
})
