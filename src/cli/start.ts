import { processIo } from './io/io.ts'
import { run } from './program.ts'

// Node 22 calls node:sqlite and TypeScript configurations experimental, on every start.
process.removeAllListeners('warning')
process.on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') process.stderr.write(`${warning.name}: ${warning.message}\n`)
})

// `hapax … | head` is no failure, but a relay or a worker whose reader is gone has to be started again.
const isService = process.argv[2] === 'relay' || process.argv[2] === 'work'
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (isService) process.stderr.write(`hapax: nobody reads what is written: ${error.message} (${error.code})\n`)
  process.exit(error.code === 'EPIPE' && !isService ? 0 : 1)
})

const exitCode = await run(process.argv.slice(2), processIo())
// A pool that the configuration opened would keep the process alive; what was written has to arrive first.
process.stdout.write('', () => process.exit(exitCode))
