import { unpackAttributes } from '../core/message.ts'
import type { ErrorRecord, FailedMessage } from '../index.ts'
import { CliError } from './errors.ts'
import { type Io, json, line, paint } from './io.ts'
import { command, type StoreOptions, withHapax } from './store.ts'
import { table } from './table.ts'
import { plural, safe, safeLines, shellWord, when } from './text.ts'

/** Which failed messages a command is about. */
export interface FailedFilters {
  readonly consumer?: string
  readonly type?: string
  readonly reason?: string
}

/** Options of `hapax failed list`. */
export interface FailedListOptions extends StoreOptions, FailedFilters {
  readonly limit: number
  readonly before?: string
  readonly json?: true
}

/** The filters that were given, as a query. */
export function filtersOf({ consumer, type, reason }: FailedFilters): FailedFilters {
  return { ...(consumer && { consumer }), ...(type && { type }), ...(reason && { reason }) }
}

/** Shows a page of failed messages, newest first. */
export async function failedList(options: FailedListOptions, io: Io): Promise<number> {
  const { limit, before } = options
  // One more than asked for: it tells whether there is a next page.
  const query = { ...filtersOf(options), ...(before && { before }), limit: limit + 1 }
  const found = await withHapax(options, io, (hapax) => hapax.failed.list(query))
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
      { title: 'consumer', shrinkTo: 8 },
      { title: 'type', shrinkTo: 8 },
      { title: 'id', shrinkTo: 8 },
      { title: 'attempts', align: 'right' },
      { title: 'reason', shrinkTo: 7 },
      { title: 'error', shrinkTo: 8 },
    ],
    page.map(({ seq, failedAt, consumer, message, attempts, reason, error }) => [
      seq,
      when(failedAt).slice(0, 16),
      safe(consumer),
      safe(message.type),
      safe(message.id),
      String(attempts),
      { text: safe(reason), style: 'red' },
      safe(error.message),
    ]),
  )
  line(io)
  line(io, `to see one: ${command(`failed show ${page[0]?.seq}`, options)}`)
  if (next !== undefined) line(io, `next page:  ${nextPage(next, options)}`)
}

function nextPage(before: string, options: FailedListOptions): string {
  const words = [`failed list --before ${before} --limit ${options.limit}`]
  for (const [name, value] of Object.entries(filtersOf(options))) words.push(`--${name} ${shellWord(safe(value))}`)
  return command(words.join(' '), options)
}

/** Shows everything about one failed message. */
export async function failedShow(seq: string, options: StoreOptions & { json?: true }, io: Io): Promise<number> {
  const found = await withHapax(options, io, (hapax) => hapax.failed.get(seq))
  if (found === undefined) {
    throw new CliError('not-found', `there is no failed message ${seq}`, [
      `to see what there is: ${command('failed list', options)}`,
    ])
  }
  const payload = payloadOf(found.message.data)
  if (options.json) {
    const { headers, ...attributes } = unpackAttributes(found.message)
    json(io, { ...summary(found), error: found.error, ...attributes, headers: headers ?? {}, ...payload })
  } else tellOne(found, payload, options, io)
  return 0
}

function tellOne(found: FailedMessage, payload: Payload, options: StoreOptions, io: Io): void {
  const { seq, consumer, attempts, reason, error, failedAt, message } = found
  const { headers = {}, ...attributes } = unpackAttributes(message)
  const facts = { seq, consumer, 'failed at': when(failedAt), attempts, reason, ...attributes }
  for (const [name, value] of Object.entries(facts)) fact(io, name, String(value))
  for (const [name, value] of Object.entries(headers)) fact(io, `header ${name}`, value)
  line(io)
  tellError(error, io)
  line(io)
  line(
    io,
    paint(io, 'dim', 'data' in payload ? 'payload' : `payload, ${plural(message.data.length, 'byte')}, not JSON`),
  )
  const text = 'data' in payload ? JSON.stringify(payload.data, null, 2) : printable(message.data)
  for (const each of safeLines(text)) line(io, `  ${each}`)
  line(io)
  line(io, `to try it again: ${command(`failed retry ${seq}`, options)}`)
  line(io, `to give it up:   ${command(`failed discard ${seq}`, options)}`)
}

function fact(io: Io, name: string, value: string): void {
  line(io, `${paint(io, 'dim', safe(name).padEnd(15))} ${safe(value)}`)
}

function tellError(error: ErrorRecord, io: Io): void {
  const { code, stack } = error
  line(io, paint(io, 'red', safe(`${error.name}: ${error.message}`)) + (code === undefined ? '' : safe(` (${code})`)))
  for (const frame of safeLines(stack ?? '').filter((each) => /^\s+at /.test(each))) line(io, paint(io, 'dim', frame))
  let indent = '  '
  for (let cause = error.cause; cause !== undefined; cause = cause.cause) {
    const suffix = cause.code === undefined ? '' : ` (${cause.code})`
    line(io, safe(`${indent}because ${cause.name}: ${cause.message}${suffix}`))
    indent += '  '
  }
}

type Payload = { readonly data: unknown } | { readonly dataBase64: string }

function payloadOf(data: Uint8Array): Payload {
  try {
    return { data: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(data)) }
  } catch {
    return { dataBase64: Buffer.from(data).toString('base64') }
  }
}

/** Text as text, anything else as hexadecimal digits; the beginning, if it is long. */
function printable(data: Uint8Array): string {
  const head = Buffer.from(data.subarray(0, MAX_SHOWN))
  const text = head.toString('utf8')
  const shown = text.includes('\ufffd') ? head.toString('hex').replaceAll(/(.{64})/g, '$1\n') : text
  return data.length > MAX_SHOWN ? `${shown}\n… ${plural(data.length - MAX_SHOWN, 'byte')} more: use --json` : shown
}

const MAX_SHOWN = 4096

function summary({ seq, failedAt, consumer, attempts, reason, error, message }: FailedMessage): object {
  const { id, source, type, key } = message
  const { stack: _, ...short } = error
  return { seq, failedAt, consumer, id, source, type, key, attempts, reason, error: short }
}
