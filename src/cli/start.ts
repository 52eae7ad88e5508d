import { processIo } from './io/io.ts'
import { run } from './program.ts'

// Node 22 warns at every start that node:sqlite and TypeScript configurations are experimental. In a project without a type, Node.js reads
// a configuration twice and advises to set one.
process.removeAllListeners('warning')
process.on('warning', (warning: Error & { readonly code?: string }) => {
  if (warning.name !== 'ExperimentalWarning' && warning.code !== 'MODULE_TYPELESS_PACKAGE_JSON')
    process.stderr.write(`${warning.name}: ${warning.message}\n`)
})

// `hapax … | head` is not a failure. A relay or a worker whose reader is gone exits with 1, so that it is restarted.
const isService = process.argv[2] === 'relay' || process.argv[2] === 'work'
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (isService) process.stderr.write(`hapax: stdout is closed: ${error.message} (${error.code})\n`)
  process.exit(error.code === 'EPIPE' && !isService ? 0 : 1)
})

const exitCode = await run(process.argv.slice(2), processIo())
// A pool that the configuration file opened would keep the process alive, so it exits once its output is flushed.
process.stdout.write('', () => process.exit(exitCode))
