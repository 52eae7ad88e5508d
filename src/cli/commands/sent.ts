// Published messages that were kept. Republishing keeps their ids, so consumers that have processed them see duplicates: after the
// loss of a queue, a whole period can be sent again safely.

import type { Command } from 'commander'
import { safe, shellWord } from '../../base/index.ts'
import type { SentMessage, SentWhere } from '../../contracts/index.ts'
import type { Hapax, PurgeOptions } from '../../index.ts'
import { numberOf, seqOf } from '../../message/index.ts'
import { byNumber, changeByFilter, changeByNumber, type RowsOptions, type RowsWork, withRows } from '../change-rows.ts'
import { durationText } from '../io/duration.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line } from '../io/io.ts'
import { payloadOf } from '../io/payload.ts'
import { permission } from '../io/permission.ts'
import { Progress } from '../io/progress.ts'
import { table } from '../io/table.ts'
import { count, plural, when } from '../io/text.ts'
import {
  type AddCommand,
  byOf,
  type ChangeOptions,
  type Done,
  examples,
  withAges,
  withChange,
  withPages,
  withStore,
} from '../options.ts'
import { sentSeq, seqsOrNumbers } from '../seq.ts'
import { command, type StoreOptions, withHapax } from '../store.ts'

interface SentFilters {
  readonly relay?: string
  readonly type?: string
  readonly olderThan?: number
  readonly newerThan?: number
}

interface ListOptions extends StoreOptions, SentFilters {
  readonly limit: number
  readonly before?: string
  readonly json?: true
}

/** Adds `hapax sent`. */
export const addSent: AddCommand = (root, io, done) => {
  const sent = root
    .command('sent')
    .description('Manages published messages that are kept (keepSentMs, or hapax relay --keep-sent).')
    .addHelpText(
      'after',
      examples('hapax sent list', 'hapax sent republish 12', 'hapax sent purge --older-than 30d --dry-run'),
    )
  withStore(withPages(withFilters(sent.command('list'))))
    .description('Lists published messages, newest first.')
    .addHelpText('after', examples('hapax sent list --type order.placed --newer-than 1h', 'hapax sent list --json'))
    .action(async (options) => done(await sentList(options, io)))
  addRepublish(sent, io, done)
  addPurge(sent, io, done)
}

function addRepublish(sent: Command, io: Io, done: Done): void {
  withStore(
    withRows(withFilters(sent.command('republish').argument('[seq...]', 'the numbers as listed', seqsOrNumbers))),
  )
    .description('Publishes messages again under their original ids. Consumers that had them ignore the duplicates.')
    .addHelpText(
      'after',
      examples(
        'hapax sent republish 12 13',
        'hapax sent republish --relay default --newer-than 2h --dry-run',
        'hapax sent republish --type order.placed --newer-than 2h --rate 100 --yes',
      ),
    )
    .action(async (numbers, options) => done(await republish(numbers ?? [], options, io)))
}

function withFilters(each: Command): Command {
  return withAges(
    each.option('--relay <name>', 'only those of this relay').option('--type <type>', 'only those of this type'),
  )
}

function sentWhere({ relay, type, olderThan, newerThan }: SentFilters): SentWhere {
  return {
    ...(relay !== undefined && { relay }),
    ...(type !== undefined && { type }),
    ...(olderThan !== undefined && { olderThanMs: olderThan }),
    ...(newerThan !== undefined && { newerThanMs: newerThan }),
  }
}

async function sentList(options: ListOptions, io: Io): Promise<number> {
  const { limit, before } = options
  // One more than asked for, to see whether there is a next page.
  const query = { ...sentWhere(options), ...(before && { before }), limit: limit + 1 }
  const found = await withHapax(options, io, (hapax) => hapax.sent.list(query))
  const page = found.slice(0, limit)
  const next = found.length > limit ? page.at(-1)?.seq : undefined
  if (options.json) json(io, { messages: page.map(document), next: next ?? null })
  else if (page.length === 0) line(io, 'no published messages are kept')
  else tell(page, next, options, io)
  return 0
}

function document({ seq, relay, sentAt, message }: SentMessage): object {
  const { id, source, type, key } = message
  return { seq, sentAt, relay, id, source, type, key, ...payloadOf(message) }
}

function tell(page: readonly SentMessage[], next: string | undefined, options: ListOptions, io: Io): void {
  table(
    io,
    [
      { title: 'seq', align: 'right' },
      { title: 'sent at (UTC)' },
      { title: 'relay', shrinkTo: 8 },
      { title: 'type', shrinkTo: 8 },
      { title: 'key', shrinkTo: 8 },
      { title: 'id', shrinkTo: 8 },
    ],
    page.map(({ seq, sentAt, relay, message: { type, key, id } }) => [
      seq,
      when(sentAt).slice(0, 19),
      safe(relay),
      safe(type),
      safe(key ?? '-'),
      safe(id),
    ]),
  )
  if (next === undefined) return
  line(io)
  line(
    io,
    `next page: ${command(`sent list --before ${next} --limit ${options.limit} ${words(options)}`.trimEnd(), options)}`,
  )
}

function words({ relay, type, olderThan, newerThan }: SentFilters): string {
  const parts: string[] = []
  if (relay !== undefined) parts.push(`--relay ${shellWord(safe(relay))}`)
  if (type !== undefined) parts.push(`--type ${shellWord(safe(type))}`)
  if (olderThan !== undefined) parts.push(`--older-than ${durationText(olderThan)}`)
  if (newerThan !== undefined) parts.push(`--newer-than ${durationText(newerThan)}`)
  return parts.join(' ')
}

async function republish(
  numbers: readonly string[],
  options: StoreOptions & SentFilters & RowsOptions,
  io: Io,
): Promise<number> {
  const where = sentWhere(options)
  const numbered = byNumber('sent republish', numbers, !isEmpty(where), options)
  return withHapax(options, io, (hapax) => {
    const work = workOf(hapax, where, options)
    return numbered ? changeByNumber(work, numbers, options, io) : changeByFilter(work, options, io)
  })
}

const isEmpty = (where: SentWhere): boolean => Object.keys(where).length === 0

function workOf(hapax: Hapax<unknown>, where: SentWhere, options: StoreOptions): RowsWork {
  const { sent, operations } = hapax
  return {
    change: 'republish',
    noun: 'published message',
    question: (howMany) => `Publish ${howMany} again?`,
    afterwards: 'they are back in the outbox: a running relay sends them',
    named: (typed) => sentSeq(hapax, typed),
    // There is no lookup by seq: list one row, starting below the next higher number.
    describe: async (seq) => {
      const [found] = await sent.list({ before: seqOf(String(BigInt(numberOf(seq)) + 1n), 0), limit: 1 })
      return found?.seq === seq ? `${found.message.type} ${found.message.id} by ${found.relay}` : undefined
    },
    one: (seq, by) => sent.republish(seq, by),
    count: () => sent.count(where),
    all: (chosen) => sent.republishAll(isEmpty(where) ? { all: true } : where, chosen),
    begin: (chosen) =>
      operations.begin({ kind: 'republish', ...(isEmpty(where) ? { all: true } : { where }), ...chosen }),
    command: (words) => command(words, options),
  }
}

interface PurgeCommand extends StoreOptions, SentFilters, ChangeOptions {
  readonly all?: true
  readonly yes?: true
}

function addPurge(sent: Command, io: Io, done: Done): void {
  withStore(withChange(withFilters(sent.command('purge'))))
    .description('Deletes kept published messages, in small steps. Workers do this after keepSentMs.')
    .option('--all', 'select all, instead of filters')
    .option('--yes', 'do not ask for confirmation; required without a terminal')
    .addHelpText(
      'after',
      examples(
        'hapax sent purge --older-than 30d --dry-run',
        'hapax sent purge --relay partners --older-than 7d --yes',
      ),
    )
    .action(async (options) => done(await purge(options, io)))
}

async function purge(options: PurgeCommand, io: Io): Promise<number> {
  const where = sentWhere(options)
  if (isEmpty(where) === (options.all !== true)) {
    throw new CliError('usage', 'expected filters, or --all', [`to list them: ${command('sent list', options)}`])
  }
  const chosen = isEmpty(where) ? ({ all: true } as const) : where
  return withHapax(options, io, async ({ sent }) => {
    const found = await steps(io, options, 'counted', (each) => sent.purge(chosen, { ...each, dryRun: true }))
    if (options.dryRun || found.purged === 0 || found.stopped) return concludePurge(found, options, io)
    const some = plural(found.purged, 'published message')
    await permission(io, options.yes === true, `deleting ${some}`, `Delete ${some} for good?`)
    const by = byOf(options)
    return concludePurge(
      await steps(io, options, 'deleted', (each) => sent.purge(chosen, { ...each, by })),
      options,
      io,
    )
  })
}

interface Purged {
  readonly purged: number
  readonly stopped: boolean
}

/** Runs with a progress line. Ctrl-C stops it between two steps. */
async function steps(
  io: Io,
  options: PurgeCommand,
  what: string,
  work: (each: Pick<PurgeOptions, 'signal' | 'onProgress'>) => Promise<{ readonly purged: number }>,
): Promise<Purged> {
  const progress = new Progress(io, options.json !== true)
  const stop = new AbortController()
  const forget = io.onSignal(() => stop.abort())
  try {
    const onProgress = ({ purged }: { readonly purged: number }): void => progress.show(`${count(purged)} ${what}`)
    const { purged } = await work({ signal: stop.signal, onProgress })
    return { purged, stopped: stop.signal.aborted }
  } finally {
    forget()
    progress.clear()
  }
}

function concludePurge({ purged, stopped }: Purged, options: PurgeCommand, io: Io): number {
  const dryRun = options.dryRun === true
  if (options.json) json(io, { dryRun, stopped, purged })
  else {
    line(io, `${dryRun ? 'would delete' : 'deleted'} ${plural(purged, 'published message')}`)
    if (stopped) line(io, 'stopped before the end; the rest is untouched')
  }
  return stopped ? 1 : 0
}
