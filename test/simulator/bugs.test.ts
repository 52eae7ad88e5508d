import { afterAll, expect, test } from 'vitest'
import { bugs } from './bugs.ts'
import { replayCommand, runSeed, runShare } from './runner.ts'

/** Most are found by some ten histories, the rarest, which needs a pause at the right moment, by some thousands. */
const MAX_HISTORIES = 30_000

const table: string[] = []
afterAll(() => void process.stdout.write(`bugs put in on purpose:\n${table.join('\n')}\n`))

test.for(Object.entries(bugs))('finds %s', { timeout: 300_000 }, async ([bug, { what }]) => {
  const { histories, failures } = await runShare({ from: 1, histories: MAX_HISTORIES, bug, first: true })
  const [failure] = failures
  if (failure === undefined) throw new Error(`expected ${bug} to be found in ${MAX_HISTORIES} histories: ${what}`)
  table.push(`  ${bug.padEnd(16)} ${what}: after ${histories}, by ${failure.violations[0]?.invariant}`)
  const again = await runSeed(failure.seed, { bug })
  expect(again.violations, replayCommand(failure, bug)).toEqual(failure.violations)
})
