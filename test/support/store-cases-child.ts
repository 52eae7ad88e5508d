// Runs the SQLite suite in a process of its own, without vitest, which does not start on the oldest Node.js that hapax allows.
import { inspect } from 'node:util'
import { storeCases } from 'hapax/testing'
import { say } from './child.ts'
import { sqliteHarness } from './sqlite-harness.ts'

const AT_ONCE = 5
/** Then the others are not run: they would wait for what never happens, one after another. */
const ENOUGH_FAILURES = 3

/** What the process reports at its end. */
export interface CasesRun {
  readonly version: string
  readonly passed: number
  readonly failed: readonly string[]
}

const waiting = storeCases(sqliteHarness).filter(({ skip }) => skip === undefined)
const failed: string[] = []
let passed = 0

async function runSome(): Promise<void> {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    try {
      await next.run()
      passed++
    } catch (error) {
      failed.push(`${next.topic}: ${next.name}: ${inspect(error)}`)
      if (failed.length === ENOUGH_FAILURES) await end()
    }
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, runSome))
await end()

async function end(): Promise<void> {
  await say({ version: process.versions.node, passed, failed } satisfies CasesRun)
  process.exit()
}
