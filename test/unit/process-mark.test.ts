import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { isRunning, processMark } from '../../src/base/index.ts'

const MODULE = new URL('../../src/base/process-mark.ts', import.meta.url).href

/** The mark of a process that runs until it is killed. */
async function another() {
  const source = `console.log((await import(${JSON.stringify(MODULE)})).processMark()); setInterval(() => {}, 1e6)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: ['ignore', 'pipe', 'ignore'] })
  const [mark] = await once(child.stdout.setEncoding('utf8'), 'data')
  return { mark: String(mark).trim(), child }
}

it('a process runs until it has ended, even if another one gets its number', async () => {
  const { mark, child } = await another()
  expect([isRunning(processMark()), isRunning(mark)]).toEqual([true, true])
  const [host, boot, space, pid, start] = JSON.parse(mark)
  if (start !== null) expect(isRunning(JSON.stringify([host, boot, space, pid, `${start}0`]))).toBe(false)
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect(isRunning(mark)).toBe(false)
})

it('a process of another machine or container has an unknown state', () => {
  const [host, boot, space, pid, start] = JSON.parse(processMark())
  expect(isRunning(JSON.stringify(['other', boot, space, pid, start]))).toBeUndefined()
  expect(isRunning(JSON.stringify([host, boot, 'pid:[1]', pid, start]))).toBeUndefined()
})

it.skipIf(process.platform !== 'linux')('a process without a free file descriptor holds no other one for ended', () => {
  const source = `
const { openSync } = await import('node:fs')
const { isRunning } = await import(${JSON.stringify(MODULE)})
const before = isRunning(process.argv[1])
try { for (;;) openSync('/dev/null') } catch {}
const after = isRunning(process.argv[1])
process.stdout.write([before, after].join())`
  const command = `ulimit -n 100 && exec "$0" --input-type=module -e "$1" "$2"`
  const said = execFileSync('sh', ['-c', command, process.execPath, source, processMark()], { encoding: 'utf8' })
  expect(said).toBe('true,')
})
