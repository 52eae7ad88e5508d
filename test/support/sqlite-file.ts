import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** The path of a database that goes with this test. */
export function temporaryFile(): string {
  const directory = mkdtempSync(join(tmpdir(), 'hapax-sqlite-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return join(directory, 'shop.db')
}

/** Another process that has the lock of the file. */
export function holding(path: string): { holds: Promise<unknown>; release(): void } {
  const program = new URL('./sqlite-process.ts', import.meta.url).pathname
  const child = spawn(process.execPath, ['--conditions=hapax-source', program, path, 'hold'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return { holds: once(child.stdout, 'data'), release: () => void child.stdin.write('go on\n') }
}
