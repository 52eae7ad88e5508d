import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { CasesJob, CasesRun } from '../../test/support/store-cases-child.ts'
import type { Counted } from '../counted.ts'

const program = fileURLToPath(new URL('../../test/support/store-cases-child.ts', import.meta.url))
const DEADLINE_MS = 1_200_000

/** Runs the suite of a store on a runtime, without vitest, and counts its cases. */
export async function countCases(runtime: string, job: CasesJob): Promise<Counted> {
  const child = spawn(runtime, ['--conditions=hapax-source', program, JSON.stringify(job)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: DEADLINE_MS,
    killSignal: 'SIGKILL',
  })
  const said = await text(child.stdout)
  const last = said.trimEnd().split('\n').at(-1) ?? ''
  if (!last.startsWith('{')) return { passed: 0, skipped: 0, failed: 1 }
  const { passed, skipped, failed } = JSON.parse(last) as CasesRun
  for (const each of failed) console.error(each)
  return { passed, skipped, failed: failed.length }
}
