import { execFileSync } from 'node:child_process'

interface Process {
  readonly pid: number
  readonly parent: number
  readonly state: string
  readonly isKeeper: boolean
}

/** The servers that this process has started: those processes alone that are the server itself, or all that it runs. */
export function serverProcesses(which: 'main' | 'all'): number[] {
  const all = listProcesses()
  const children = (parent: number): Process[] => all.filter((each) => each.parent === parent)
  const below = (parent: number): Process[] => children(parent).flatMap((each) => [each, ...below(each.pid)])
  const keepers = children(process.pid).filter(({ isKeeper }) => isKeeper)
  return keepers.flatMap(({ pid }) => (which === 'main' ? children(pid) : below(pid))).map(({ pid }) => pid)
}

/** The states of those processes that still exist, as `ps` shows them: `T` is stopped, `Z` has ended. */
export function states(pids: number[]): string[] {
  return listProcesses().flatMap(({ pid, state }) => (pids.includes(pid) ? [state] : []))
}

function listProcesses(): Process[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,stat=,args='], { encoding: 'utf8' }).trim().split('\n')
  return lines.map((line) => {
    const [pid, parent, state = '', ...args] = line.trim().split(/\s+/)
    return { pid: Number(pid), parent: Number(parent), state, isKeeper: args.some((arg) => arg.endsWith('/keeper.ts')) }
  })
}
