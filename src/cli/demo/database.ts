import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** How long the databases of earlier runs are kept. */
export const KEEP_MS = 3_600_000
const PREFIX = 'hapax-demo-'

/** Where the database of a new run is. */
export function newDatabase(): string {
  removeOld()
  return join(mkdtempSync(join(tmpdir(), PREFIX)), 'shop.db')
}

/** The database of a run is kept for inspection; those of earlier runs are deleted after an hour. */
function removeOld(): void {
  for (const name of readdirSync(tmpdir()).filter((each) => each.startsWith(PREFIX))) {
    const path = join(tmpdir(), name)
    try {
      if (Date.now() - statSync(path).mtimeMs > KEEP_MS) rmSync(path, { recursive: true, force: true })
    } catch {
      // It belongs to another user, or is gone already.
    }
  }
}
