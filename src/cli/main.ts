#!/usr/bin/env node
import { unsupportedNode } from '../base/index.ts'

const objection = unsupportedNode()
if (objection === undefined) {
  // Imported only now: on an old Node.js, loading the rest would fail before the reason could be printed.
  await import('./start.ts')
} else {
  process.stderr.write(`${objection}\n`)
  process.exitCode = 1
}
