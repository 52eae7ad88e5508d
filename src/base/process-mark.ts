// Tells whether a process of this machine is still running, even if its pid was reused.

import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

/** Identifies this process to others on the same machine. */
export function processMark(): string {
  return JSON.stringify([...machine(), process.pid, startOf(process.pid) ?? null])
}

/** Whether the process of a mark is running; undefined: it belongs to another machine or container. */
export function isRunning(mark: string): boolean | undefined {
  const here = machine()
  const [pid, start, ...there] = fieldsOf(mark)
  if (typeof pid !== 'number' || there.length !== here.length || there.some((part, at) => part !== here[at]))
    return undefined
  if (typeof start === 'string') return startOf(pid) === start
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

function fieldsOf(mark: string): readonly unknown[] {
  const [host, boot, space, pid, start] = JSON.parse(mark) as unknown[]
  return [pid, start, host, boot, space]
}

/** The scope in which a pid is unique: one boot of a machine, and a pid namespace. */
function machine(): readonly (string | null)[] {
  const boot = attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())
  return [hostname(), boot, attempt(() => readlinkSync('/proc/self/ns/pid'))]
}

/** Start time of a process in ticks; undefined: it has ended, or the system does not report it. */
function startOf(pid: number): string | undefined {
  // The program name may contain spaces and parentheses.
  const fields = attempt(() =>
    readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' '),
  )
  return fields === null || /^[ZXx]/.test(fields[0] ?? '') ? undefined : fields[19]
}

function attempt<T>(read: () => T): T | null {
  try {
    return read()
  } catch {
    return null
  }
}
