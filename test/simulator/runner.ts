import { setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { bugs } from './bugs.ts'
import type { Violation } from './checker.ts'
import { runHistory } from './history.ts'
import { type Route, randomScenario } from './scenario.ts'

/** A range of seeds to run. */
export interface Share {
  readonly from: number
  readonly histories: number
  /** Stop after so long, however many that are. */
  readonly seconds?: number | undefined
  /** The name of a bug that is put in on purpose. */
  readonly bug?: string | undefined
  readonly routes?: readonly Route[] | undefined
  /** Stop at the first violation. */
  readonly first?: boolean
}

/** A history that broke an invariant. */
export interface Failure {
  readonly seed: number
  readonly violations: readonly Violation[]
}

/** What a range of seeds came to. */
export interface Report {
  readonly histories: number
  readonly steps: number
  /** How many histories had which faults. */
  readonly faults: ReadonlyMap<string, number>
  readonly failures: readonly Failure[]
}

/** How many failures are kept. */
const MAX_FAILURES = 20

/** Runs histories one after the other in this thread. */
export async function runShare({ from, histories, seconds, bug, routes, first = false }: Share): Promise<Report> {
  // Stacks cost more than everything else about an error, and their paths would make two runs differ.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  const until = performance.now() + 1_000 * (seconds ?? Number.POSITIVE_INFINITY)
  const failures: Failure[] = []
  const faults = new Map<string, number>()
  let steps = 0
  let done = 0
  try {
    for (let seed = from; seed < from + histories; seed++) {
      const result = await runSeed(seed, { bug, routes })
      steps += result.steps
      done += 1
      for (const kind of kindsOf(result.faults)) faults.set(kind, (faults.get(kind) ?? 0) + 1)
      if (result.violations.length > 0 && failures.length < MAX_FAILURES) {
        failures.push({ seed, violations: result.violations })
        if (first) break
      }
      // Histories run inside of one turn of the event loop.
      if (done % 100 === 0) await turn()
      if (done % 100 === 0 && performance.now() > until) break
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
  return { histories: done, steps, faults, failures }
}

function kindsOf(faults: readonly string[]): readonly string[] {
  if (faults.length === 0) return ['nothing at all']
  return faults.every((fault) => fault.startsWith('race')) ? [...faults, 'races only'] : faults
}

/** Runs the history of one seed. */
export function runSeed(
  seed: number,
  {
    bug,
    routes,
    trace = false,
  }: { bug?: string | undefined; routes?: readonly Route[] | undefined; trace?: boolean } = {},
): ReturnType<typeof runHistory> {
  const put = bug === undefined ? undefined : bugs[bug]
  if (bug !== undefined && put === undefined) throw new Error(`expected one of ${Object.keys(bugs)}, got ${bug}`)
  const scenario = randomScenario(seed, routes ?? put?.routes)
  return runHistory(put?.scenario === undefined ? scenario : put.scenario(scenario), { trace, bug: put })
}

/** Runs histories on several threads. */
export async function simulate(share: Share, threads: number): Promise<Report> {
  const each = Math.ceil(share.histories / threads)
  const shares = Array.from({ length: threads }, (_, index) => {
    const from = share.from + index * each
    return { ...share, from, histories: Math.max(0, Math.min(each, share.from + share.histories - from)) }
  })
  const reports = await Promise.all(shares.map(inThread))
  return {
    histories: reports.reduce((sum, report) => sum + report.histories, 0),
    steps: reports.reduce((sum, report) => sum + report.steps, 0),
    faults: sumOf(reports.map((report) => report.faults)),
    failures: reports.flatMap((report) => report.failures),
  }
}

function sumOf(counts: readonly ReadonlyMap<string, number>[]): ReadonlyMap<string, number> {
  const sum = new Map<string, number>()
  for (const [kind, count] of counts.flatMap((each) => [...each])) sum.set(kind, (sum.get(kind) ?? 0) + count)
  return sum
}

/** A report in words. */
export function summary({ histories, steps, faults, failures }: Report, from: number, seconds: number): string {
  const kinds = [...faults].sort(([a], [b]) => (a < b ? -1 : 1)).map(([kind, count]) => `  ${kind}: ${count}`)
  const end = failures.length === 0 ? 'every invariant held' : `${failures.length} broke an invariant`
  return `${histories} histories and ${steps} steps from seed ${from} in ${seconds.toFixed(1)} s, ${end}; of them had\n${kinds.join('\n')}\n`
}

function inThread(share: Share): Promise<Report> {
  return new Promise((resolve, reject) => {
    const execArgv = ['--conditions=hapax-source', '--no-warnings']
    // Almost everything is garbage when its history is over.
    const options = { workerData: share, execArgv, resourceLimits: { maxYoungGenerationSizeMb: 64 } }
    const thread = new Worker(new URL('./thread.ts', import.meta.url), options)
    thread.once('message', resolve)
    thread.once('error', reject)
    thread.once('exit', (code) => reject(new Error(`expected a thread to answer, got its end with ${code}`)))
  })
}

/** How to see a failure again. */
export function replayCommand({ seed, violations }: Failure, bug?: string): string {
  const what = violations.map(({ invariant, what: text }) => `${invariant}: ${text}`).join('; ')
  const option = bug === undefined ? '' : ` -- --bug ${bug}`
  return `HAPAX_SEED=${seed} npm run simulate${option}   # ${what}`
}
