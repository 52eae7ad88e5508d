import { silentLogger } from '../../base/index.ts'
import type { Destination } from '../../contracts/index.ts'
import { createHapax, type Hapax } from '../../index.ts'
import { findDestination } from '../brokers.ts'
import { CliError } from '../io/errors.ts'
import type { Io } from '../io/io.ts'
import { ProcessLog } from '../io/process-log.ts'
import { type AddCommand, durationFrom, examples, withStore } from '../options.ts'
import { Ending, ended, started } from '../serving.ts'
import { findStore, type StoreOptions } from '../store.ts'

/** Options of `hapax relay`. */
interface RelayOptions extends StoreOptions {
  readonly broker?: string
  readonly relay: string
  readonly keepSent?: number
  readonly poll: number
  readonly deadline: number
  readonly json?: true
}

/** As long as a worker may be told to wait, and to keep what was sent; in whole days. */
const WAIT_MS = 23 * 86_400_000
const span = durationFrom(1, 36_500 * 86_400_000)

/** Adds `hapax relay`. */
export const addRelay: AddCommand = (root, io, done) => {
  withStore(root.command('relay'))
    .description(
      'Runs a relay as a process of its own: moves the outbox to a broker, for applications in any language.',
    )
    .option('--broker <url>', 'where to; see below (or HAPAX_BROKER)')
    .option('--relay <name>', 'which relay', 'default')
    .option('--keep-sent <time>', 'keep published messages for so long, as 7d (default: not at all)', span)
    .option('--poll <time>', 'the longest pause between two looks into the outbox', durationFrom(1, WAIT_MS), 1_000)
    .option('--deadline <time>', 'how long to wait for the broker at the end', durationFrom(0, WAIT_MS), 30_000)
    .addHelpText(
      'after',
      `
Where to, as a URL:
  amqp://host/vhost?exchange=shop     RabbitMQ, or amqps:
  nats://host?stream=SHOP             NATS JetStream, or tls:
  redis://host?stream=orders          Redis Streams, or rediss:
  kafka://host1,host2?topic=orders    Kafka
  stdout:                             prints CloudEvents, one a line
  memory:                             forgets them
The client of the broker has to be installed: amqplib, @nats-io/transport-node and @nats-io/jetstream, ioredis, or
@platformatic/kafka. More settings are to be had in hapax.config.ts, with  export default { store, broker }.

Runs until SIGTERM or SIGINT, then waits for what is under way; a second signal ends it at once. It
waits for a database or a broker that is not there. The log goes to stderr, one line per change.
Exit codes: 0 stopped, 130 or 143 ended by a second signal, 1 failure, 2 wrong usage.
${examples(
  "hapax relay --store postgres://localhost/shop --broker 'amqp://localhost?exchange=shop'",
  'hapax relay --store sqlite:shop.db --broker stdout:',
  'hapax relay --relay partners --keep-sent 7d --json',
)}`,
    )
    .action(async (options) => done(await relay(options, io)))
}

async function relay(options: RelayOptions, io: Io): Promise<number> {
  const destination = await findDestination(options, io)
  const { name, store, exists } = await findStore(options, io)
  const hapax = createHapax({ store, source: '/hapax/relay', logger: silentLogger })
  const ending = new Ending(io)
  try {
    if (!exists) throw new CliError('not-found', `there is no database ${name}`)
    return await run(hapax, name, destination, options, ending, io)
  } finally {
    ending.forget()
    // Who asked twice does not want to wait for links that do not answer.
    if (!ending.twice) await Promise.all([hapax.close(), destination.close()])
  }
}

async function run(
  hapax: Hapax<unknown>,
  store: string,
  destination: Destination,
  options: RelayOptions,
  ending: Ending,
  io: Io,
): Promise<number> {
  const { relay: name, keepSent, poll, deadline } = options
  const worker = hapax.worker({
    relays: { [name]: destination },
    pollMs: poll,
    ...(keepSent !== undefined && { keepSentMs: keepSent }),
  })
  const log = new ProcessLog(io, options.json === true)
  const serving = { ending, log, store, deadlineMs: deadline }
  if (!(await started(worker, serving))) return 0
  const watching = log.watch(hapax.events, worker, store)
  log.info(`relay ${name} started: ${store} -> ${destination.name}`)
  const { exitCode, stopped } = await ended(worker, serving, 'what was not confirmed is sent again')
  watching.end()
  if (stopped) log.info(`stopped; ${watching.sent} sent`)
  return exitCode
}
