import { expect, it, onTestFinished } from 'vitest'
import { Child } from '../support/child.ts'
import { nodeProgram, oldestNode, orSkip } from '../support/registry.ts'
import type { CasesJob, CasesRun } from '../support/store-cases-child.ts'

const program = new URL('../support/store-cases-child.ts', import.meta.url)
const DEADLINE_MS = 400_000

it(`passes the whole suite on Node.js ${oldestNode}`, { timeout: 2 * DEADLINE_MS }, async ({ skip }) => {
  const node = await orSkip(nodeProgram(oldestNode), skip)
  const child = new Child<CasesRun>(program, { store: 'sqlite' } satisfies CasesJob, DEADLINE_MS, node)
  onTestFinished(() => child.kill('SIGKILL'))
  const { version, passed, failed } = await child.next()
  expect(failed).toEqual([])
  expect(version).toBe(oldestNode)
  expect(passed).toBeGreaterThan(400)
})
