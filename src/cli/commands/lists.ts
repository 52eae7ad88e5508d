import { type Command, Option } from 'commander'
import type { EffectQuery, ListResult, ReceiptQuery } from '../../admin/index.ts'
import { safe, shellWord } from '../../base/index.ts'
import type { ListedEffect, ListedReceipt } from '../../contracts/index.ts'
import { EFFECT_STATES } from '../effects.ts'
import { type Io, json, line } from '../io/io.ts'
import { type Cell, type Column, table } from '../io/table.ts'
import { when } from '../io/text.ts'
import { type AddCommand, examples, wholeNumber, withStore, withTimes } from '../options.ts'
import { command, type StoreOptions, withHapax } from '../store.ts'
import { addImport } from './import.ts'

interface ListOptions extends StoreOptions {
  readonly consumer?: string
  readonly since?: Date
  readonly until?: Date
  readonly state?: ListedEffect['state']
  readonly limit: number
  readonly after?: string
  readonly json?: true
}

const ORDER = `
Sorted by consumer and, where ids are UUIDv7, newest message first. Times and
states are not indexed, because an index would slow down every message. The table
is read by its key, a thousand rows at a time, until the page is full. Ctrl-C
ends it.
`

/** Adds `hapax receipts`. */
export const addReceipts: AddCommand = (root, io, done) => {
  const receipts = root
    .command('receipts')
    .description('Manages receipts: which messages were taken.')
    .addHelpText('after', examples('hapax receipts list --consumer billing'))
  withList(receipts.command('list'))
    .description('Lists receipts: which messages each consumer took, and when.')
    .addHelpText(
      'after',
      ORDER +
        examples('hapax receipts list --consumer billing --since 2h', 'hapax receipts list --until 2026-05-01 --json'),
    )
    .action(async (options) => done(await receiptList(options, io)))
  addImport(receipts, io, done)
}

/** Adds `hapax effects`. */
export const addEffects: AddCommand = (root, io, done) => {
  const effects = root
    .command('effects')
    .description('Shows effects: the external calls of leased consumers.')
    .addHelpText('after', examples('hapax effects list --state unknown'))
  withList(effects.command('list'))
    .description('Lists external calls and their states. Use explain to see what a call returned.')
    .addOption(new Option('--state <state>', 'only those in this state').choices(Object.keys(EFFECT_STATES)))
    .addHelpText(
      'after',
      ORDER +
        examples('hapax effects list --state unknown', 'hapax effects list --consumer sms --since 1d --limit 200'),
    )
    .action(async (options) => done(await effectList(options, io)))
}

function withList(each: Command): Command {
  return withStore(
    withTimes(each.option('--consumer <name>', 'only those of this consumer'))
      .option('--limit <n>', 'how many to list', wholeNumber(1, 1000), 50)
      .option('--after <cursor>', 'the next page; the page before prints this cursor'),
  )
}

function queryOf({ consumer, since, until, limit, after }: ListOptions): ReceiptQuery {
  return {
    limit,
    ...(consumer !== undefined && { consumer }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    ...(after !== undefined && { after }),
  }
}

async function receiptList(options: ListOptions, io: Io): Promise<number> {
  const found = await withHapax(options, io, (hapax) => hapax.receipts.list(queryOf(options)))
  if (options.json) json(io, { receipts: found.rows, after: found.after ?? null })
  else tell('receipts list', found, RECEIPT_COLUMNS, receiptCells, options, io)
  return 0
}

async function effectList(options: ListOptions, io: Io): Promise<number> {
  const { state } = options
  const query: EffectQuery = { ...queryOf(options), ...(state !== undefined && { state }) }
  const found = await withHapax(options, io, (hapax) => hapax.effects.list(query))
  if (options.json) json(io, { effects: found.rows, after: found.after ?? null })
  else tell('effects list', found, EFFECT_COLUMNS, effectCells, options, io)
  return 0
}

const RECEIPT_COLUMNS: readonly Column[] = [
  { title: 'taken at (UTC)' },
  { title: 'consumer', shrinkTo: 8 },
  { title: 'type', shrinkTo: 8 },
  { title: 'source', shrinkTo: 8 },
  { title: 'id', shrinkTo: 8 },
]

function receiptCells({ takenAt, consumer, type, source, id }: ListedReceipt): readonly Cell[] {
  return [when(takenAt).slice(0, 19), safe(consumer), safe(type), safe(source), safe(id)]
}

const EFFECT_COLUMNS: readonly Column[] = [
  { title: 'last at (UTC)' },
  { title: 'consumer', shrinkTo: 8 },
  { title: 'effect', shrinkTo: 8 },
  { title: 'state' },
  { title: 'made', align: 'right' },
  { title: 'id', shrinkTo: 8 },
  { title: 'error', shrinkTo: 8 },
]

function effectCells({ lastAt, consumer, name, state, attempts, message, error }: ListedEffect): readonly Cell[] {
  const style = state === 'done' ? 'green' : state === 'not-done' ? 'yellow' : 'red'
  const said = error === null ? '-' : `${error.name}: ${error.message}`
  const id = safe(message?.id ?? '-')
  return [
    when(lastAt).slice(0, 19),
    safe(consumer),
    safe(name),
    { text: state, style },
    String(attempts),
    id,
    safe(said),
  ]
}

function tell<T>(
  words: string,
  { rows, after }: ListResult<T>,
  columns: readonly Column[],
  cells: (row: T) => readonly Cell[],
  options: ListOptions,
  io: Io,
): void {
  if (rows.length === 0) line(io, 'none found')
  else table(io, columns, rows.map(cells))
  if (after === undefined) return
  line(io)
  line(
    io,
    `next page: ${command(`${words} ${filterWords(options)}--limit ${options.limit} --after ${after}`, options)}`,
  )
}

function filterWords({ consumer, state, since, until }: ListOptions): string {
  const parts = [
    consumer && `--consumer ${shellWord(safe(consumer))} `,
    state && `--state ${state} `,
    since && `--since ${since.toISOString()} `,
    until && `--until ${until.toISOString()} `,
  ]
  return parts.filter(Boolean).join('')
}
