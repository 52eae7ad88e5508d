// npm run simulate -- [--seed N] [--histories N] [--seconds N] [--threads N] [--route R] [--bug NAME]
// One seed (HAPAX_SEED, or --seed without --histories or --seconds) is shown step by step; more are counted.

import { randomInt } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { replayCommand, runSeed, simulate, summary } from './runner.ts'
import type { Route } from './scenario.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    histories: { type: 'string' },
    seconds: { type: 'string' },
    threads: { type: 'string' },
    route: { type: 'string' },
    bug: { type: 'string' },
  },
})
const { bug } = values
const given = process.env['HAPAX_SEED'] ?? values.seed
const routes = values.route === undefined ? undefined : [values.route as Route]
const one = given !== undefined && values.histories === undefined && values.seconds === undefined
const ok = one ? await show(Number(given)) : await count()
process.exitCode = ok ? 0 : 1

async function show(seed: number): Promise<boolean> {
  Error.stackTraceLimit = 0
  const { trace, violations } = await runSeed(seed, { bug, routes, trace: true })
  const end = violations.map(({ invariant, what }) => `${invariant}: ${what}`)
  process.stdout.write(`${[...trace, ...(end.length === 0 ? ['every invariant holds'] : end)].join('\n')}\n`)
  return violations.length === 0
}

async function count(): Promise<boolean> {
  const from = Number(given ?? randomInt(1, 2 ** 30))
  const seconds = values.seconds === undefined ? undefined : Number(values.seconds)
  const histories = Number(values.histories ?? (seconds === undefined ? 200_000 : 2 ** 30))
  const threads = Number(values.threads ?? availableParallelism())
  const began = performance.now()
  const report = await simulate({ from, histories, seconds, bug, routes }, threads)
  for (const failure of report.failures) process.stdout.write(`${replayCommand(failure, bug)}\n`)
  process.stdout.write(summary(report, from, (performance.now() - began) / 1_000))
  return report.failures.length === 0
}
