import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { addCleanup } from './commands/cleanup.ts'
import { addConsumers } from './commands/consumers.ts'
import { addDoctor } from './commands/doctor.ts'
import { addExplain } from './commands/explain.ts'
import { addFailed } from './commands/failed/index.ts'
import { addKeys } from './commands/keys.ts'
import { addEffects, addReceipts } from './commands/lists.ts'
import { addMigrate } from './commands/migrate.ts'
import { addRelay } from './commands/relay.ts'
import { addRelays } from './commands/relays.ts'
import { addSent } from './commands/sent.ts'
import { addStatus } from './commands/status.ts'
import { addWork } from './commands/work.ts'
import { CliError, report } from './io/errors.ts'
import { type Io, paint } from './io/io.ts'
import { type AddCommand, type Done, examples, wholeNumber } from './options.ts'

/** Runs one command line (without node and the script) and answers the exit code: 0 ok, 1 failure, 2 wrong usage. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  let exitCode = 0
  const root = program(io, (code) => {
    exitCode = code
  })
  try {
    await root.parseAsync(argv, { from: 'user' })
    return exitCode
  } catch (error) {
    return error instanceof CommanderError ? usage(io, error) : report(io, error)
  }
}

/** Help and version are no errors; a missing command is one, and its help was the answer. */
function usage(io: Io, { code, message, exitCode }: CommanderError): number {
  if (exitCode === 0) return 0
  if (code === 'commander.help') return 2
  const [text = '', ...more] = message.replace(/^error: /, '').split('\n')
  return report(io, new CliError('usage', text, [...more, 'to see how: npx hapax --help, or --help after a command']))
}

function program(io: Io, done: Done): Command {
  const root = new Command('hapax')
    .description('Looks after the tables of hapax: messages that take effect once.')
    .version(version(), '-V, --version', 'print the version')
    .exitOverride()
    .helpCommand(false)
    .configureHelp({ styleTitle: (text) => paint(io, 'bold', text), showGlobalOptions: false })
    .configureOutput({
      writeOut: (text) => io.out.write(text),
      writeErr: (text) => io.err.write(text),
      outputError: () => {},
      getOutHelpWidth: () => io.out.columns ?? 100,
      getErrHelpWidth: () => io.err.columns ?? 100,
      getOutHasColors: () => io.color,
      getErrHasColors: () => io.color,
    })
    .addHelpText('after', STORES + examples('hapax demo', 'hapax migrate --store sqlite:./shop.db', 'hapax status'))
    .hook('preAction', (_, command) => refuseEmpty(command))
  for (const add of COMMANDS) add(root, io, done)
  return root
}

/** An option without a value is one of a variable that is not set: taken for left out, it would mean another database, or more rows. */
function refuseEmpty(command: Command): void {
  for (const option of command.options) {
    if (command.getOptionValue(option.attributeName()) !== '') continue
    throw new CliError('usage', `expected ${option.long} to have a value, got ''`)
  }
}

const STORES = `
The database is found by --store, by HAPAX_STORE, or by a hapax.config.ts (.js, .mjs) in this
directory, or --config, that says  export default { store: … }.  Exit codes: 0 ok, 1 failure, 2 wrong usage.
`

const addDemo: AddCommand = (root, io, done) => {
  root
    .command('demo')
    .description('Shows it working, in about ten seconds and without a server: duplicates, errors, killed workers.')
    .option('--messages <n>', 'how many orders', wholeNumber(1, 100_000), 400)
    .option('--kills <n>', 'how often the worker process is killed (default: 5)', wholeNumber(0, 100))
    .option('--seed <n>', 'the same faults again', wholeNumber(0, 2 ** 31))
    .option('--json', 'print the result as JSON')
    .addHelpText('after', examples('hapax demo', 'hapax demo --messages 2000 --kills 20 --seed 7'))
    .action(async (options) => {
      // It loads node:sqlite, which no other command needs for a store on a server.
      const { demo } = await import('./demo/demo.ts')
      done(await demo(options, io))
    })
}

/** In the order of the help. */
const COMMANDS: readonly AddCommand[] = [
  addMigrate,
  addStatus,
  addDoctor,
  addExplain,
  addFailed,
  addKeys,
  addConsumers,
  addRelays,
  addSent,
  addReceipts,
  addEffects,
  addCleanup,
  addRelay,
  addWork,
  addDemo,
]

function version(): string {
  const { version: text } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return text
}
