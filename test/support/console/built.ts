import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { root } from '../pages.ts'

/** Builds the page from the sources that are tested. */
export function setup(): void {
  execFileSync(process.execPath, [join(root, 'scripts', 'build-console.ts')], { stdio: 'inherit' })
}
