// The first command in an incident: how much is waiting, for which consumers and relays, and which workers are alive. Numbers that need
// attention are coloured. On a store for leased work only, it shows less.

import { safe } from '../../base/index.ts'
import type { BulkOperation, ClaimStatus, StoreStatus, WorkerRow } from '../../contracts/index.ts'
import { servesOf } from '../../worker/index.ts'
import { type Io, json, line, paint } from '../io/io.ts'
import { type Cell, table } from '../io/table.ts'
import { count, span } from '../io/text.ts'
import { type AddCommand, examples, withStore } from '../options.ts'
import { tellPauses } from '../pausing.ts'
import { type StoreOptions, withEither } from '../store.ts'
import { tellOperations } from './operations.ts'

/** Adds `hapax status`. */
export const addStatus: AddCommand = (root, io, done) => {
  withStore(root.command('status'))
    .description('Shows what is waiting in inboxes and outboxes, and which workers are running.')
    .option('--exact', 'count every row, also receipts, however long that takes')
    .addHelpText(
      'after',
      `\nNumbers above 10,000 are estimates, marked with ~.\n${examples(
        'hapax status --store sqlite:./shop.db',
        'hapax status --exact --json',
      )}`,
    )
    .action(async (options) => done(await status(options, io)))
}

async function status(options: StoreOptions & { json?: true; exact?: true }, io: Io): Promise<number> {
  const exact = options.exact === true
  const found = await withEither(options, io, async (hapax): Promise<Found | ClaimStatus> => {
    if (!('keys' in hapax)) return hapax.status()
    const operations = (await hapax.operations.list()).filter(({ endedAt }) => endedAt === null)
    return { ...(await hapax.status({ exact })), operations }
  })
  if ('workers' in found) tellStatus(found, options, io)
  else if (options.json) json(io, found)
  else tellLeases(found, io)
  return 0
}

/** A status, and the operations that have not ended. */
interface Found extends StoreStatus {
  readonly operations: readonly BulkOperation[]
}

function tellStatus(found: Found, options: { json?: true }, io: Io): void {
  if (options.json) json(io, document(found))
  else tell(found, io)
}

/** A store for leased work only has neither inbox nor outbox, and no list of workers. */
function tellLeases({ consumers }: ClaimStatus, io: Io): void {
  if (consumers.length === 0) line(io, 'no consumer has taken a message yet')
  else tellLeaseConsumers(consumers, io)
}

function tellLeaseConsumers(consumers: ClaimStatus['consumers'], io: Io): void {
  table(
    io,
    [{ title: 'consumer', shrinkTo: 12 }, ...numbers('retried', 'failed'), { title: 'types', shrinkTo: 12 }],
    consumers.map((each) => [
      safe(each.consumer),
      coloured(each.waiting, 'yellow'),
      coloured(each.failed, 'red'),
      safe(each.types.join(', ')),
    ]),
  )
}

function document(found: Found): object {
  return { ...found, workers: found.workers.map((worker) => ({ ...worker, serves: servesJson(worker) })) }
}

function servesJson(worker: WorkerRow): object {
  const { consumers, relays, stuck } = servesOf(worker)
  return { consumers: Object.fromEntries(consumers), relays, stuck }
}

function tell(found: Found, io: Io): void {
  const { consumers, relays, workers, paused, operations } = found
  if (consumers.length === 0) line(io, 'no consumer has taken a message yet')
  else tellConsumers(found, io)
  line(io)
  if (relays.length === 0) line(io, 'no messages are waiting for a relay')
  else tellRelays(relays, found.at, io)
  line(io)
  if (workers.length === 0) line(io, 'no workers are running')
  else tellWorkers(workers, io)
  if (paused.length > 0) {
    line(io)
    tellPauses(paused, found.at, io)
  }
  if (operations.length > 0) {
    line(io)
    tellOperations(operations, io)
  }
}

const numbers = (...titles: string[]) => titles.map((title) => ({ title, align: 'right' as const }))

function tellConsumers({ consumers, workers, at }: StoreStatus, io: Io): void {
  const counted = consumers.some(({ receipts }) => receipts !== undefined)
  const titles = ['waiting', 'retrying', 'oldest', 'held keys', 'failed', ...(counted ? ['receipts'] : []), 'workers']
  table(
    io,
    [{ title: 'consumer', shrinkTo: 12 }, ...numbers(...titles)],
    consumers.map((each) => [
      safe(each.consumer),
      about(each, each.waiting),
      about(each, each.retrying, 'yellow'),
      age(each.oldestAt, at),
      about(each, each.held, 'red'),
      about(each, each.failed, 'red'),
      ...(each.receipts === undefined ? [] : [count(each.receipts)]),
      serving(workers, each.consumer),
    ]),
  )
}

/** How many live workers serve a consumer. */
function serving(workers: readonly WorkerRow[], consumer: string): string {
  return count(workers.filter((worker) => worker.alive && servesOf(worker).consumers.has(consumer)).length)
}

/** Prints a table of relays; `hapax relays list` prints the same one. */
export function tellRelays(relays: StoreStatus['relays'], at: Date, io: Io): void {
  table(
    io,
    [
      { title: 'relay', shrinkTo: 8 },
      ...numbers('waiting', 'oldest', 'held keys', 'failed'),
      { title: 'destination', shrinkTo: 12 },
    ],
    relays.map((each) => [
      safe(each.relay),
      about(each, each.waiting),
      age(each.oldestAt, at),
      about(each, each.held, 'red'),
      about(each, each.failed, 'red'),
      each.destination === null
        ? { text: 'no worker has served it yet', style: 'yellow' as const }
        : safe(each.destination),
    ]),
  )
}

function age(since: Date | null, at: Date): string {
  return since === null ? '-' : span(Math.max(0, at.getTime() - since.getTime()))
}

/** What is too much to count is estimated. */
const COUNTED = 10_000

function about({ estimated }: { readonly estimated: boolean }, value: number, style?: 'yellow' | 'red'): Cell {
  const text = `${estimated && value > COUNTED ? '~' : ''}${count(value)}`
  return style === undefined || value === 0 ? text : { text, style }
}

function tellWorkers(workers: readonly WorkerRow[], io: Io): void {
  table(
    io,
    [{ title: 'worker', shrinkTo: 12 }, { title: 'state' }, ...numbers('silent for', 'in hand'), { title: 'serves' }],
    workers.map((each) => [safe(each.name), state(each), span(each.silentMs), count(each.inHand), safe(serves(each))]),
  )
  if (workers.some(({ alive }) => !alive)) {
    line(io, paint(io, 'dim', 'a live worker takes over what a dead one had in hand'))
  }
}

function state(worker: WorkerRow): Cell {
  if (!worker.alive) return { text: 'dead', style: 'red' }
  return servesOf(worker).stuck ? { text: 'stuck', style: 'red' } : { text: 'alive', style: 'green' }
}

function serves(worker: WorkerRow): string {
  const { consumers, relays } = servesOf(worker)
  return [...consumers.keys(), ...relays.map((name) => `relay ${name}`)].join(', ')
}

function coloured(value: number, style: 'yellow' | 'red'): Cell {
  return value === 0 ? '0' : { text: count(value), style }
}
