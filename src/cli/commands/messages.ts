import { Option } from 'commander'
import { safe, shellWord } from '../../base/index.ts'
import type { Numbered, Origin, WaitingMessage, WaitingState } from '../../contracts/index.ts'
import type { WaitingQuery } from '../../index.ts'
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
import { command, type StoreOptions, withHapax } from '../store.ts'

interface MessagesOptions extends StoreOptions, ScopeOptions {
  readonly origin?: Origin
  readonly type?: string
  readonly key?: string
  readonly id?: string
  readonly state?: WaitingState
  readonly since?: Date
  readonly until?: Date
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

/** Adds `hapax messages`. */
export const addMessages: AddCommand = (root, io, done) => {
  const messages = root
    .command('messages')
    .description('Shows messages that wait for a consumer or a relay.')
    .addHelpText('after', examples('hapax messages list --state retrying'))
  withScope(withStore(withPages(withTimes(messages.command('list')))), 'only those of')
    .description('Lists messages that wait in the inbox or the outbox. Use explain to see why one waits.')
    .addOption(
      new Option('--origin <place>', 'for consumers, or for relays (default: for consumers)').choices([
        'inbox',
        'outbox',
      ]),
    )
    .option('--type <type>', 'only those of this type')
    .option('--key <key>', 'only those of this key')
    .option('--id <id>', 'only those with this id')
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
