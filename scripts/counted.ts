import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** How many tests ended how. */
export interface Counted {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

/** These runs take long and may share their machine with others: nothing fails because it had to wait for a processor. */
const patient = ['--testTimeout=180000', '--hookTimeout=180000']

/** Runs test files, given as patterns, in a folder of the project or of a copy, and counts. */
export async function countTests(
  cwd: string,
  files: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Counted> {
  const directory = mkdtempSync(join(tmpdir(), 'hapax-report-'))
  const report = join(directory, 'report.json')
  try {
    const args = ['run', '--reporter=default', '--reporter=json', `--outputFile=${report}`, ...patient]
    const child = spawn('vitest', [...args, ...globSync([...files], { cwd })], {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    await once(child, 'close')
    return read(report)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** A file that could not be loaded has no tests that could fail: it counts as one. */
function read(report: string): Counted {
  const { numPassedTests, numFailedTests, numPendingTests, testResults } = JSON.parse(readFileSync(report, 'utf8'))
  const broken = (testResults as { status: string; assertionResults: { status: string }[] }[]).filter(
    ({ status, assertionResults: tests }) => status === 'failed' && tests.every((test) => test.status !== 'failed'),
  )
  return { passed: numPassedTests, failed: numFailedTests + broken.length, skipped: numPendingTests }
}
