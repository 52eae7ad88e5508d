#!/usr/bin/env node
import { processIo } from './io.ts'
import { run } from './program.ts'

// Node 22 calls node:sqlite and TypeScript configurations experimental, on every start.
process.removeAllListeners('warning')
process.on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') process.stderr.write(`${warning.name}: ${warning.message}\n`)
})

// `hapax … | head` is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

const exitCode = await run(process.argv.slice(2), processIo())
// A pool that the configuration opened would keep the process alive; what was written has to arrive first.
process.stdout.write('', () => process.exit(exitCode))
