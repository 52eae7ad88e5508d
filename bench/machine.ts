import { closeSync, fsyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { availableParallelism, cpus, release, tmpdir, totalmem, type } from 'node:os'
import { join } from 'node:path'
import peers from './peers/package.json' with { type: 'json' }

/** What the figures were measured on. */
export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly memoryGiB: number
  readonly system: string
  /** How long an append of 8 KiB takes until it is on disk, the median. */
  readonly fsyncMs: number
  readonly node: string
  readonly servers: readonly string[]
  /** The client libraries that hapax and the code by hand use. */
  readonly clients: Readonly<Record<string, string>>
  readonly peers: Readonly<Record<string, string>>
}

const CLIENTS = ['pg', 'mysql2', 'ioredis', 'amqplib', '@nats-io/jetstream', '@platformatic/kafka']

export function machine(servers: readonly string[]): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release().split('-')[0]}`,
    fsyncMs: fsyncMs(),
    node: process.versions.node,
    servers,
    clients: Object.fromEntries(CLIENTS.map((name) => [name, installed(name)])),
    peers: peers.dependencies,
  }
}

function installed(name: string): string {
  const path = join(import.meta.dirname, '..', 'node_modules', name, 'package.json')
  const { version }: { version: string } = JSON.parse(readFileSync(path, 'utf8'))
  return version
}

function fsyncMs(): number {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-bench-'))
  const file = openSync(join(folder, 'appended'), 'a')
  const page = Buffer.alloc(8192, 1)
  const times = Array.from({ length: 101 }, () => {
    const begun = performance.now()
    writeSync(file, page)
    fsyncSync(file)
    return performance.now() - begun
  })
  closeSync(file)
  rmSync(folder, { recursive: true })
  return times.sort((a, b) => a - b)[50] ?? Number.NaN
}
