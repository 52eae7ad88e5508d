// Runs the worker of a configuration file, with the life cycle that containers expect: start, retry, stop at a signal, exit code.

import { systemClock } from '../../base/index.ts'
import type { Served } from '../../contracts/index.ts'
import { runOnce } from '../../worker/index.ts'
import { type Config, readConfig } from '../config.ts'
import { CliError } from '../io/errors.ts'
import type { Io } from '../io/io.ts'
import { ProcessLog } from '../io/process-log.ts'
import { type AddCommand, durationOption, examples } from '../options.ts'
import { Ending, ended, type Service, started } from '../serving.ts'

/** Options of `hapax work`. */
interface WorkOptions {
  readonly config?: string
  readonly deadline: number
  readonly once?: true
  readonly max: number
  readonly json?: true
}

/** What the configuration file exports for this command; on any store. */
interface Application {
  readonly worker: Service & { readonly serving: Served; drain(): Promise<void> }
  readonly hapax: { close(): Promise<void> }
}

/** The longest that a worker may wait, in whole days: a timer of Node.js holds at most 24.8. */
const WAIT_MS = 23 * 86_400_000

const EXAMPLE = 'export default { store, hapax, worker: hapax.worker({ consume: [billing] }) }'

/** Adds `hapax work`. */
export const addWork: AddCommand = (root, io, done) => {
  root
    .command('work')
    .description('Runs the worker that the configuration file exports: consumers, relays and cleanup.')
    .option('--config <file>', 'the configuration file (default: hapax.config.ts, .mts, .js or .mjs in this directory)')
    .addOption(durationOption('--deadline <time>', 'how long to wait for handlers when stopping', [0, WAIT_MS], 30_000))
    .option('--once', 'work what is due and end, for a scheduler')
    .addOption(durationOption('--max <time>', 'with --once: when to end at the latest', [1_000, WAIT_MS], 60_000))
    .option('--json', 'log one JSON object per line')
    .addHelpText(
      'after',
      `
The file exports a hapax and one of its workers, not started yet. The other
commands use store:
  ${EXAMPLE}
Node.js runs TypeScript by stripping its types, so the file cannot use syntax
such as enum.

Runs until SIGTERM or SIGINT, then waits for running handlers. Those that have
not finished by the deadline are aborted and retried later. A second signal ends
it at once. If the database or a broker is unavailable at the start, it retries.
With --once it ends when nothing is due, or after --max, and fails if it cannot
start. What a broker has not delivered by then is left to the next run.
Its own log goes to stderr; the worker logs to the logger of createHapax.
Exit codes: 0 stopped, 130 or 143 ended by a second signal, 1 failure,
2 wrong usage.
${examples('hapax work', 'hapax work --config services/billing/hapax.config.ts --deadline 2m', 'hapax work --once --max 50s')}`,
    )
    .action(async (options) => done(await work(options, io)))
}

async function work(options: WorkOptions, io: Io): Promise<number> {
  const { worker, hapax } = await findApplication(options, io)
  const ending = new Ending(io)
  try {
    return await run(worker, options, ending, io)
  } finally {
    ending.forget()
    // A second signal means: do not wait, not even for connections that do not respond.
    if (!ending.twice) await hapax.close()
  }
}

async function run(worker: Application['worker'], options: WorkOptions, ending: Ending, io: Io): Promise<number> {
  const log = new ProcessLog(io, options.json === true)
  const serving = { ending, log, store: 'the store', deadlineMs: options.deadline, lost: 'what was running is retried' }
  log.info(`worker starting: ${served(worker.serving)}`)
  if (options.once) return runToEnd(worker, options, ending, log)
  const early = await started(worker, serving)
  if (early !== undefined) return early.exitCode
  log.recovered('store', 'the store is back')
  log.recovered('broker', 'the broker is back')
  log.info('worker started')
  const { exitCode, stopped } = await ended(worker, serving)
  if (stopped) log.info('stopped')
  return exitCode
}

/** Works what is due. A signal ends it earlier. */
async function runToEnd(
  worker: Application['worker'],
  options: WorkOptions,
  ending: Ending,
  log: ProcessLog,
): Promise<number> {
  void ending.first.then(() => worker.stop({ deadlineMs: options.deadline }))
  const drained = await runOnce(worker, systemClock, options.max)
  log.info(drained && !ending.once ? 'stopped: nothing is due' : 'stopped before nothing was due')
  return 0
}

/** What a worker serves, in one line. */
function served({ consumers, disabled, relays }: Served): string {
  const parts = [
    consumers.length > 0 && `consumes ${consumers.join(', ')}`,
    relays.length > 0 && `relays ${relays.map(({ name, destination }) => `${name} -> ${destination}`).join(', ')}`,
    disabled.length > 0 && `not enabled: ${disabled.join(', ')}`,
  ]
  return parts.filter(Boolean).join('; ') || 'nothing to do'
}

async function findApplication({ config }: WorkOptions, io: Io): Promise<Application> {
  const found = await readConfig(io, config)
  if (found !== undefined) return applicationOf(found)
  throw new CliError(
    'usage',
    'there is no hapax.config.ts (.mts, .js, .mjs) in this directory, and --config names none',
    [`what it exports: ${EXAMPLE}`],
  )
}

function applicationOf({ name, config: { hapax, worker } }: Config): Application {
  if (!isWorker(worker)) throw wrong(name, 'a worker, made by hapax.worker(…)', worker)
  if (!can(hapax, 'close')) throw wrong(name, 'the hapax that the worker belongs to', hapax)
  return { worker, hapax }
}

function wrong(name: string, what: string, got: unknown): CliError {
  const instead = got === undefined ? 'none' : 'something else'
  return new CliError('config', `expected the default export of ${name} to have ${what}, got ${instead}`, [EXAMPLE])
}

function isWorker(value: unknown): value is Application['worker'] {
  return can(value, 'start') && can(value, 'stop') && can(value, 'drain') && 'serving' in value
}

function can<Name extends string>(value: unknown, name: Name): value is Record<Name, () => Promise<void>> {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === 'function'
}
