import { readFileSync } from 'node:fs'
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { CliError, report } from './errors.ts'
import { explain } from './explain.ts'
import { failedList, failedShow } from './failed.ts'
import { type Change, failedChange } from './failed-change.ts'
import { type Io, paint } from './io.ts'
import { migrate } from './migrate.ts'
import { status } from './status.ts'

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

type Done = (exitCode: number) => void

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
  addMigrate(root, io, done)
  addStatus(root, io, done)
  addFailed(root, io, done)
  addExplain(root, io, done)
  addDemo(root, io, done)
  return root
}

const STORES = `
The database is found by --store, by HAPAX_STORE, or by a hapax.config.ts (.js, .mjs) in this
directory that says  export default { store: … }.  Exit codes: 0 ok, 1 failure, 2 wrong usage.
`

function addMigrate(root: Command, io: Io, done: Done): void {
  withStore(root.command('migrate'))
    .description('Makes or updates the tables; safe when several run it at once.')
    .option('--print', 'print the SQL of what is missing instead, for psql, mysql or sqlite3')
    .option('--check', 'change nothing; exit code 1 if something is missing or differs')
    .option('--dry-run', 'change nothing; say what would be applied')
    .addHelpText(
      'after',
      examples(
        'hapax migrate --store postgres://localhost/shop',
        'hapax migrate --store mysql://localhost/shop --print > hapax.sql',
        'hapax migrate --check',
      ),
    )
    .action(async (options) => done(await migrate(options, io)))
}

function addStatus(root: Command, io: Io, done: Done): void {
  withStore(root.command('status'))
    .description('Shows how many messages there are: taken, waiting, retrying, failed, and in the outbox.')
    .addHelpText('after', examples('hapax status --store sqlite:./shop.db', 'hapax status --json'))
    .action(async (options) => done(await status(options, io)))
}

function addExplain(root: Command, io: Io, done: Done): void {
  withStore(root.command('explain'))
    .argument('<id>', 'the id of the message')
    .description('Tells the life of one message: where it has been, where it is, what happens next.')
    .option('--source <source>', 'only the message of this sender')
    .addHelpText(
      'after',
      examples('hapax explain 019a8c3e-5b0e-7d44-9d3b-0f6f1f0c7a11', 'hapax explain order-17 --source /shop --json'),
    )
    .action(async (id, options) => done(await explain(id, options, io)))
}

function addFailed(root: Command, io: Io, done: Done): void {
  const failed = root
    .command('failed')
    .description('Works with messages that will not be tried again by themselves.')
    .addHelpText('after', examples('hapax failed list', 'hapax failed show 12', 'hapax failed retry 12'))
  withStore(withFilters(failed.command('list')))
    .description('Lists failed messages, newest first.')
    .option('--limit <n>', 'how many', wholeNumber(1, 999), 50)
    .option('--before <seq>', 'the page before this one', seq)
    .addHelpText(
      'after',
      examples('hapax failed list', 'hapax failed list --consumer billing --reason attempts-exhausted'),
    )
    .action(async (options) => done(await failedList(options, io)))
  withStore(failed.command('show'))
    .argument('<seq>', 'its number in the list', seq)
    .description('Shows everything about one failed message: attributes, error and causes, payload.')
    .addHelpText('after', examples('hapax failed show 12', 'hapax failed show 12 --json'))
    .action(async (number, options) => done(await failedShow(number, options, io)))
  addChange(failed, 'retry', 'Puts failed messages back into the inbox under their own ids, due at once.', io, done)
  addChange(failed, 'discard', 'Deletes failed messages for good; another delivery stays a duplicate.', io, done)
}

function addChange(failed: Command, change: Change, description: string, io: Io, done: Done): void {
  withStore(withFilters(failed.command(change).description(description).argument('[seq...]', 'their numbers', seqs)))
    .option('--all', 'all that match the filters')
    .option('--dry-run', 'change nothing; say what would be done')
    .option('--yes', 'do not ask; needed for --all without a terminal')
    .addHelpText(
      'after',
      examples(
        `hapax failed ${change} 12 13`,
        `hapax failed ${change} --all --consumer billing --dry-run`,
        `hapax failed ${change} --all --type order.placed --yes`,
      ),
    )
    .action(async (numbers, options) => done(await failedChange(change, numbers ?? [], options, io)))
}

function addDemo(root: Command, io: Io, done: Done): void {
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

function withStore(command: Command): Command {
  return command
    .option('--store <url>', 'the database: sqlite:./file.db, postgres://… or mysql://…')
    .option('--schema <name>', 'the schema of the tables on postgres (default: hapax)')
    .option('--prefix <name>', 'what the names of the tables begin with on mysql and sqlite (default: hapax_)')
    .option('--json', 'print JSON, for programs')
}

function withFilters(command: Command): Command {
  return command
    .option('--consumer <name>', 'only those of this consumer')
    .option('--type <type>', 'only those of this type')
    .option('--reason <code>', 'only those that failed for this reason')
}

function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((each) => `  $ npx ${each}`).join('\n')}`
}

function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}`)
  }
}

function seq(text: string): string {
  if (/^[1-9]\d{0,17}$/.test(text)) return text
  throw new InvalidArgumentError('expected the number of a failed message')
}

function seqs(text: string, others: readonly string[] = []): readonly string[] {
  return [...others, seq(text)]
}

function version(): string {
  const { version: text } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return text
}
