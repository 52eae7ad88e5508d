import { randomInt } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { expect, test } from 'vitest'
import { replayCommand, runSeed, simulate } from './runner.ts'

/** A violation is a bug whatever the seed; another one in each run sees more of them. */
const from = Number(process.env['HAPAX_SEED'] ?? randomInt(1, 2 ** 30))
const histories = Number(process.env['HAPAX_HISTORIES'] ?? 200_000)

test(`keeps I1 to I8 in ${histories} histories from seed ${from}`, { timeout: 900_000 }, async () => {
  const began = performance.now()
  const report = await simulate({ from, histories }, Math.max(2, availableParallelism()))
  const seconds = (performance.now() - began) / 1_000
  process.stdout.write(`${report.histories} histories, ${report.steps} steps, ${seconds.toFixed(1)} s\n`)
  expect(report.failures.map((failure) => replayCommand(failure))).toEqual([])
  expect(report.histories).toBe(histories)
})

test('replays a seed exactly', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const [one, two] = [await runSeed(seed, { trace: true }), await runSeed(seed, { trace: true })]
    expect(one.trace.join('\n')).toBe(two.trace.join('\n'))
    expect(JSON.stringify(one.evidence)).toBe(JSON.stringify(two.evidence))
  }
})
