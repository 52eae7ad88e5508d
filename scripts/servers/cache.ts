import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Where downloads are kept: accounts of servers have to reach it, which rules out the home of root. */
const folder = join(process.env.HAPAX_TEST_CACHE ?? tmpdir(), 'hapax-servers')

/** A folder of the cache, made if it is not there. */
export function cached(...names: string[]): string {
  const path = join(folder, ...names)
  mkdirSync(path, { recursive: true, mode: 0o755 })
  return path
}
