import { hash } from 'node:crypto'
import { type Redact, redact } from './redact.ts'

/**
 * Every code that hapax throws, reports in an outcome or stores as the reason of a failed message.
 * `docs/errors.md` says for each what happened and what to do.
 */
export type ErrorCode =
  // settings and use
  | 'unsupported-node'
  | 'invalid-option'
  | 'duplicate-handler'
  | 'already-started'
  | 'not-started'
  | 'closed'
  | 'disabled'
  | 'client-missing'
  | 'client-broken'
  | 'client-too-old'
  | 'pool-too-small'
  | 'order-impossible'
  | 'retention-too-short'
  | 'relay-moved'
  | 'order-mismatch'
  | 'body-consumed'
  // messages
  | 'missing-id'
  | 'invalid-id'
  | 'invalid-message'
  | 'invalid-payload'
  | 'unknown-type'
  | 'too-large'
  | 'unstorable'
  | 'undecodable'
  | 'unencodable'
  | 'conflict'
  | 'expired'
  // publishing
  | 'not-in-transaction'
  | 'no-consumer'
  // the handler's transaction
  | 'broken-atomicity'
  | 'effects-unchecked'
  | 'transaction-aborted'
  | 'transaction-closed'
  | 'transaction-conflict'
  | 'transaction-lost'
  | 'unawaited-query'
  | 'outside-query'
  | 'unawaited-publish'
  | 'handler-timeout'
  | 'nested-transaction'
  | 'reentrant'
  // requests
  | 'invalid-response'
  | 'response-not-storable'
  // leased work
  | 'lease-lost'
  | 'unknown-effect'
  | 'unawaited-effect'
  | 'reused-effect'
  | 'effect-timeout'
  | 'effect-result'
  // giving up
  | 'permanent'
  | 'attempts-exhausted'
  | 'crash-loop'
  | 'infrastructure'
  | 'refused-by-broker'
  | 'given-up-by-broker'
  | 'endpoint-disabled'
  | 'endpoint-removed'
  // brokers
  | 'broker-timeout'
  | 'broker-unavailable'
  | 'broker-blocked'
  | 'broker-refused'
  | 'consumer-timeout'
  | 'unroutable'
  | 'topology-mismatch'
  // webhooks
  | 'forbidden-url'
  | 'forbidden-address'
  | 'endpoint-unavailable'
  | 'endpoint-refused'
  | 'unusable-secret'
  // the store
  | 'busy'
  | 'commit-unknown'
  | 'store-unavailable'
  | 'schema-missing'
  | 'schema-outdated'
  | 'schema-newer'
  | 'unsupported-server'
  | 'unsupported-sql-mode'
  | 'schema-drift'
  | 'unrecognised-result'
  | 'not-found'
  | 'not-whole'

/** The one error class of hapax: branch on `code`, never on the message. */
export class HapaxError extends Error {
  override readonly name = 'HapaxError'
  readonly code: ErrorCode
  readonly fields: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; fields?: Record<string, unknown> } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.fields = Object.freeze({ ...options.fields })
  }
}

/** The error of a store that is used after it was closed. */
export function storeClosed(): HapaxError {
  return new HapaxError('closed', 'this store has been closed')
}

/** Thrown by a handler: this message will never succeed; it goes to the failed store at once. */
export class Permanent extends Error {
  override readonly name = 'Permanent'
}

/** Thrown by a handler: try again, but not before this many milliseconds. */
export class RetryAfter extends Error {
  override readonly name: string = 'RetryAfter'
  readonly delayMs: number

  constructor(delayMs: number, message: string = `try again in ${String(delayMs)} ms`, options?: ErrorOptions) {
    super(message, options)
    this.delayMs = delayMs
  }
}

/** Thrown inside an outside call that certainly did not happen. Elsewhere it is an error like any other. */
export class NotDone extends Error {
  override readonly name = 'NotDone'
}

/** Whether a value is a HapaxError with this code. */
export function isHapaxError(error: unknown, code?: ErrorCode): error is HapaxError {
  return isError(error) && error instanceof HapaxError && (code === undefined || error.code === code)
}

/** A thrown value as an Error. */
export function asError(thrown: unknown): Error {
  if (isError(thrown)) return thrown
  return new Error(`a handler threw ${describe(thrown)}`, { cause: thrown })
}

// A handler may throw anything, even a proxy whose getters throw. That must not keep its failure from being recorded.

function isError(value: unknown): value is Error {
  try {
    return value instanceof Error
  } catch {
    return false
  }
}

function field(error: Error, name: 'name' | 'message' | 'code' | 'stack' | 'cause'): unknown {
  try {
    return Reflect.get(error, name)
  } catch {
    return undefined
  }
}

/** An error's message as it may be logged: a text in any case, without credentials. */
export function messageOf(error: Error): string {
  return shown(field(error, 'message'), MAX_MESSAGE)
}

/** Why something failed. If a name has several addresses and all refuse, Node.js throws an AggregateError with an empty message. */
export function reasonOf(thrown: unknown): string {
  const error = asError(thrown)
  const message = field(error, 'message')
  if (typeof message === 'string' && message !== '') return message
  if (error instanceof AggregateError) return [...new Set(error.errors.map(reasonOf))].join(', ')
  return String(field(error, 'code') ?? error.name)
}

/** An error as it is stored: name, code and message of the whole cause chain, without credentials, capped. */
export interface ErrorRecord {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly stack?: string
  readonly cause?: ErrorRecord
  /** The error of the `onFailed` hook that was to commit with this failure, and was rolled back. */
  readonly onFailed?: ErrorRecord
}

const MAX_MESSAGE = 1000
const MAX_STACK = 2000
const MAX_CAUSES = 5

/** Turns an error into what may be stored and shown; `also` are the user's own rules. */
export function recordError(thrown: unknown, also: Redact, depth = 0): ErrorRecord {
  const text = (value: unknown, length: number): string => also(shown(value, length)).slice(0, length)
  const error = asError(thrown)
  const code = field(error, 'code')
  const cause = field(error, 'cause')
  const stack = depth === 0 ? field(error, 'stack') : undefined
  return {
    name: text(field(error, 'name') ?? 'Error', 100),
    message: text(field(error, 'message'), MAX_MESSAGE),
    ...(typeof code === 'string' || typeof code === 'number' ? { code: text(code, 100) } : {}),
    ...(typeof stack === 'string' && stack !== '' ? { stack: text(stack, MAX_STACK) } : {}),
    ...(isError(cause) && depth < MAX_CAUSES ? { cause: recordError(cause, also, depth + 1) } : {}),
  }
}

/** What is logged of an error. */
interface ErrorFields {
  readonly error: string
  readonly code?: string
  readonly stack?: string
}

/** An error as it is logged: message and code. */
export function errorFields(error: Error): ErrorFields {
  const { message, code } = recordError(error, (text) => text)
  return { error: message, ...(code !== undefined && { code }) }
}

/**
 * An error of the user's code as it is logged: with where it was thrown, and what caused it. Where hapax itself refused something, its own
 * stack leads nowhere.
 */
export function faultFields(error: Error): ErrorFields {
  const stack = stackOf(error)
  return { ...errorFields(error), ...(stack !== undefined && { stack }) }
}

function stackOf(error: Error): string | undefined {
  const cause = field(error, 'cause')
  if (error instanceof HapaxError) return isError(cause) ? stackOf(cause) : undefined
  const { stack, ...record } = recordError(error, (text) => text)
  const lines = [stack ?? `${record.name}: ${record.message}`]
  for (let each = record.cause; each !== undefined; each = each.cause) {
    const code = each.code === undefined ? '' : ` (${each.code})`
    lines.push(`caused by ${each.name}: ${each.message}${code}`)
  }
  return lines.join('\n')
}

/** What differs between errors of the same cause: UUIDs, quoted parts, runs of hexadecimal digits, numbers. */
const PARTICULARS =
  /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|"[^"]{0,1000}"|'[^']{0,1000}'|`[^`]{0,1000}`|\b0x[0-9a-f]+\b|\b(?=[a-f]{0,63}\d)[0-9a-f]{6,}\b|\d+/gi

/** 16 hexadecimal digits that are equal for errors that differ only in numbers, ids and quoted values. */
export function errorHash({ name, code, message }: ErrorRecord): string {
  const alike = JSON.stringify([name, code ?? null, message.replace(PARTICULARS, '#')])
  return hash('sha256', alike, 'hex').slice(0, 16)
}

/** Cut before and after redaction: before, to search less; after, because redaction shortens the text. */
function shown(value: unknown, length: number): string {
  const text = typeof value === 'string' ? value : describe(value)
  const searched = 4 * length
  const clean = redact(text.slice(0, searched))
  // A secret that was cut in the middle cannot be recognised, and half a password is still a secret: drop the last word.
  const whole = text.length <= searched || clean.length >= length ? clean : clean.replace(/\S{0,4000}$/, '…')
  return whole.slice(0, length)
}

/** How much of a text is searched for credentials before it is cut to fit into a message. */
const SEARCHED = 4_000

/** A value for an error message: short, on one line, without credentials. */
export function describe(value: unknown): string {
  let text = 'something that cannot be shown'
  try {
    text = typeof value === 'string' ? JSON.stringify(redact(value.slice(0, SEARCHED))) : describeValue(value)
  } catch {
    // A proxy or a getter that throws.
  }
  return text.length > 80 ? `${text.slice(0, 77)}...` : text
}

function describeValue(value: unknown): string {
  if (typeof value === 'function') return `function ${value.name || '(anonymous)'}`
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'object' && value !== null) {
    if (Array.isArray(value)) return `an array of ${value.length}`
    if (value instanceof Uint8Array) return `${value.byteLength} bytes`
    return `an object${value.constructor && value.constructor !== Object ? ` (${value.constructor.name})` : ''}`
  }
  return String(value)
}

/** The error for a handle whose transaction has settled. */
export function transactionClosed(): HapaxError {
  return new HapaxError('transaction-closed', 'this transaction has settled; its handle cannot be used any more')
}

/** Whether the store can never take a message. That is not an outage: a retry would fail in the same way. */
export function isRefusal(error: unknown): error is HapaxError {
  return isHapaxError(error, 'unstorable') || isHapaxError(error, 'too-large')
}

/** The error of a message that the store can never take. */
export function unstorable(cause: unknown): HapaxError {
  return new HapaxError('unstorable', `the store cannot take this message: ${messageOf(asError(cause))}`, { cause })
}

/** A value that the steps before it guarantee. If it is missing, this error names it, instead of one that follows from it later. */
export function present<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Error(`expected ${what} to be there: this is a defect of hapax`)
  return value
}
