import { Command, CommanderError } from 'commander'
import { version } from '../base/index.ts'
import { addAudit } from './commands/audit.ts'
import { addCleanup } from './commands/cleanup.ts'
import { addConformance } from './commands/conformance.ts'
import { addConsole } from './commands/console.ts'
import { addConsumers } from './commands/consumers.ts'
import { addDoctor } from './commands/doctor.ts'
import { addEndpoints } from './commands/endpoints/index.ts'
import { addExplain } from './commands/explain.ts'
import { addFailed } from './commands/failed/index.ts'
import { addInit } from './commands/init.ts'
import { addKeys } from './commands/keys.ts'
import { addEffects, addReceipts } from './commands/lists.ts'
import { addMessages } from './commands/messages.ts'
import { addMetrics } from './commands/metrics.ts'
import { addMigrate } from './commands/migrate.ts'
import { addOperations } from './commands/operations.ts'
import { addRelay } from './commands/relay.ts'
import { addRelays } from './commands/relays.ts'
import { addSent } from './commands/sent.ts'
import { addStatus } from './commands/status.ts'
import { addWork } from './commands/work.ts'
import { CliError, report } from './io/errors.ts'
import { type Io, paint } from './io/io.ts'
import { type AddCommand, type Done, examples, wholeNumber } from './options.ts'
import { PROGRAM } from './store.ts'

/** Runs one command line (without node and the script) and returns the exit code: 0 success, 1 failure, 2 wrong usage. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  let exitCode = 0
  const root = program(io, (code) => {
    exitCode = code
  })
  try {
    await root.parseAsync(argv, { from: 'user' })
    return exitCode
  } catch (error) {
    return error instanceof CommanderError ? usage(io, error, commandOf(root, argv)) : report(io, error)
  }
}

/** Help and version are not errors. A missing subcommand is one, and its help has been printed already. */
function usage(io: Io, { code, message, exitCode }: CommanderError, typed: string): number {
  if (exitCode === 0) return 0
  if (code === 'commander.help') return 2
  const [text = '', ...more] = message.replace(/^error: /, '').split('\n')
  return report(io, new CliError('usage', text, [...meant(text), ...more, `for help: ${typed} --help`]))
}

/** What to write instead of an option that no command has, or that only others have. */
function meant(text: string): readonly string[] {
  const [, option = ''] = /^unknown option '(--[a-z]+)/.exec(text) ?? []
  const instead = INSTEAD[option]
  return instead === undefined ? [] : [`write ${instead}`]
}

const INSTEAD: Readonly<Record<string, string>> = {
  '--scope': '--consumer <name> or --relay <name>',
  '--reason': '--note <text> for the reason of a change',
}

/** The command that the arguments start with, as far as it exists: `npx hapax failed list`. */
function commandOf(root: Command, argv: readonly string[]): string {
  const words = [PROGRAM]
  let command: Command | undefined = root
  for (const word of argv) {
    command = command.commands.find((each) => each.name() === word)
    if (command === undefined) break
    words.push(word)
  }
  return words.join(' ')
}

function program(io: Io, done: Done): Command {
  const root = new Command('hapax')
    .description('Inspects and manages the messages, workers and tables of hapax.')
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

/** An empty value usually comes from an unset shell variable. Ignoring it would select another database, or more rows. */
function refuseEmpty(command: Command): void {
  for (const option of command.options) {
    if (command.getOptionValue(option.attributeName()) !== '') continue
    throw new CliError('usage', `expected ${option.long} to have a value, got ''`)
  }
}

const STORES = `
The database is that of --store, of HAPAX_STORE, or of a configuration file:
--config, or hapax.config.ts (.mts, .js, .mjs) in this directory, with
  export default { store: … }
Exit codes: 0 success, 1 failure, 2 wrong usage.
`

const addDemo: AddCommand = (root, io, done) => {
  root
    .command('demo')
    .description('Demonstrates hapax in about ten seconds, without a server: duplicates, errors, killed workers.')
    .option('--messages <n>', 'the number of orders', wholeNumber(1, 100_000), 400)
    .option('--kills <n>', 'how many times to kill the worker process (default: 5)', wholeNumber(0, 100))
    .option('--seed <n>', 'repeat a run with the same faults', wholeNumber(0, 2 ** 31))
    .option('--console', 'show it in the web console, until Ctrl-C')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      examples('hapax demo', 'hapax demo --messages 2000 --kills 20 --seed 7', 'hapax demo --console'),
    )
    .action(async (options) => {
      if (options.console) {
        const { liveDemo } = await import('./demo/live.ts')
        return done(await liveDemo(options, io))
      }
      // Imported only here: it loads node:sqlite, which the other commands do not need for a store on a server.
      const { demo } = await import('./demo/demo.ts')
      done(await demo(options, io))
    })
}

/** In the order of the help. */
const COMMANDS: readonly AddCommand[] = [
  addInit,
  addMigrate,
  addStatus,
  addConsole,
  addDoctor,
  addConformance,
  addExplain,
  addMessages,
  addFailed,
  addOperations,
  addKeys,
  addConsumers,
  addRelays,
  addEndpoints,
  addSent,
  addReceipts,
  addEffects,
  addAudit,
  addCleanup,
  addRelay,
  addMetrics,
  addWork,
  addDemo,
]
