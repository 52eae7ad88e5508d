// Takes over the table of another inbox. What has been processed is piped in, because only its owner knows where it is and which
// rows count. It can be stopped and repeated: receipts that are there stay as they are.

import { createReadStream } from 'node:fs'
import { resolve } from 'node:path'
import type { KnownConsumer, ProcessedMessage } from '../../admin/index.ts'
import { fieldOf, safe } from '../../base/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line } from '../io/io.ts'
import { Progress } from '../io/progress.ts'
import { count, plural } from '../io/text.ts'
import { type AddCommand, byOf, type ChangeOptions, examples, withChange, withStore } from '../options.ts'
import { type StoreOptions, withHapax } from '../store.ts'

interface ImportCommand extends StoreOptions, ChangeOptions {
  readonly consumer: string
  readonly source?: string
  readonly ndjson?: true
}

const ABOUT = `
Reads one id per line, from a file or from standard input. With --ndjson each
line is an object: {"id": "…", "source": "…", "type": "…"}; only id is required.
The source has to be the one that the messages will have when they come again.
Receipts that exist are left alone, so that it can be stopped and repeated.
`

/** Adds `hapax receipts import`. */
export const addImport: AddCommand = (receipts, io, done) => {
  withStore(withChange(receipts.command('import').argument('[file]', 'the file; without it, standard input')))
    .description('Writes receipts of messages that another inbox has processed, so that they do not run again.')
    .requiredOption('--consumer <name>', 'the consumer that takes over')
    .option('--source <source>', 'the source of the messages')
    .option('--ndjson', 'each line is a JSON object, instead of an id')
    .addHelpText(
      'after',
      ABOUT +
        examples(
          'hapax receipts import processed.txt --consumer billing --source stripe --dry-run',
          'hapax receipts import processed.ndjson --ndjson --consumer billing --source /shop',
        ),
    )
    .action(async (file, options) => done(await importAll(file, options, io)))
}

async function importAll(file: string | undefined, options: ImportCommand, io: Io): Promise<number> {
  const { consumer, source, ndjson } = options
  if (source === undefined && !ndjson) throw new CliError('usage', 'expected --source, because ids alone do not say it')
  const dryRun = options.dryRun === true
  const lines = linesOf(inputOf(file, io))
  return withHapax(options, io, async (hapax) => {
    const progress = new Progress(io, options.json !== true)
    const stop = new AbortController()
    const forget = io.onSignal(() => stop.abort())
    try {
      tellUnknown(consumer, await hapax.consumers.list(), io)
      const done = await hapax.receipts.import(ndjson ? objects(lines) : lines, {
        consumer,
        ...(source !== undefined && { source }),
        dryRun,
        signal: stop.signal,
        by: byOf(options),
        onProgress: ({ imported, existing }) =>
          progress.show(`${count(imported + existing)} read, ${count(imported)} new`),
      })
      progress.clear()
      if (options.json) json(io, { dryRun, stopped: stop.signal.aborted, ...done })
      else {
        const some = plural(done.imported, 'receipt')
        line(
          io,
          `${dryRun ? 'would import' : 'imported'} ${some} for ${safe(consumer)}; ${count(done.existing)} existed before`,
        )
        if (stop.signal.aborted) line(io, 'stopped before the end; run it again to import the rest')
      }
      return stop.signal.aborted ? 1 : 0
    } finally {
      forget()
      progress.clear()
    }
  })
}

/** Its worker may still have to start for the first time; where none has started yet, nothing can be said. */
function tellUnknown(consumer: string, known: readonly KnownConsumer[], io: Io): void {
  const names = known.map(({ name }) => name)
  if (names.length === 0 || names.includes(consumer)) return
  const what = `the consumer ${consumer} is not known to this database (known: ${names.join(', ')})`
  io.err.write(`${safe(what)}: check its name, unless it is still to come\n`)
}

function inputOf(file: string | undefined, io: Io): () => AsyncIterable<Uint8Array | string> {
  const { input } = io
  // Opened when it is read: nobody would hear of an error before.
  if (file !== undefined && file !== '-') return () => createReadStream(resolve(io.cwd, file))
  if (input === undefined) throw new CliError('usage', 'expected a file, or ids on standard input')
  return () => input
}

/** The lines that are not empty. */
async function* linesOf(open: () => AsyncIterable<Uint8Array | string>): AsyncGenerator<string> {
  let place = 0
  for await (const bytes of byteLines(open())) {
    place += 1
    const text = decoded(bytes, place).trim()
    if (text !== '') yield text
  }
}

/** The lines as one character per byte: each is decoded by itself, so that an error can name it. */
async function* byteLines(chunks: AsyncIterable<Uint8Array | string>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + Buffer.from(chunk).toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  yield rest
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** A replacement for what cannot be decoded would make different ids equal, and be none that is delivered. */
function decoded(bytes: string, place: number): string {
  try {
    return utf8.decode(Buffer.from(bytes, 'latin1'))
  } catch {
    throw new CliError(
      'usage',
      `expected line ${place} to be UTF-8, got ${safe(Buffer.from(bytes, 'latin1').toString().slice(0, 80))}`,
    )
  }
}

async function* objects(lines: AsyncIterable<string>): AsyncGenerator<ProcessedMessage> {
  let place = 0
  for await (const text of lines) {
    place += 1
    yield messageOf(text, place)
  }
}

function messageOf(text: string, place: number): ProcessedMessage {
  try {
    const value: unknown = JSON.parse(text)
    if (isMessage(value)) return value
  } catch {
    // Not JSON at all.
  }
  throw new CliError('usage', `expected line ${place} to be a JSON object with an id, got ${safe(text.slice(0, 80))}`)
}

function isMessage(value: unknown): value is ProcessedMessage {
  const isOptional = (name: string): boolean => ['string', 'undefined'].includes(typeof fieldOf(value, name))
  return typeof fieldOf(value, 'id') === 'string' && isOptional('source') && isOptional('type')
}
