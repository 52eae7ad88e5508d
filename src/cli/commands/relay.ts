// A relay without an application: for programs in other languages that write to the outbox through SQL.

import { silentLogger } from '../../base/index.ts'
import type { Destination, EndpointDestination } from '../../contracts/index.ts'
import { createHapax, type Hapax } from '../../index.ts'
import { findDestination } from '../brokers.ts'
import { CliError } from '../io/errors.ts'
import type { Io } from '../io/io.ts'
import { ProcessLog } from '../io/process-log.ts'
import { type AddCommand, durationFrom, durationOption, examples, withStore } from '../options.ts'
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

/** The longest that a worker may wait, in whole days: a timer of Node.js holds at most 24.8. */
const WAIT_MS = 23 * 86_400_000
/** How long sent messages may be kept. */
const span = durationFrom(1, 36_500 * 86_400_000)

/** Adds `hapax relay`. */
export const addRelay: AddCommand = (root, io, done) => {
  withStore(root.command('relay'))
    .description(
      'Runs a relay as a separate process. It moves the outbox to a broker, for applications in any language.',
    )
    .option('--broker <url>', 'the destination, see below (default: HAPAX_BROKER)')
    .option('--relay <name>', 'the name of the relay', 'default')
    .option('--keep-sent <time>', 'how long to keep published messages, such as 7d (default: not at all)', span)
    .addOption(durationOption('--poll <time>', 'how often to look into the outbox at least', [1, WAIT_MS], 1_000))
    .addOption(
      durationOption('--deadline <time>', 'how long to wait for the broker when stopping', [0, WAIT_MS], 30_000),
    )
    .addHelpText(
      'after',
      `
Destinations:
  amqp://host/vhost?exchange=shop     RabbitMQ, or amqps:
  nats://host?stream=SHOP             NATS JetStream, or tls:
  redis://host?stream=orders          Redis Streams, or rediss:
  kafka://host1,host2?topic=orders    Kafka
  webhooks:                           registered endpoints, see hapax endpoints
  stdout:                             prints CloudEvents, one per line
  memory:                             discards the messages, for trials
The broker's client must be installed: amqplib, @nats-io/transport-node and
@nats-io/jetstream, ioredis, or @platformatic/kafka. For more settings, export
a destination from hapax.config.ts:  export default { store, broker }

Runs until SIGTERM or SIGINT, then finishes what is in progress. A second signal
ends it at once. While the database or the broker is unavailable, it retries.
The log goes to stderr, one line per change of state.
Exit codes: 0 stopped, 130 or 143 ended by a second signal, 1 failure,
2 wrong usage.
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
    // A second signal means: do not wait, not even for connections that do not respond.
    if (!ending.twice) await Promise.all([hapax.close(), destination.close()])
  }
}

async function run(
  hapax: Hapax<unknown>,
  store: string,
  destination: Destination | EndpointDestination,
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
  const serving = { ending, log, store, deadlineMs: deadline, lost: 'what was not confirmed is sent again' }
  const early = await started(worker, serving)
  if (early !== undefined) return early.exitCode
  const watching = log.watch(hapax.events, worker, store)
  log.info(`relay ${name} started: ${store} -> ${destination.name}`)
  const { exitCode, stopped } = await ended(worker, serving)
  watching.end()
  if (stopped) log.info(`stopped; ${watching.sent} sent`)
  return exitCode
}
