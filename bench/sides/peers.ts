import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const folder = join(import.meta.dirname, '..', 'peers')

interface Manifest {
  readonly version: string
  readonly dependencies: Readonly<Record<string, string>>
}

/** Installs the peers as their lockfile says, unless they are there. False: they could not be installed. */
export function installPeers(): boolean {
  const { dependencies } = manifest(folder)
  if (Object.entries(dependencies).every(([name, version]) => versionOf(name) === version)) return true
  console.error('bench: installing the peers by npm ci in bench/peers')
  const { status, stderr } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, encoding: 'utf8' })
  if (status === 0) return true
  const reason =
    stderr
      ?.split('\n')
      .filter((line) => line.startsWith('npm error'))
      .slice(0, 2)
      .join(', ') || 'npm did not run'
  console.error(`bench: peers left out: npm ci in bench/peers failed, is the registry within reach? ${reason}`)
  return false
}

/** The installed version of a peer. */
export function versionOf(name: string): string | undefined {
  const path = join(folder, 'node_modules', name)
  return existsSync(path) ? manifest(path).version : undefined
}

/** Loads a peer, by a name that the compiler does not follow: types are checked without the peers, too. */
export async function load<T>(name: string): Promise<T> {
  return await import(createRequire(join(folder, 'package.json')).resolve(name))
}

function manifest(path: string): Manifest {
  return JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'))
}
