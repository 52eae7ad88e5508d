import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Order } from './keeper.ts'
import type { Startable } from './service.ts'

/** A process that runs a server until it is released; `ended` resolves with its output if it failed. */
export interface Keeper {
  readonly process: ChildProcess
  readonly ended: Promise<string>
}

/** Starts a server that ends with this process, however that ends; with a channel if it takes commands. */
export function keep(order: Order, channel: 'channel' | 'no channel' = 'no channel'): Keeper {
  const script = fileURLToPath(new URL('./keeper.ts', import.meta.url))
  // Detached, because Ctrl-C reaches every process of the terminal's group.
  const child = spawn(process.execPath, [script, JSON.stringify(order)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'pipe', ...(channel === 'channel' ? (['ipc'] as const) : [])],
  })
  child.stdin?.on('error', () => {})
  const said = child.stderr === null ? '' : text(child.stderr)
  return { process: child, ended: Promise.all([said, once(child, 'exit')]).then(([words]) => words) }
}

/** Stops the server and removes its data. */
export async function release({ process: child, ended }: Keeper): Promise<void> {
  child.stdin?.end()
  await ended
}

/** Waits until the server responds; returns its name and version. */
export async function untilReady(
  service: Startable,
  url: string,
  { deadlineMs, hasEnded }: { deadlineMs: number; hasEnded(): boolean },
): Promise<string> {
  for (const deadline = performance.now() + deadlineMs; ; ) {
    try {
      return await service.ping(url)
    } catch (error) {
      if (hasEnded()) throw new Error(`${service.title} did not start`)
      if (performance.now() >= deadline)
        throw new Error(`${service.title} does not answer at ${url}: ${reasonOf(error)}`)
      await delay(50)
    }
  }
}

/** A refused connection to a name with several addresses has its reasons inside, and no message. */
function reasonOf(error: unknown): string {
  return error instanceof AggregateError ? error.errors.map(reasonOf).join(', ') : (error as Error).message
}

/** A name for the directory of an instance. */
export function newDirectory(service: Pick<Startable, 'name'>): string {
  return join(temporaryFolder(), `hapax-${service.name}-${randomBytes(6).toString('hex')}`)
}

/** The servers run under accounts of their own when root starts them, and must be able to reach their files. */
function temporaryFolder(): string {
  if (process.getuid?.() !== 0) return tmpdir()
  return [tmpdir(), '/tmp', '/var/tmp'].find(isOpenToAll) ?? tmpdir()
}

function isOpenToAll(folder: string): boolean {
  const isOpen = ((statSync(folder, { throwIfNoEntry: false })?.mode ?? 0) & 0o001) !== 0
  return isOpen && (dirname(folder) === folder || isOpenToAll(dirname(folder)))
}
