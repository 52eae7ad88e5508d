import type { Command } from 'commander'
import { safe } from '../../../base/index.ts'
import type { FailedGroup, FailedMessage } from '../../../contracts/index.ts'
import { type Io, json, line } from '../../io/io.ts'
import { table } from '../../io/table.ts'
import { count, when } from '../../io/text.ts'
import { type AddCommand, type Done, examples, withPages, withStore } from '../../options.ts'
import { command, type StoreOptions, withEither } from '../../store.ts'
import { addFailedChange } from './change.ts'
import { addFailedEdit } from './edit.ts'
import { addFailedNote } from './note.ts'
import { addFailedSettle } from './settle.ts'
import { addFailedShow, summary } from './show.ts'
import { type FailedFilters, failedWhere, filterWords, withFailedFilters } from './where.ts'

/** Options of `hapax failed list`. */
interface FailedListOptions extends StoreOptions, FailedFilters {
  readonly limit: number
  readonly before?: string
  readonly group?: true
  readonly json?: true
}

/** Adds `hapax failed` and its subcommands. */
export const addFailed: AddCommand = (root, io, done) => {
  const failed = root
    .command('failed')
    .description('Manages failed messages, which are not retried automatically.')
    .addHelpText('after', examples('hapax failed list --group', 'hapax failed show 12', 'hapax failed retry 12'))
  addList(failed, io, done)
  addFailedShow(failed, io, done)
  addFailedChange(failed, 'retry', io, done)
  addFailedEdit(failed, io, done)
  addFailedSettle(failed, io, done)
  addFailedNote(failed, io, done)
  addFailedChange(failed, 'discard', io, done)
}

function addList(failed: Command, io: Io, done: Done): void {
  withStore(withPages(withFailedFilters(failed.command('list'))))
    .description('Lists failed messages, newest first, or in groups with the same error.')
    .option('--group', 'group messages with the same error, the largest group first')
    .addHelpText(
      'after',
      examples(
        'hapax failed list --consumer billing --newer-than 1d',
        'hapax failed list --group',
        'hapax failed list --error 3f9a2c11 --json',
      ),
    )
    .action(async (options) => done(await (options.group ? failedGroups(options, io) : failedList(options, io))))
}

/** Shows a page of failed messages, newest first. */
async function failedList(options: FailedListOptions, io: Io): Promise<number> {
  const { limit, before } = options
  // One more than asked for, to see whether there is a next page.
  const query = { ...failedWhere(options), ...(before && { before }), limit: limit + 1 }
  const found = await withEither(options, io, (hapax) => hapax.failed.list(query))
  const page = found.slice(0, limit)
  const next = found.length > limit ? page.at(-1)?.seq : undefined
  if (options.json) json(io, { messages: page.map(summary), next: next ?? null })
  else if (page.length === 0) line(io, 'no failed messages')
  else tellPage(page, next, options, io)
  return 0
}

function tellPage(page: readonly FailedMessage[], next: string | undefined, options: FailedListOptions, io: Io): void {
  table(
    io,
    [
      { title: 'seq', align: 'right' },
      { title: 'failed at (UTC)' },
      { title: 'of', shrinkTo: 8 },
      { title: 'type', shrinkTo: 8 },
      { title: 'id', shrinkTo: 8 },
      { title: 'attempts', align: 'right' },
      { title: 'reason', shrinkTo: 7 },
      { title: 'error', shrinkTo: 8 },
    ],
    page.map((each) => [
      each.seq,
      when(each.failedAt).slice(0, 16),
      safe(scopeOf(each)),
      safe(each.message.type),
      safe(each.message.id),
      String(each.attempts),
      { text: safe(each.held ? `${each.reason}, holds its key` : each.reason), style: 'red' },
      safe(each.error.message),
    ]),
  )
  line(io)
  line(io, `to show one: ${command(`failed show ${page[0]?.seq}`, options)}`)
  if (next !== undefined) line(io, `next page:   ${nextPage(next, options)}`)
}

function nextPage(before: string, options: FailedListOptions): string {
  return command(`failed list --before ${before} --limit ${options.limit} ${filterWords(options)}`.trimEnd(), options)
}

/** The consumer, or the relay. */
function scopeOf({ origin, consumer }: Pick<FailedMessage, 'origin' | 'consumer'>): string {
  return origin === 'outbox' ? `relay ${consumer}` : consumer
}

/** Shows groups of messages that failed with the same error. */
async function failedGroups(options: FailedListOptions, io: Io): Promise<number> {
  const query = { ...failedWhere(options), limit: options.limit }
  const groups = await withEither(options, io, (hapax) => hapax.failed.groups(query))
  if (options.json)
    json(io, { groups: groups.map(({ error: { stack: _, ...error }, ...group }) => ({ ...group, error })) })
  else if (groups.length === 0) line(io, 'no failed messages')
  else tellGroups(groups, options, io)
  return 0
}

function tellGroups(groups: readonly FailedGroup[], options: FailedListOptions, io: Io): void {
  table(
    io,
    [
      { title: 'count', align: 'right' },
      { title: 'of', shrinkTo: 8 },
      { title: 'type', shrinkTo: 8 },
      { title: 'reason', shrinkTo: 7 },
      { title: 'last at (UTC)' },
      { title: 'newest', align: 'right' },
      { title: 'hash' },
      { title: 'error', shrinkTo: 8 },
    ],
    groups.map((group) => [
      count(group.count),
      safe(scopeOf(group)),
      safe(group.type),
      { text: safe(group.reason), style: 'red' },
      when(group.lastAt).slice(0, 16),
      group.seq,
      safe(group.errorHash),
      safe(group.error.message),
    ]),
  )
  const [first] = groups
  if (first === undefined) return
  line(io)
  line(io, `to show the newest of the first group: ${command(`failed show ${first.seq}`, options)}`)
  line(io, `to retry all of the first group:       ${command(`failed retry ${groupWords(first)}`, options)}`)
}

function groupWords({ origin, consumer, type, reason, errorHash }: FailedGroup): string {
  const scope = origin === 'outbox' ? { relay: consumer } : { consumer }
  return filterWords({ ...scope, type, reason, error: errorHash })
}
