// The history of one message, put together from the traces it left in every table. Ends with what happens next, and with a command to
// paste if a person has to act.

import type { ErrorRecord } from '../../base/index.ts'
import { safe, shellWord } from '../../base/index.ts'
import type { EffectRow, HeldKey, Trace } from '../../contracts/index.ts'
import { inTimeOrder, keyRange, originOf } from '../../message/index.ts'
import { isScope } from '../../requests/index.ts'
import { type Addresses, addressesOf, deliveryEvent, endpointOf } from '../deliveries.ts'
import { EFFECT_STATES } from '../effects.ts'
import { type Moment, momentsOf } from '../history.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line, paint } from '../io/io.ts'
import { plural, span, when, widthOf } from '../io/text.ts'
import { type AddCommand, examples, withStore } from '../options.ts'
import { type AnyHapax, command, type StoreOptions, withEither } from '../store.ts'

/** Options of `hapax explain`. */
interface ExplainOptions extends StoreOptions {
  readonly source?: string
  readonly scan?: true
  readonly json?: true
}

/** Adds `hapax explain`. */
export const addExplain: AddCommand = (root, io, done) => {
  withStore(root.command('explain'))
    .argument('<id>', 'the id of the message')
    .description('Shows the history of one message: where it has been, where it is and what happens next.')
    .option('--source <source>', 'only the message from this source')
    .option('--scan', 'read all rows, to find an id whose source is not known')
    .addHelpText(
      'after',
      examples('hapax explain 019a8c3e-5b0e-7d44-9d3b-0f6f1f0c7a11', 'hapax explain order-17 --source /shop --json'),
    )
    .action(async (id, options) => done(await explain(id, options, io)))
}

/** One message: ids are only unique together with their source. */
interface Life {
  readonly source: string
  readonly traces: readonly Trace[]
  readonly waiting: readonly Waiting[]
  readonly next: readonly string[]
}

/** A place where the message waits, and why. */
interface Waiting {
  readonly where: 'inbox' | 'outbox'
  readonly scope: string
  readonly source: string
  readonly seq: string
  readonly why: string
}

async function explain(id: string, options: ExplainOptions, io: Io): Promise<number> {
  const { found, complete, waits, ...around } = await withEither(options, io, async (hapax) => {
    const traces = await tracesOf(hapax, id, options)
    const [held, addresses] = [await keysBefore(hapax, traces), await addressesOf(hapax, traces)]
    const waits = await waitingIn(hapax, traces)
    return { found: traces, held, addresses, waits, complete: isComplete(hapax, id, options) }
  })
  if (found.length === 0) throw unknown(id, options.source, complete)
  const lives = [...Map.groupBy(found, originIn)].map(([source, unsorted]): Life => {
    const traces = inTimeOrder(unsorted)
    const waiting = waits.filter((each) => originIn(each) === source)
    return { source, traces, waiting, next: traces.flatMap((trace) => nextOf(trace, traces, around, options) ?? []) }
  })
  if (options.json) json(io, { id, complete, messages: lives.map(document) })
  else {
    for (const [index, life] of lives.entries()) {
      if (index > 0) line(io)
      tell(id, life, around.addresses, io)
    }
    if (!complete) for (const sentence of ['', ...NOT_ALL]) line(io, paint(io, 'dim', sentence))
  }
  return 0
}

function tracesOf(hapax: AnyHapax, id: string, { source, scan }: ExplainOptions): Promise<readonly Trace[]> {
  return 'keys' in hapax ? hapax.explain(id, source, { scan: scan === true }) : hapax.explain(id, source)
}

/**
 * Whether every row was found. Rows are found by a key made of source and id; of a UUIDv7, the time in it is enough. Redis remembers all
 * sources, up to a limit.
 */
function isComplete(hapax: AnyHapax, id: string, { source, scan }: ExplainOptions): boolean {
  return !('keys' in hapax) || scan === true || source !== undefined || keyRange(id) !== undefined
}

const NOT_ALL = [
  'Only the sources in a sample of the rows were searched. To search another one, add --source <source>;',
  'to read all rows, add --scan.',
]

function unknown(id: string, source: string | undefined, complete: boolean): CliError {
  const from = source === undefined ? '' : ` from ${source}`
  return new CliError('not-found', `no message with the id ${id}${from} is known here`, [
    'it was never taken or published on this database, or its rows have been deleted: outbox rows once the',
    'broker has confirmed them (unless sent messages are kept), receipts once they are old enough',
    ...(complete ? [] : NOT_ALL),
  ])
}

/** The held keys that may block this message. */
async function keysBefore(hapax: AnyHapax, traces: readonly Trace[]): Promise<readonly HeldKey[]> {
  const waits = traces.some((each) => (each.where === 'inbox' || each.where === 'outbox') && each.key !== null)
  return waits && 'keys' in hapax ? hapax.keys.list({ limit: 1_000 }) : []
}

/** Why the message waits, in each place where it does. */
async function waitingIn(hapax: AnyHapax, traces: readonly Trace[]): Promise<readonly Waiting[]> {
  if (!('messages' in hapax)) return []
  const waiting: Waiting[] = []
  for (const trace of traces) {
    if (trace.where !== 'inbox' && trace.where !== 'outbox') continue
    const { where, seq, source } = trace
    const name = trace.where === 'inbox' ? trace.consumer : trace.relay
    waiting.push({ where, scope: name, source, seq, why: await hapax.messages.why(where, seq) })
  }
  return waiting
}

function document({ source, traces, waiting, next }: Life): object {
  return {
    source,
    type: traces[0]?.type,
    traceId: traceIdOf(traces),
    traces: traces.map(({ source: _, type: __, ...trace }) => trace),
    waiting: waiting.map(({ source: _, ...each }) => each),
    next: next.join(' '),
  }
}

/** The copy of an event for an endpoint belongs to the event. */
function originIn({ source }: { readonly source: string }): string {
  return originOf(source)?.source ?? source
}

/** What is known beside the traces. */
interface Around {
  readonly held: readonly HeldKey[]
  readonly addresses: Addresses
}

function tell(id: string, { source, traces, waiting, next }: Life, addresses: Addresses, io: Io): void {
  line(io, `${paint(io, 'bold', safe(id))}  ${safe(traces[0]?.type ?? '')} from ${safe(source)}`)
  const traceId = traceIdOf(traces)
  if (traceId !== undefined) line(io, `trace id ${traceId}`)
  line(io)
  const moments = inTimeOrder(traces.flatMap((trace) => momentsIn(trace, traces, addresses)))
  const width = Math.max(...moments.map(({ where }) => widthOf(where)))
  for (const { at, where, text } of moments) {
    const place = paint(io, STYLES.get(where) ?? 'cyan', where.padEnd(width))
    line(io, `  ${paint(io, 'dim', when(at))}  ${place}  ${safe(text)}`)
  }
  line(io)
  for (const sentence of next) line(io, safe(sentence))
  for (const { where, scope: name, why } of waiting) {
    line(io, safe(`Why it waits in the ${where} of ${name}: ${why}`))
  }
}

const STYLES: ReadonlyMap<string, 'red' | 'yellow'> = new Map([
  ['failed', 'red'],
  ['failure', 'yellow'],
])

/** A trace, and the failures that its place remembers. */
function momentsIn(
  trace: Trace,
  traces: readonly Trace[],
  addresses: Addresses,
): readonly (Moment & { readonly where: Trace['where'] | 'failure' })[] {
  const { where } = trace
  const endpoint = endpointOf(trace, addresses)
  // Attempts at a delivery stand before what became of it.
  const at = endpoint !== undefined && trace.where === 'effect' ? trace.effect.lastAt : trace.at
  const text = (endpoint && deliveryEvent(trace, endpoint, times)) ?? event(trace)
  return [{ at, where, text }, ...momentsOf(trace, traces).map((each) => ({ ...each, where: 'failure' as const }))]
}

/** The trace in which the message was published. A receipt does not have it: it is known while another row has the message. */
function traceIdOf(traces: readonly Trace[]): string | undefined {
  for (const each of traces) {
    const parent = 'traceparent' in each ? each.traceparent : null
    const [, traceId] = /^[\da-f]{2}-([\da-f]{32})-/.exec(parent ?? '') ?? []
    if (traceId !== undefined) return traceId
  }
  return undefined
}

function event(trace: Trace): string {
  switch (trace.where) {
    case 'outbox':
      return `written to the outbox for the relay ${trace.relay}${tries(trace)}`
    case 'sent':
      return `the relay ${trace.relay} sent it, and the broker confirmed it`
    case 'receipt':
      return `taken by ${trace.consumer}`
    case 'response':
      return `answered with ${trace.status}, which is sent again until ${when(trace.expiresAt)}`
    case 'inbox':
      return `put into the inbox of ${trace.consumer}${tries(trace)}`
    case 'claim':
      return `claimed for ${trace.consumer}${tries({ ...trace, heldAt: null })}`
    case 'failed':
      return `failed for ${scope(trace)} after ${times(trace.attempts)}: ${trace.reason}${because(trace.error)}`
    case 'effect':
      return effectEvent(trace.effect)
    case 'audit':
      return `${trace.actor} ${DEEDS.get(trace.action) ?? trace.action}${note(trace.note)}`
  }
}

function effectEvent({ name, state, attempts, result, error, lastAt }: EffectRow): string {
  if (name === '') return `notes: ${result ?? ''}`
  const more = state === 'done' && result ? `: ${result}` : because(error)
  return `external call '${name}', made ${plural(attempts, 'time')}, last at ${when(lastAt)}: ${EFFECT_STATES[state]}${more}`
}

const DEEDS: ReadonlyMap<string, string> = new Map([
  ['retry', 'retried it'],
  ['edit', 'replaced it with a message that has other data'],
  ['discard', 'discarded it'],
  ['release', 'released its key'],
  ['republish', 'republished it'],
  ['settle', 'settled an external call'],
  ['add', 'added it'],
  ['change', 'changed it'],
  ['remove', 'removed it'],
  ['import', 'imported receipts'],
  ['note', 'left a note'],
])

function note(text: string | null): string {
  return text === null ? '' : `: ${text}`
}

function scope({ origin, consumer }: { readonly origin: string; readonly consumer: string }): string {
  return origin === 'outbox' ? `the relay ${consumer}` : consumer
}

/** Nothing for a held message: its trace in the failed store says it. The errors are told by its history. */
function tries({
  attempts,
  error,
  heldAt,
  history,
}: Pick<Extract<Trace, { where: 'inbox' }>, 'attempts' | 'error' | 'heldAt' | 'history'>): string {
  if (attempts === 0 || heldAt !== null) return ''
  return `; ${times(attempts)} so far${history.length === 0 ? because(error) : ''}`
}

function because(error: ErrorRecord | null): string {
  return error === null ? '' : ` (${error.name}: ${error.message})`
}

function times(attempts: number): string {
  return attempts === 0 ? 'no attempts' : plural(attempts, 'attempt')
}

/** What happens next, in one sentence for each place the message is in. */
function nextOf(
  trace: Trace,
  traces: readonly Trace[],
  { held, addresses }: Around,
  options: StoreOptions,
): string | undefined {
  const endpoint = endpointOf(trace, addresses)
  switch (trace.where) {
    case 'outbox':
      if (trace.heldAt !== null) return undefined
      return (
        behind('outbox', trace.relay, trace.key, held, options) ??
        `Next, the relay ${trace.relay} sends it; the row stays until the broker has confirmed it.`
      )
    case 'inbox':
      if (trace.heldAt !== null) return undefined
      if (endpoint !== undefined) return `Next, a worker delivers it to ${endpoint}${due(trace.dueAt)}.`
      return behind('inbox', trace.consumer, trace.key, held, options) ?? afterInbox(trace, options)
    case 'claim':
      return afterClaim(trace)
    case 'failed':
      return afterFailed(trace, options, endpoint)
    case 'receipt':
      return endpoint !== undefined || isOpen(trace.consumer, traces) || hasResponse(trace.consumer, traces)
        ? undefined
        : `${trace.consumer} is done with it; another delivery is a duplicate and changes nothing.`
    case 'response':
      return isOpen(trace.consumer, traces) ? undefined : afterResponse(trace)
    case 'sent':
      return traces.at(-1) === trace && !traces.some(({ source }) => originOf(source) !== undefined)
        ? 'The broker has it. What consumers on other databases did with it is recorded there; this one only knows that it was sent.'
        : undefined
    case 'effect':
    case 'audit':
      return undefined
  }
}

/** A message behind a held one waits, even if it is due. */
function behind(
  origin: HeldKey['origin'],
  name: string,
  key: string | null,
  held: readonly HeldKey[],
  options: StoreOptions,
): string | undefined {
  const before = held.find((each) => each.origin === origin && each.scope === name && each.key === key)
  if (before === undefined) return undefined
  const look = command(`explain ${shellWord(safe(before.id))}`, options)
  return `It waits: ${before.id}, an earlier message of its key ${key}, failed for good and holds the key. To see why: ${look}`
}

function afterInbox(trace: Extract<Trace, { where: 'inbox' }>, options: StoreOptions): string {
  const { consumer, attempts, leased, dueAt } = trace
  if (leased && dueAt.getTime() > Date.now()) return inHand(consumer, `a worker of ${consumer}`, dueAt)
  const next = isScope(consumer)
    ? `another request with this key, or a worker of ${consumer},`
    : `a worker of ${consumer}`
  return `Next, ${next} ${attempts === 0 ? 'handles it' : 'retries it'}${due(dueAt)}.${now(trace, options)}`
}

/** How to have it tried at once. */
function now({ seq, attempts, dueAt }: Extract<Trace, { where: 'inbox' }>, options: StoreOptions): string {
  if (attempts === 0 || dueAt.getTime() <= Date.now()) return ''
  return ` To retry it now: ${command(`messages retry ${seq}`, options)}`
}

function afterClaim({ consumer, held, stored, attempts, dueAt }: Extract<Trace, { where: 'claim' }>): string {
  const again = isScope(consumer) ? 'another request with this key' : 'another delivery by its broker'
  const next = stored ? `a worker of ${consumer}` : again
  if (held) return inHand(consumer, next, dueAt)
  return `Next, ${next} ${attempts === 0 ? 'handles it' : 'retries it'}${due(dueAt)}.`
}

function inHand(consumer: string, next: string, dueAt: Date): string {
  return `A process of ${consumer} is working on it. If that process stops responding, ${next} takes over${due(dueAt)}.`
}

/** Reasons that a retry does not solve: what to do instead, and the command. */
const WAYS_OUT: ReadonlyMap<string, readonly [what: string, how: string]> = new Map([
  ['broken-atomicity', ['see what to check before a retry', 'show']],
  ['conflict', ['see why, and what can be done', 'show']],
  ['too-large', ['see what could be kept, and what can be done', 'show']],
  ['unstorable', ['see what could be kept, and what can be done', 'show']],
  ['unknown-effect', ['see which call it is, and settle it', 'show']],
  ['effect-result', ['see which call it is, and say what it returned', 'show']],
  ['reused-effect', ['see which calls were made, and give each a name of its own', 'show']],
])

function afterFailed(trace: Extract<Trace, { where: 'failed' }>, options: StoreOptions, endpoint?: string): string {
  const own = trace.origin === 'outbox' ? `The relay ${trace.consumer}` : trace.consumer
  const who = endpoint === undefined ? own : `For ${endpoint}, hapax`
  if (trace.replacedBy !== null) {
    const look = command(`explain ${shellWord(safe(trace.replacedBy))}`, options)
    return `An edit replaced it with ${trace.replacedBy}; this one is kept for reference. To follow the new message: ${look}`
  }
  const holds = trace.held ? ', and later messages of its key wait behind it' : ''
  const [what, how] = WAYS_OUT.get(trace.reason) ?? ['retry', 'retry']
  return `${who} does not retry it automatically${holds}. To ${what}: ${command(`failed ${how} ${trace.seq}`, options)}`
}

function hasResponse(consumer: string, traces: readonly Trace[]): boolean {
  return traces.some((each) => each.where === 'response' && each.consumer === consumer)
}

function afterResponse({ consumer, expiresAt }: Extract<Trace, { where: 'response' }>): string {
  return expiresAt.getTime() > Date.now()
    ? `${consumer} is done with it; another request with this key gets the same response.`
    : `The response of ${consumer} has expired: another request with this key is a new one.`
}

function isOpen(consumer: string, traces: readonly Trace[]): boolean {
  return traces.some(
    (each) =>
      (each.where === 'inbox' || each.where === 'claim' || (each.where === 'failed' && each.origin === 'inbox')) &&
      each.consumer === consumer,
  )
}

function due(at: Date): string {
  const ms = at.getTime() - Date.now()
  return ms <= 0 ? ', due now' : ` in ${span(ms)}`
}
