#!/usr/bin/env node
import { unsupportedNode } from '../base/index.ts'

const objection = unsupportedNode()
if (objection === undefined) {
  // Loaded now, and not before: on an old Node.js, that alone would fail.
  await import('./start.ts')
} else {
  process.stderr.write(`${objection}\n`)
  process.exitCode = 1
}
