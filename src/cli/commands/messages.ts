import { type Command, Option } from 'commander'
import { safe, shellWord } from '../../base/index.ts'
import type { Numbered, Origin, WaitingMessage, WaitingState } from '../../contracts/index.ts'
import type { Hapax, RetryingWhere, WaitingQuery } from '../../index.ts'
import { isSeq, numberOf, seqOf } from '../../message/index.ts'
import {
  byNumber,
  changeByFilter,
  changeByNumber,
  type RowsOptions,
  type RowsWork,
  withRowsHere,
} from '../change-rows.ts'
import { type Io, json, line } from '../io/io.ts'
import { type Cell, type Column, table } from '../io/table.ts'
import { when } from '../io/text.ts'
import {
  type AddCommand,
  examples,
  type ScopeOptions,
  scopeOf,
  withPages,
  withScope,
  withStore,
  withTimes,
} from '../options.ts'
import { seqsOrNumbers } from '../seq.ts'
import { command, type StoreOptions, withHapax } from '../store.ts'

/** The filters of messages that wait, as typed. */
interface Filters extends ScopeOptions {
  readonly origin?: Origin
  readonly type?: string
  readonly key?: string
  readonly id?: string
  readonly since?: Date
  readonly until?: Date
}

type RetryOptions = StoreOptions & Filters & RowsOptions

interface MessagesOptions extends StoreOptions, Filters {
  readonly state?: WaitingState
  readonly limit: number
  readonly before?: string
  readonly json?: true
}

const STATES: Readonly<Record<WaitingState, 'green' | 'yellow' | 'red' | 'cyan'>> = {
  waiting: 'green',
  retrying: 'yellow',
  held: 'red',
  leased: 'cyan',
}

const ORDER = `
Newest first. Ids that are UUIDv7, keys (in the inbox: with --consumer) and states
are indexed, except retrying on MariaDB and MySQL. For anything else, rows are
read a thousand at a time until the page is full. Ctrl-C ends it.
`

const NUMBERS = `
Consumers and relays number their messages separately: numbers of messages for
a relay need --relay or --origin outbox.
`

/** Adds `hapax messages`. */
export const addMessages: AddCommand = (root, io, done) => {
  const messages = root
    .command('messages')
    .description('Shows messages that wait for a consumer or a relay.')
    .addHelpText('after', examples('hapax messages list --state retrying'))
  withFilters(withStore(withPages(messages.command('list'))))
    .description('Lists messages that wait in the inbox or the outbox. Use explain to see why one waits.')
    .addOption(new Option('--state <state>', 'only those in this state').choices(Object.keys(STATES)))
    .addHelpText(
      'after',
      ORDER +
        examples(
          'hapax messages list --consumer billing --state held',
          'hapax messages list --key customer-17 --json',
          'hapax messages list --origin outbox --type order.placed --since 1h',
        ),
    )
    .action(async (options) => done(await messageList(options, io)))
  withFilters(
    withStore(withRowsHere(messages.command('retry').argument('[number...]', 'the numbers as listed', seqsOrNumbers))),
  )
    .description('Has messages tried at once that failed and wait for their next attempt.')
    .addHelpText(
      'after',
      NUMBERS +
        examples(
          `hapax messages retry 12 13 --note 'the bank is back'`,
          'hapax messages retry 14 --relay default',
          'hapax messages retry --consumer billing --yes',
          'hapax messages retry --relay default --type order.placed --dry-run',
        ),
    )
    .action(async (numbers, options) => done(await messageRetry(numbers ?? [], options, io)))
}

function withFilters(command: Command): Command {
  return withTimes(withScope(command, 'only those of'))
    .addOption(
      new Option('--origin <place>', 'for consumers, or for relays (default: for consumers)').choices([
        'inbox',
        'outbox',
      ]),
    )
    .option('--type <type>', 'only those of this type')
    .option('--key <key>', 'only those of this key')
    .option('--id <id>', 'only those with this id')
}

async function messageRetry(numbers: readonly string[], options: RetryOptions, io: Io): Promise<number> {
  const { origin, scope, ...filters } = whereOf(options)
  // Beside numbers, a consumer or a relay names the place where they are looked up.
  const filtered = Object.keys(filters).length > 0 || (scope !== undefined && numbers.length === 0)
  const numbered = byNumber('messages retry', numbers, filtered, options)
  return withHapax(options, io, (hapax) => {
    const work = workOf(hapax, options, origin)
    return numbered ? changeByNumber(work, numbers, options, io) : changeByFilter(work, options, io)
  })
}

function whereOf(options: Filters): RetryingWhere {
  const { type, key, id, since, until } = options
  const given = Object.entries({ ...scopeOf(options, options.origin), type, key, id, since, until })
  return Object.fromEntries(given.filter(([, value]) => value !== undefined))
}

function workOf({ messages }: Hapax<unknown>, options: RetryOptions, origin: Origin = 'inbox'): RowsWork {
  const which = { ...whereOf(options), ...(options.all && { all: true as const }) }
  return {
    change: 'retry',
    noun: 'message',
    question: (howMany) => `Retry ${howMany} now?`,
    afterwards: 'retried messages are due: a running worker picks them up',
    named: async (typed) => {
      const found = isSeq(typed) ? (await messages.get(origin, typed))?.row : await numbered(messages, origin, typed)
      return found === undefined || (which.scope ?? found.scope) === found.scope ? found?.seq : undefined
    },
    describe: async (seq) => {
      const found = await messages.get(origin, seq)
      return found && `${found.row.type} ${found.row.id} of ${found.row.scope}`
    },
    one: (seq, by) => messages.retry(origin, seq, by),
    count: () => messages.countRetrying(which),
    all: (chosen) => messages.retryAll(which, chosen),
    command: (words) => command(words, options),
  }
}

async function numbered(
  messages: Hapax<unknown>['messages'],
  origin: Origin,
  number: string,
): Promise<WaitingMessage | undefined> {
  const before = seqOf(String(BigInt(number) + 1n), 0)
  const [found] = (await messages.list({ origin, limit: 1, before })).rows
  return found !== undefined && numberOf(found.seq) === number ? found : undefined
}

async function messageList(options: MessagesOptions, io: Io): Promise<number> {
  const found = await withHapax(options, io, (hapax) => hapax.messages.list(queryOf(options)))
  if (options.json) json(io, { messages: found.rows, before: found.before ?? null })
  else tell(found, options, io)
  return 0
}

function queryOf(options: MessagesOptions): WaitingQuery {
  const { type, key, id, state, since, until, limit, before } = options
  const { origin, scope } = scopeOf(options, options.origin)
  return {
    ...(origin !== undefined && { origin }),
    scope,
    type,
    key,
    id,
    state,
    since,
    until,
    limit,
    ...(before !== undefined && { before }),
  }
}

const COLUMNS: readonly Column[] = [
  { title: 'seq' },
  { title: 'written at (UTC)' },
  { title: 'of', shrinkTo: 8 },
  { title: 'state' },
  { title: 'tries', align: 'right' },
  { title: 'due at (UTC)' },
  { title: 'type', shrinkTo: 8 },
  { title: 'key', shrinkTo: 8 },
  { title: 'id', shrinkTo: 8 },
  { title: 'error', shrinkTo: 8 },
]

function cells(row: WaitingMessage): readonly Cell[] {
  const { seq, createdAt, scope, state, attempts, dueAt, type, key, id, error } = row
  return [
    ...[seq, when(createdAt).slice(0, 19), safe(scope)],
    { text: state, style: STATES[state] },
    ...[String(attempts), when(dueAt).slice(0, 19), safe(type), safe(key ?? '-'), safe(id)],
    safe(error === null ? '-' : `${error.name}: ${error.message}`),
  ]
}

function tell({ rows, before }: Numbered<WaitingMessage>, options: MessagesOptions, io: Io): void {
  if (rows.length === 0) line(io, 'none found')
  else table(io, COLUMNS, rows.map(cells))
  if (before === undefined) return
  line(io)
  const words = `messages list ${filterWords(options)}--limit ${options.limit} --before ${before}`
  line(io, `next page: ${command(words, options)}`)
}

function filterWords({ origin, consumer, relay, type, key, id, state, since, until }: MessagesOptions): string {
  const values = {
    origin,
    consumer,
    relay,
    type,
    key,
    id,
    state,
    since: since?.toISOString(),
    until: until?.toISOString(),
  }
  const words = Object.entries(values).map(([name, value]) =>
    value === undefined ? '' : `--${name} ${shellWord(safe(value))} `,
  )
  return words.join('')
}
