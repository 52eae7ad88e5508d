// The state of the database as metrics, for applications in any language.

import { InvalidArgumentError } from 'commander'
import { EventHub, type State, silentLogger, systemClock, systemRandom, within } from '../../base/index.ts'
import { type PrometheusMetrics, prometheus } from '../../telemetry/prometheus/index.ts'
import { claimStateOf, Sampler, stateOf } from '../../worker/index.ts'
import { CliError } from '../io/errors.ts'
import type { Io } from '../io/io.ts'
import { ProcessLog } from '../io/process-log.ts'
import { type Address, addressOf, listening, shown } from '../metrics-server.ts'
import { type AddCommand, durationOption, examples, withStore } from '../options.ts'
import { Ending } from '../serving.ts'
import { findEither, type NamedLeaseStore, type NamedStore, type StoreOptions } from '../store.ts'

/** Options of `hapax metrics`. */
interface MetricsOptions extends StoreOptions {
  readonly listen?: Address
  readonly every: number
  readonly json?: true
}

/** Adds `hapax metrics`. */
export const addMetrics: AddCommand = (root, io, done) => {
  withStore(root.command('metrics'))
    .description('Exports the state of the database to Prometheus, or prints it once.')
    .option('--listen <address>', 'serve /metrics there, such as 127.0.0.1:9464 (default: print once)', address)
    .addOption(durationOption('--every <time>', 'how often to read the database', [1_000, 3_600_000], 15_000))
    .addHelpText(
      'after',
      `
What waits, what failed, and which workers are alive, for applications in any
language. Scrapes never touch the database. What a process does, such as how many
messages it processes, is exported by the process itself: see hapax/prometheus.

Runs until SIGTERM or SIGINT. While the database is unavailable, it exports
hapax_store_up 0 and retries. /healthz says that the process runs. There is no
login: listen where only Prometheus can reach it.
${examples(
  'hapax metrics --store postgres://localhost/shop --listen 127.0.0.1:9464',
  'hapax metrics --store sqlite:shop.db',
)}`,
    )
    .action(async (options) => done(await metrics(options, io)))
}

function address(text: string): Address {
  const found = addressOf(text)
  if (found !== undefined) return found
  throw new InvalidArgumentError('expected an address such as 127.0.0.1:9464, [::1]:9464 or 9464')
}

async function metrics(options: MetricsOptions, io: Io): Promise<number> {
  const { listen, json } = options
  if (json && listen === undefined) {
    throw new CliError('usage', 'metrics are text, not JSON', ['the same state as JSON: hapax status --json'])
  }
  const found = await findEither(options, io)
  try {
    return listen === undefined ? await print(found, io) : await serve(found, listen, options, io)
  } finally {
    // A database that does not respond must not keep the process.
    await within(systemClock, CLOSE_MS, storeOf(found).close(), () => {})
  }
}

const CLOSE_MS = 5_000

async function print(found: NamedStore | NamedLeaseStore, io: Io): Promise<number> {
  const events = new EventHub(silentLogger)
  const exported = prometheus({ events }, { process: false })
  const state = await look(found)
  events.emit('sampled', () => ({ worker: 'metrics', state }))
  io.out.write(exported.text())
  return 0
}

async function serve(
  found: NamedStore | NamedLeaseStore,
  listen: Address,
  options: MetricsOptions,
  io: Io,
): Promise<number> {
  const log = new ProcessLog(io, options.json === true)
  const ending = new Ending(io)
  const { exported, sampler, first } = sampling(found, options.every, log)
  try {
    sampler.start()
    // The first scrape must not say that a database is up which is not.
    await Promise.race([first, ending.first])
    const server = await listening(listen, exported.handler)
    log.info(`metrics of ${found.name} at http://${shown(server.address)}/metrics`)
    log.info(`${await ending.first}: stopping`)
    server.close()
    return 0
  } finally {
    await sampler.stop()
    ending.forget()
  }
}

/** Reads the state now and then. `first` resolves when that has succeeded or failed for the first time. */
function sampling(
  found: NamedStore | NamedLeaseStore,
  everyMs: number,
  log: ProcessLog,
): { readonly exported: PrometheusMetrics; readonly sampler: Sampler; readonly first: Promise<void> } {
  const events = new EventHub(silentLogger)
  const exported = prometheus({ events }, { process: false })
  const first = Promise.withResolvers<void>()
  events.on('sampled', ({ state }) => {
    if (state === undefined) return
    events.emit('store-up', () => ({ downMs: 0 }))
    log.recovered('store', `${found.name} is back`)
    first.resolve()
  })
  const sampler = new Sampler({
    engine: { clock: systemClock, random: systemRandom, events },
    look: (limitMs) => look(found, limitMs),
    isSampler: () => true,
    horizons: () => [],
    watch: () => undefined,
    report: (error) => {
      events.emit('store-down', () => ({ error }))
      log.trouble('store', `the state of ${found.name} cannot be read, retrying`, error)
      first.resolve()
    },
    firstMs: 0,
    everyMs,
  })
  return { exported, sampler, first: first.promise }
}

async function look(found: NamedStore | NamedLeaseStore, limitMs?: number): Promise<State> {
  if ('lease' in found) return claimStateOf(await found.lease.admin.status())
  return stateOf(await found.store.admin.status({ limitMs }))
}

function storeOf(found: NamedStore | NamedLeaseStore): { close(): Promise<void> } {
  return 'lease' in found ? found.lease : found.store
}
