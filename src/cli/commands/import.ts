// Takes over the table of another inbox. What has been processed is piped in, because only its owner knows where it is and which
// rows count. It can be stopped and repeated: receipts that are there stay as they are.

import { createReadStream } from 'node:fs'
import { extname, resolve } from 'node:path'
import { InvalidArgumentError, Option } from 'commander'
import type { KnownConsumer, ProcessedMessage } from '../../admin/index.ts'
import { isHapaxError, safe } from '../../base/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line } from '../io/io.ts'
import { Progress } from '../io/progress.ts'
import { count, plural } from '../io/text.ts'
import { type AddCommand, byOf, type ChangeOptions, examples, withChange, withStore } from '../options.ts'
import { type Condition, INPUT_FORMATS, type InputFormat, ReceiptsInput } from '../receipts-input.ts'
import { type StoreOptions, withHapax } from '../store.ts'

interface ImportCommand extends StoreOptions, ChangeOptions {
  readonly consumer: string
  readonly source?: string
  readonly format?: InputFormat
  readonly id: string
  readonly columns?: readonly string[]
  readonly where: readonly Condition[]
}

const ABOUT = `
Reads a file or standard input, in one of three formats:
  lines    an id on each line
  csv      as RFC 4180 has it, with a line of column names: id (see --id), and
           source and type if there are any; all others are ignored
  ndjson   a JSON object on each line, with the same names as fields
The file extension decides (.csv; .ndjson or .jsonl; otherwise lines),
unless --format is given. Values are read as they are: nothing is trimmed.
Import only messages that were finished: --where skips the others.
The source has to be the one that the messages will have when they arrive again.
Existing receipts are left unchanged, so the import can be stopped and repeated.
`

/** Adds `hapax receipts import`. */
export const addImport: AddCommand = (receipts, io, done) => {
  withStore(withChange(receipts.command('import').argument('[file]', 'the file; without it, standard input')))
    .description('Writes receipts of messages that another inbox has processed, so that they do not run again.')
    .requiredOption('--consumer <name>', 'the consumer that takes over')
    .option('--source <source>', 'the source of the messages')
    .addOption(new Option('--format <format>', 'input format (default: by file extension)').choices(INPUT_FORMATS))
    .option('--id <column>', 'the column or field of the ids', 'id')
    .option('--columns <names>', 'csv without a header line: all column names, separated by commas', namesOf)
    .option(
      '--where <condition>',
      'import only rows with column=value, or column!=value; may be repeated',
      (text: string, before: readonly Condition[]) => [...before, conditionOf(text)],
      [],
    )
    .addHelpText(
      'after',
      ABOUT +
        examples(
          'hapax receipts import processed.txt --consumer billing --source stripe --dry-run',
          'hapax receipts import processed.csv --id event_id --where status=done --consumer billing --source stripe',
          'hapax receipts import processed.ndjson --consumer billing --source /shop',
        ),
    )
    .action(async (file, options) => done(await importAll(file, options, io)))
}

async function importAll(file: string | undefined, options: ImportCommand, io: Io): Promise<number> {
  const { consumer, source } = options
  const input = readerOf(file, options)
  const dryRun = options.dryRun === true
  const open = inputOf(file, io)
  return withHapax(options, io, async (hapax) => {
    const progress = new Progress(io, options.json !== true)
    const stop = new AbortController()
    const forget = io.onSignal(() => stop.abort())
    try {
      tellUnknown(consumer, await hapax.consumers.list(), io)
      const done = await hapax.receipts
        .import(opened(open, input), {
          consumer,
          ...(source !== undefined && { source }),
          dryRun,
          signal: stop.signal,
          by: byOf(options),
          onProgress: ({ imported }) => progress.show(`${count(input.read)} read, ${count(imported)} new`),
        })
        .catch((error: unknown) => {
          if (!isHapaxError(error, 'invalid-option') || input.line === 0) throw error
          throw new CliError('usage', `line ${input.line}: ${error.message}`)
        })
      progress.clear()
      const stopped = stop.signal.aborted
      if (input.read > 0 && !stopped) tellUnmet(input, io)
      if (options.json) json(io, { dryRun, stopped, ...summary(input, options), ...done })
      else tell(input, done, options, io)
      if (stopped && !options.json) line(io, 'stopped before the end; run it again to import the rest')
      return stopped ? 1 : 0
    } finally {
      forget()
      progress.clear()
    }
  })
}

/** Opened lazily: an error event before the first read would have no listener. */
async function* opened(
  open: () => AsyncIterable<Uint8Array | string>,
  input: ReceiptsInput,
): AsyncGenerator<ProcessedMessage> {
  yield* input.messages(open())
}

function readerOf(file: string | undefined, options: ImportCommand): ReceiptsInput {
  const { id, columns, where } = options
  const format = options.format ?? formatOf(file)
  if (
    format !== 'ndjson' &&
    options.source === undefined &&
    !(format === 'csv' && columns?.includes('source') !== false)
  ) {
    throw new CliError('usage', 'expected --source, because the input has no sources')
  }
  if (format !== 'csv' && columns !== undefined) throw new CliError('usage', '--columns requires --format csv')
  if (format === 'lines' && (where.length > 0 || id !== 'id')) {
    throw new CliError(
      'usage',
      `${where.length > 0 ? '--where' : '--id'} requires --format csv or ndjson: a line has no columns`,
    )
  }
  return new ReceiptsInput({ format, id, columns, where })
}

function formatOf(file: string | undefined): InputFormat {
  const ending = file === undefined ? '' : extname(file).toLowerCase()
  if (ending === '.csv') return 'csv'
  return ending === '.ndjson' || ending === '.jsonl' ? 'ndjson' : 'lines'
}

function namesOf(text: string): readonly string[] {
  return text.split(',')
}

function conditionOf(text: string): Condition {
  const [, column = '', not, value = ''] = /^([^=!]+)(!?)=(.*)$/s.exec(text) ?? []
  // As other languages have it: it would be another value, and column!=value would take what was to be left out.
  const isOther = value.startsWith('=') || /^(['"]).*\1$/s.test(value)
  if (column === '' || isOther)
    throw new InvalidArgumentError(
      'expected column=value or column!=value, the value as it is in the file, without quotes',
    )
  return { column, value, not: not === '!' }
}

function summary(input: ReceiptsInput, { source }: ImportCommand): object {
  const { read, empty, leftOut, columns, first, last } = input
  const sample = (message: ProcessedMessage | undefined): object | null =>
    message === undefined ? null : { id: message.id, source: message.source ?? source }
  return { read, empty, leftOut, columns: columns ?? null, first: sample(first), last: sample(last) }
}

function tell(
  input: ReceiptsInput,
  done: { readonly imported: number; readonly existing: number },
  options: ImportCommand,
  io: Io,
): void {
  const { read, empty, leftOut, columns, first, last } = input
  const named = columns === undefined ? '' : ` with the columns ${safe(columns.join(', '))}`
  line(io, `read ${plural(read, 'row')}${named}: ${count(leftOut)} left out, ${count(empty)} without an id`)
  if (first !== undefined && last !== undefined)
    line(io, `the first id is ${quoted(first.id)}, the last ${quoted(last.id)}`)
  const what = options.dryRun === true ? 'would import' : 'imported'
  const some = plural(done.imported, 'receipt')
  line(io, `${what} ${some} for ${safe(options.consumer)}; ${count(done.existing)} existed before`)
}

/** Quoted, so that a trailing space is visible. */
function quoted(id: string): string {
  return safe(JSON.stringify(id).slice(0, 200))
}

/** Perhaps it is written in another way there: with `!=`, nothing was left out then. */
function tellUnmet({ unmet }: ReceiptsInput, io: Io): void {
  for (const { column, value } of unmet) {
    io.err.write(`no row has ${quoted(value)} as its ${safe(column)}: check --where\n`)
  }
}

/** Only a warning, because the consumer's worker may not have started yet; silent where no worker has ever started. */
function tellUnknown(consumer: string, known: readonly KnownConsumer[], io: Io): void {
  const names = known.map(({ name }) => name)
  if (names.length === 0 || names.includes(consumer)) return
  const what = `the consumer ${consumer} is not known to this database (known: ${names.join(', ')})`
  io.err.write(`${safe(what)}: check its name, unless it is yet to be created\n`)
}

function inputOf(file: string | undefined, io: Io): () => AsyncIterable<Uint8Array | string> {
  const { input } = io
  // Opened lazily: an error event before the first read would have no listener.
  if (file !== undefined && file !== '-') return () => createReadStream(resolve(io.cwd, file))
  if (input === undefined) throw new CliError('usage', 'expected a file, or ids on standard input')
  return () => input
}
