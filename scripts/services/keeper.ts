// Runs one server for as long as its stdin stays open, then stops it and removes its data. It is a process of its own, so
// that a services script which is killed leaves nothing behind: the end of the pipe comes in every case. Who opens a channel
// for messages as well may send signals to the server, and start it again on the same data.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Command, Launch } from './service.ts'

export interface Order {
  /** Made by the keeper, and removed by it. */
  readonly directory: string
  readonly user: string | undefined
  /** The network namespace to run it in; for root only. */
  readonly namespace?: string | undefined
  readonly launch: Launch
}

/** What a keeper may be told: to send a signal to the server with all its children, or to start it again. */
export type Instruction = { readonly signal: NodeJS.Signals } | 'start'

/** What it tells; with the end come the last lines of the server's log. */
export type News = 'running' | 'signalled' | { readonly ended: string }

type Account = { uid: number; gid: number } | undefined

const stopDeadlineMs = 10_000
const { directory, user, namespace, launch }: Order = JSON.parse(process.argv[2] ?? '')
const logPath = join(directory, 'log')

let released = false
let current: ChildProcess | undefined
let startAgain = (): void => {}
let stopCurrent: (() => Promise<void>) | undefined
const release = new Promise<void>((resolve) => {
  process.stdin.on('error', () => {})
  process.stdin.on('close', resolve).resume()
}).then(() => {
  released = true
  return stopCurrent?.()
})
process.stderr.on('error', () => {})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
if (process.connected) process.on('message', follow)

mkdirSync(directory, { mode: 0o700 })
const log = openSync(logPath, 'a')
try {
  await keep()
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n${lastLines(logPath)}`)
  process.exitCode = 1
} finally {
  for (const command of launch.cleanup ?? []) await once(start(command), 'exit').catch(() => {})
  rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  process.stdin.destroy()
  if (process.connected) process.disconnect()
}

async function keep(): Promise<void> {
  const account = process.getuid?.() === 0 && user !== undefined ? accountOf(user) : undefined
  prepareDirectory(account)
  for (const command of launch.prepare) await runToEnd(command, account)
  if (launch.server === undefined) return await release
  const { command, stop } = launch.server
  if (process.connected) return await runAsTold(() => runToEnd(command, account, stop))
  await runToEnd(command, account, stop)
  if (!released) throw new Error(`${command[0]} ended by itself`)
}

async function runAsTold(run: () => Promise<void>): Promise<void> {
  while (!released) {
    tell('running')
    await run().catch(() => {})
    tell({ ended: lastLines(logPath) })
    const told = new Promise<void>((resolve) => {
      startAgain = resolve
    })
    await Promise.race([told, release])
  }
}

function follow(instruction: Instruction): void {
  if (instruction === 'start') {
    startAgain()
  } else {
    signalAll(current, instruction.signal)
    tell('signalled')
  }
}

function tell(news: News): void {
  if (process.connected) process.send?.(news, undefined, undefined, () => {})
}

async function runToEnd(command: Command, account: Account, stop: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  if (released) return
  const child = start(command, account)
  const exit = once(child, 'exit')
  current = child
  stopCurrent = () => end(child, exit, stop)
  const [code, signal] = await exit
  current = stopCurrent = undefined
  if (!released && code !== 0) throw new Error(`${command[0]} ended with ${signal ?? `exit code ${code}`}`)
}

function start(command: Command, account?: Account): ChildProcess {
  const [program, ...args] = namespace === undefined ? command : inNamespace(namespace, command, account)
  const own = namespace === undefined ? account : {}
  // In a group of its own, so that its children can be killed with it.
  return spawn(program, args, { cwd: directory, detached: true, stdio: ['ignore', log, log], ...own })
}

/** Only root may enter a namespace, so the account is changed inside. */
function inNamespace(name: string, command: Command, account: Account): Command {
  const as: readonly string[] =
    account === undefined ? [] : ['setpriv', `--reuid=${account.uid}`, `--regid=${account.gid}`, '--clear-groups']
  return ['ip', 'netns', 'exec', name, ...as, ...command]
}

async function end(child: ChildProcess, exit: Promise<unknown>, stop: NodeJS.Signals): Promise<void> {
  if (stop !== 'SIGKILL') {
    child.kill(stop)
    await Promise.race([exit, delay(stopDeadlineMs, undefined, { ref: false })])
  }
  signalAll(child, 'SIGKILL')
}

function signalAll(child: ChildProcess | undefined, signal: NodeJS.Signals): void {
  try {
    if (child?.pid !== undefined) process.kill(-child.pid, signal)
  } catch {
    // The whole group has ended by itself.
  }
}

function prepareDirectory(account: Account): void {
  const files = Object.entries(launch.files ?? {}).map(([name, text]) => ({ path: join(directory, name), text }))
  for (const { path, text } of files) writeFileSync(path, text)
  if (account === undefined) return
  for (const path of [directory, ...files.map((file) => file.path)]) chownSync(path, account.uid, account.gid)
}

function accountOf(wanted: string): Account {
  for (const name of [wanted, 'nobody']) {
    try {
      const id = (flag: string) => Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: 'pipe' }))
      return { uid: id('-u'), gid: id('-g') }
    } catch {
      // There is no such account: try the next.
    }
  }
  throw new Error(`expected an account '${wanted}' or 'nobody' to run the server as, found none`)
}

function lastLines(path: string): string {
  return `${readFileSync(path, 'utf8').trimEnd().split('\n').slice(-20).join('\n')}\n`
}
