// Operations: changes to many rows that go on in any process, whoever began them.

import type { Command } from 'commander'
import { safe } from '../../base/index.ts'
import type { BulkOperation } from '../../contracts/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line, paint } from '../io/io.ts'
import { type Cell, table } from '../io/table.ts'
import { count, when } from '../io/text.ts'
import { type AddCommand, type ByOptions, byOf, type Done, examples, wholeNumber, withStore } from '../options.ts'
import { command, type StoreOptions, withHapax } from '../store.ts'

type ListOptions = StoreOptions & { readonly limit: number; readonly before?: string; readonly json?: true }
type ChangeOptions = StoreOptions & ByOptions & { readonly json?: true }
type Change = 'pause' | 'resume' | 'cancel'

const DESCRIPTIONS: Readonly<Record<Change, string>> = {
  pause: 'Stops an operation between two rows, until it is resumed.',
  resume: 'Lets a paused operation go on.',
  cancel: 'Ends an operation between two rows. What it has changed stays changed.',
}

/** Adds `hapax operations`. */
export const addOperations: AddCommand = (root, io, done) => {
  const operations = root
    .command('operations')
    .description('Manages changes to many messages: what was begun, by whom, and how far it is.')
    .addHelpText('after', examples('hapax operations list', 'hapax operations pause 019a2f9e-…'))
  withStore(operations.command('list'))
    .description('Lists operations, the newest first.')
    .option('--limit <n>', 'how many to list', wholeNumber(1, 999), 50)
    .option('--before <id>', 'list those that began before this one: the next page')
    .addHelpText('after', examples('hapax operations list', 'hapax operations list --json'))
    .action(async (options) => done(await list(options, io)))
  withStore(operations.command('show'))
    .argument('<id>', 'the operation')
    .description('Shows one operation: what it is about, how far it is, and its last error.')
    .addHelpText('after', examples('hapax operations show 019a2f9e-…'))
    .action(async (id, options) => done(await show(id, options, io)))
  for (const change of ['pause', 'resume', 'cancel'] as const) addChange(operations, change, io, done)
}

function addChange(operations: Command, change: Change, io: Io, done: Done): void {
  withStore(operations.command(change))
    .argument('<id>', 'the operation')
    .description(DESCRIPTIONS[change])
    .option('--note <text>', 'the reason, for the audit')
    .option('--actor <name>', 'who makes the change, for the audit (default: the operating system user)')
    .addHelpText('after', examples(`hapax operations ${change} 019a2f9e-… --note 'the bank is down'`))
    .action(async (id, options: ChangeOptions) => {
      const now = await withHapax(options, io, async (hapax) => {
        await hapax.operations[change](id, byOf(options))
        return hapax.operations.get(id)
      })
      if (options.json) json(io, { operation: now })
      else line(io, `the operation ${safe(id)} is ${now?.state}: ${now === undefined ? '' : progressOf(now)}`)
      done(0)
    })
}

async function list({ limit, before, ...options }: ListOptions, io: Io): Promise<number> {
  const query = { limit, ...(before !== undefined && { before }) }
  const operations = await withHapax(options, io, (hapax) => hapax.operations.list(query))
  if (options.json) json(io, { operations })
  else if (operations.length === 0) line(io, 'no operations: changes with filters or --all begin one')
  else tellOperations(operations, io)
  return 0
}

/** Prints a table of operations; `hapax status` prints those that go on. */
export function tellOperations(operations: readonly BulkOperation[], io: Io): void {
  table(
    io,
    [
      { title: 'operation' },
      { title: 'what', shrinkTo: 12 },
      { title: 'state' },
      { title: 'progress', align: 'right' },
      { title: 'errors', align: 'right' },
      { title: 'by', shrinkTo: 8 },
      { title: 'note', shrinkTo: 8 },
    ],
    operations.map((each) => [
      each.id,
      safe(whatOf(each)),
      stateOf(each),
      progressOf(each),
      each.errors === 0 ? '0' : { text: count(each.errors), style: 'red' as const },
      safe(each.actor),
      safe(each.note ?? ''),
    ]),
  )
}

function progressOf({ done, gone, errors, total }: BulkOperation): string {
  return `${count(done + gone + errors)} of ${count(total)}`
}

function stateOf({ state, worked }: BulkOperation): Cell {
  if (state === 'paused') return { text: state, style: 'yellow' }
  if (state !== 'running') return state
  return worked ? { text: 'running', style: 'green' } : { text: 'waits for a worker', style: 'yellow' }
}

/** What it does, and to which rows. */
function whatOf({ kind, where }: BulkOperation): string {
  const conditions = Object.entries(where)
    .filter(([name, value]) => value !== undefined && name !== 'until')
    .map(([name, value]) => `${name} ${value instanceof Date ? when(value) : String(value)}`)
  return [kind, ...(conditions.length === 0 ? ['all'] : [conditions.join(', ')])].join(' ')
}

async function show(id: string, options: StoreOptions & { readonly json?: true }, io: Io): Promise<number> {
  const found = await withHapax(options, io, (hapax) => hapax.operations.get(id))
  if (found === undefined) {
    throw new CliError('not-found', `there is no operation ${id}`, [
      `to list operations: ${command('operations list', options)}`,
    ])
  }
  if (options.json) json(io, { operation: found })
  else tell(found, io)
  return 0
}

function tell(found: BulkOperation, io: Io): void {
  const { done, gone, errors, error, perSecond, actor, note, createdAt, endedAt } = found
  const facts: Readonly<Record<string, string>> = {
    operation: found.id,
    what: whatOf(found),
    state: cellText(stateOf(found)),
    progress: `${progressOf(found)}: ${count(done)} done, ${count(gone)} gone, ${count(errors)} not done`,
    rate: perSecond === null ? 'as fast as the database allows' : `${perSecond} per second`,
    by: note === null ? actor : `${actor}: ${note}`,
    'began at': when(createdAt),
    ...(endedAt !== null && { 'ended at': when(endedAt) }),
    ...(error !== null && { 'last error': `${error.name}: ${error.message}` }),
  }
  for (const [name, value] of Object.entries(facts)) line(io, `${paint(io, 'dim', name.padEnd(12))} ${safe(value)}`)
}

const cellText = (cell: Cell): string => (typeof cell === 'string' ? cell : cell.text)
