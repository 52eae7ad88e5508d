// Everything that is known about a failed message, followed by the commands that can help. Commands that would fail or do harm, such
// as a retry before an unknown external call is settled, are not suggested. Texts from senders are escaped before they are printed.

import type { Command } from 'commander'
import type { ErrorRecord } from '../../../base/index.ts'
import { safe, safeLines, shellWord } from '../../../base/index.ts'
import type { EffectRow, FailedMessage } from '../../../contracts/index.ts'
import { type MessageAttributes, originOf, type Stub, stubOf, unpackAttributes } from '../../../message/index.ts'
import { type Hint, howToSettle, isMade, isUnsettled, journal, tellHints, tellJournal } from '../../effects.ts'
import { tellHistory } from '../../history.ts'
import { type Io, json, line, paint } from '../../io/io.ts'
import { kindOf, type Payload, payloadOf, printable } from '../../io/payload.ts'
import { plural, when } from '../../io/text.ts'
import { type Done, examples, withStore } from '../../options.ts'
import { failedName, failedSeq, withConsumer } from '../../seq.ts'
import { command, noSuchFailed, type StoreOptions, withEither } from '../../store.ts'

type ShowOptions = StoreOptions & { readonly consumer?: string; readonly json?: true }

/** Adds `hapax failed show`. */
export function addFailedShow(failed: Command, io: Io, done: Done): void {
  withStore(withConsumer(failed.command('show')))
    .argument('<message>', 'the number as listed, or the id', failedName)
    .description('Shows one failed message in full: attributes, error with causes, its last ten failures, payload.')
    .addHelpText('after', examples('hapax failed show 12', 'hapax failed show 12 --json'))
    .action(async (number, options) => done(await failedShow(number, options, io)))
}

async function failedShow(typed: string, options: ShowOptions, io: Io): Promise<number> {
  const [found, effects, editable] = await withEither(options, io, async (hapax) => {
    const { failed } = hapax
    const seq = await failedSeq(hapax, typed, options.consumer)
    const message = seq === undefined ? undefined : await failed.get(seq)
    return [message, message?.origin === 'inbox' ? await failed.effects(message.seq) : [], 'sent' in hapax] as const
  })
  if (found === undefined) throw noSuchFailed(typed, options)
  const payload = payloadOf(found.message)
  if (options.json) {
    const { headers, ...attributes } = attributesOf(found)
    const more = { headers: headers ?? {}, ...payload, ...journal(found, effects) }
    const { error, failures, history } = found
    json(io, { ...summary(found), error, failures, history, ...attributes, ...more })
  } else {
    tell(found, effects, payload, io)
    tellWhatToDo(found, effects, editable, options, io)
  }
  return 0
}

function tell(found: FailedMessage, effects: readonly EffectRow[], payload: Payload, io: Io): void {
  const { message, error } = found
  const { headers = {}, ...attributes } = attributesOf(found)
  for (const [name, value] of Object.entries({ ...facts(found), ...attributes })) fact(io, name, String(value))
  for (const [name, value] of Object.entries(headers)) fact(io, `header ${name}`, value)
  tellJournal(found, effects, io)
  line(io)
  tellError(error, io)
  line(io)
  tellHistory(found, io)
  const isJson = 'data' in payload && kindOf(message) === 'json'
  const what = isJson ? 'payload' : `payload, ${plural(message.data.length, 'byte')}, not JSON`
  line(io, paint(io, 'dim', what))
  const text = isJson ? JSON.stringify(payload.data, null, 2) : printable(message.data)
  for (const each of safeLines(text)) line(io, `  ${each}`)
  line(io)
}

/** A row whose attributes were damaged by hand is still shown, without them. */
function attributesOf({ message }: FailedMessage): MessageAttributes {
  try {
    return unpackAttributes(message)
  } catch {
    return unpackAttributes({ ...message, attributes: '{}' })
  }
}

function facts(found: FailedMessage): object {
  const { seq, origin, consumer, failedAt, attempts, reason, errorHash, held, message } = found
  const stub = stubOf(message)
  return {
    seq,
    [origin === 'outbox' ? 'relay' : 'consumer']: consumer,
    'failed at': when(failedAt),
    attempts,
    reason,
    'error hash': errorHash,
    ...(held && { held: 'it keeps its place, and later messages of its key wait behind it' }),
    ...(stub && { stub: stubText(stub, message.data.byteLength) }),
    ...(typeof stub?.sha256 === 'string' && { 'payload sha256': stub.sha256 }),
  }
}

function stubText({ bytes, why, escaped }: Stub, kept: number): string {
  const texts = escaped ? '; source, id, type and key are escaped' : ''
  const all = bytes === null ? 'bytes' : plural(bytes, 'byte')
  return `${kept} of the ${all} of its payload are kept${texts}${why === undefined ? '' : `: ${why}`}`
}

function fact(io: Io, name: string, value: string): void {
  line(io, `${paint(io, 'dim', safe(name).padEnd(15))} ${safe(value)}`)
}

function tellWhatToDo(
  found: FailedMessage,
  effects: readonly EffectRow[],
  editable: boolean,
  options: StoreOptions,
  io: Io,
): void {
  const { seq, reason, replacedBy, message, held } = found
  const stub = stubOf(message)
  // Nobody has to find out whether a webhook arrived: it is sent again under the same id.
  const unsettled = originOf(message.source) === undefined ? effects.filter(isUnsettled) : []
  const canRetry = reason !== 'conflict' && stub === undefined && unsettled.length === 0
  if (replacedBy !== null) {
    line(io, `an edit replaced it with ${safe(replacedBy)}; to follow the new message:`)
    line(io, `  ${command(`explain ${shellWord(safe(replacedBy))}`, options)}`)
    return
  }
  const hints: Hint[] = [...howToSettle(seq, unsettled, options)]
  // A retry cannot help if the id belongs to another message, if the payload is incomplete, or before an external call is settled.
  const checked = reason === 'broken-atomicity' ? ' --effects-checked' : ''
  if (checked !== '') line(io, 'its handler ended its transaction itself, or may have: check its effects first')
  if (canRetry) hints.push(['to retry it:', command(`failed retry ${seq}${checked}`, options)])
  // Under a new id, its external calls would be repeated.
  if (editable && !effects.some(isMade) && !stub?.escaped)
    hints.push(['to edit it:', command(`failed edit ${seq}${checked}`, options)])
  hints.push(['to discard it:', command(`failed discard ${seq}`, options)])
  if (held && message.key !== null)
    hints.push(['to release its key without it:', releaseCommand(found, message.key, options)])
  tellHints(hints, io)
}

function releaseCommand({ origin, consumer }: FailedMessage, key: string, options: StoreOptions): string {
  const scope = `--${origin === 'outbox' ? 'relay' : 'consumer'} ${shellWord(safe(consumer))}`
  return command(`keys release ${shellWord(safe(key))} ${scope}`, options)
}

function tellError(error: ErrorRecord, io: Io): void {
  const { code, stack } = error
  line(io, paint(io, 'red', safe(`${error.name}: ${error.message}`)) + (code === undefined ? '' : safe(` (${code})`)))
  for (const frame of safeLines(stack ?? '').filter((each) => /^\s+at /.test(each))) line(io, paint(io, 'dim', frame))
  tellCauses(error, io)
  if (error.onFailed === undefined) return
  line(io, safe(`onFailed failed as well and was rolled back: ${error.onFailed.name}: ${error.onFailed.message}`))
  tellCauses(error.onFailed, io)
}

function tellCauses(error: ErrorRecord, io: Io): void {
  let indent = '  '
  for (let cause = error.cause; cause !== undefined; cause = cause.cause) {
    const suffix = cause.code === undefined ? '' : ` (${cause.code})`
    line(io, safe(`${indent}because ${cause.name}: ${cause.message}${suffix}`))
    indent += '  '
  }
}

/** A failed message for programs, without its payload. */
export function summary(found: FailedMessage): object {
  const { seq, origin, consumer, failedAt, attempts, reason, error, errorHash, held, replacedBy, message } = found
  const { id, source, type, key } = message
  const { stack: _, ...short } = error
  const scope = { origin, consumer }
  const more = { held, replacedBy, stub: stubOf(message) ?? null }
  return { seq, failedAt, ...scope, id, source, type, key, attempts, reason, error: short, errorHash, ...more }
}
