// Runs the suite of a store in a process of its own, without vitest, which starts neither on the oldest Node.js that hapax allows nor on
// other runtimes.
import { inspect } from 'node:util'
import { storeCases } from 'hapax/testing'
import { pgWay } from '../../src/conformance/stores/pg-way.ts'
import { PostgresGround } from '../../src/conformance/stores/postgres.ts'
import { job, say } from './child.ts'
import { nodeSqliteWay } from './node-sqlite-way.ts'
import { sqliteHarness } from './sqlite-harness.ts'

const AT_ONCE = 5
/** Then the others are not run: they would wait for what never happens, one after another. */
const ENOUGH_FAILURES = 3

/** Longer than any case takes that is not stuck, on a busy machine. */
const CASE_DEADLINE_MS = 120_000

/** The store, and for a server its URL. */
export type CasesJob = { readonly store: 'sqlite' } | { readonly store: 'postgres'; readonly url: string }

/** What the process reports at its end. */
export interface CasesRun {
  readonly version: string
  readonly passed: number
  readonly skipped: number
  readonly failed: readonly string[]
}

const asked = job<CasesJob>()
const ground = asked.store === 'sqlite' ? undefined : await PostgresGround.at(asked.url, `cases_${process.pid}`)
const cases =
  ground === undefined ? storeCases(await sqliteHarness(nodeSqliteWay)) : storeCases(await ground.harness(pgWay))
const waiting = cases.filter(({ skip }) => skip === undefined)
const skipped = cases.length - waiting.length
const failed: string[] = []
let passed = 0

async function runSome(): Promise<void> {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    try {
      await inTime(next.run())
      passed++
    } catch (error) {
      failed.push(`${next.topic}: ${next.name}: ${inspect(error)}`)
      if (failed.length === ENOUGH_FAILURES) await end()
    }
  }
}

/** A case that never ends would keep the others from being told. */
async function inTime(running: Promise<void>): Promise<void> {
  const late = AbortSignal.timeout(CASE_DEADLINE_MS)
  await Promise.race([running, new Promise((_, reject) => late.addEventListener('abort', () => reject(late.reason)))])
}

await Promise.all(Array.from({ length: AT_ONCE }, runSome))
await end()

async function end(): Promise<void> {
  await say({ version: process.versions.node, passed, skipped, failed } satisfies CasesRun)
  await ground?.close()
  process.exit()
}
