import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Order } from '../../scripts/services/keeper.ts'
import { freePort } from '../../scripts/services/port.ts'
import { findPrograms } from '../../scripts/services/programs.ts'
import type { Command } from '../../scripts/services/service.ts'

/** A private PostgreSQL, some of whose files lie on a small disk in memory. */
export interface SmallDisk extends AsyncDisposable {
  readonly url: string
  /** Fills the remaining space. */
  fill(): void
  /** Frees it. */
  clear(): void
  /** Whether the server has written this to its log. */
  hasSaid(words: string): boolean
}

/** What lies on the small disk: everything but the write-ahead log, or that log alone. */
export type OnDisk = 'tables' | 'log'

const DISK_MB = 80

/** Opens one, or returns the reason why this machine cannot. */
export async function openSmallDisk(what: OnDisk): Promise<SmallDisk | string> {
  const programs = findPrograms(['postgres', 'initdb'], ['/usr/lib/postgresql/*/bin', '/usr/pgsql-*/bin'])
  if (programs === undefined) return 'PostgreSQL is not installed here'
  const base = mkdtempSync('/tmp/hapax-small-disk-')
  chmodSync(base, 0o755)
  const disk = join(base, 'disk')
  mkdirSync(disk)
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MB}m,mode=0777`, 'tmpfs', disk], {
    encoding: 'utf8',
  })
  if (mounted.status !== 0) {
    rmSync(base, { recursive: true })
    return `a small disk cannot be mounted here: ${mounted.stderr?.trim() || mounted.error?.message}`
  }
  const port = await freePort()
  const url = `postgres://hapax@127.0.0.1:${port}/postgres`
  const release = keep(orderOf(programs, { base, disk, port, what }))
  // A forgotten slot keeps the log growing; without it the server would use the files that it has again and again.
  await untilAnswers(url, what === 'log' ? `select pg_create_physical_replication_slot('forgotten', true)` : 'select 1')
  const ballast = join(disk, 'ballast')
  return {
    url,
    fill: () => fill(ballast),
    clear: () => rmSync(ballast, { force: true }),
    hasSaid: (words) => readFileSync(join(base, 'server', 'log'), 'utf8').includes(words),
    [Symbol.asyncDispose]: release,
  }
}

interface Layout {
  readonly base: string
  readonly disk: string
  readonly port: number
  readonly what: OnDisk
}

function orderOf(programs: Record<'postgres' | 'initdb', string>, { base, disk, port, what }: Layout): Order {
  const directory = join(base, 'server')
  const data = join(what === 'tables' ? disk : directory, 'data')
  const waldir = join(what === 'log' ? disk : directory, 'wal')
  const initdb: Command = [programs.initdb, '-D', data, '-U', 'hapax', '--auth=trust', '--no-sync', '--no-locale']
  const settings = [
    `port=${port}`,
    `unix_socket_directories=${directory}`,
    'listen_addresses=127.0.0.1',
    'shared_buffers=4MB',
    // A checkpoint writes files of its own beside the tables, and panics where it cannot.
    ...(what === 'log' ? ['min_wal_size=2MB', 'max_wal_size=4MB'] : ['max_wal_size=1GB', 'checkpoint_timeout=1h']),
  ].flatMap((setting) => ['-c', setting])
  // Started again whenever it ends, as a service manager does: a full log ends it, and it cannot start before there is space.
  const again = 'while :; do "$@"; sleep 0.2; done'
  return {
    directory,
    user: 'postgres',
    launch: {
      prepare: [[...initdb, '--encoding=UTF8', '--wal-segsize=1', `--waldir=${waldir}`]],
      server: { command: ['sh', '-c', again, 'sh', programs.postgres, '-D', data, ...settings], stop: 'SIGKILL' },
      cleanup: [
        ['umount', '--lazy', disk],
        ['rm', '-rf', disk],
      ],
    },
  }
}

/** The keeper outlives a test process that is killed, and cleans up. */
function keep(order: Order): () => Promise<void> {
  const script = fileURLToPath(new URL('../../scripts/services/keeper.ts', import.meta.url))
  const child = spawn(process.execPath, [script, JSON.stringify(order)], { stdio: ['pipe', 'ignore', 'inherit'] })
  child.stdin.on('error', () => {})
  const exit = once(child, 'exit')
  exit.catch(() => {})
  return async () => {
    child.stdin.end()
    await exit
    rmSync(join(order.directory, '..'), { recursive: true, force: true })
  }
}

async function untilAnswers(url: string, statement: string): Promise<void> {
  for (const deadline = performance.now() + 120_000; ; ) {
    const client = new pg.Client(url)
    client.on('error', () => {})
    try {
      await client.connect()
      await client.query(statement)
      return await client.end()
    } catch (error) {
      if (performance.now() > deadline) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

function fill(path: string): void {
  const file = openSync(path, 'a')
  for (const size of [1 << 20, 1 << 16, 1 << 12]) {
    const zeros = Buffer.alloc(size)
    try {
      for (;;) writeSync(file, zeros)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    }
  }
  closeSync(file)
}
