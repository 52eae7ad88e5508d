import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

const main = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts')

export interface Report {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs the command as a process; `onOutput` sees what it prints. */
export async function conformance(
  argv: readonly string[],
  onOutput: (text: string, kill: (signal: 'SIGINT') => void) => void = () => {},
): Promise<Report> {
  const child = spawn(process.execPath, ['--conditions=hapax-source', '--no-warnings', main, 'conformance', ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NO_COLOR: '1' },
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk) => {
    stdout += chunk
    onOutput(stdout, (signal) => child.kill(signal))
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const [exitCode] = await once(child, 'close')
  return { exitCode, stdout, stderr }
}

/** Some of the cases, on a server. */
export const run = (kind: '--store' | '--broker', url: string, only: string): Promise<Report> =>
  conformance([kind, url, '--only', only, '--yes'])
