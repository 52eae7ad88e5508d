// What a row remembers of its failures, newest first: one line each, with the time and the attempt, which the store writes, and an entry,
// which the process that failed writes. The store only puts a line in front and cuts the end off, so that a text which is not a history,
// after a change by hand, hinders nobody.

import { type ErrorRecord, type Redact, recordError } from '../base/index.ts'
import { asciiJson } from './stub.ts'

/** How many failures of a message are remembered. */
export const REMEMBERED = 10

/** One failure of a message. */
export interface PastFailure {
  /** By the clock of the store. */
  readonly at: Date
  /** Which attempt it was; 0: no handler was called. */
  readonly attempt: number
  /** Host and process. */
  readonly worker: string
  /** `lost`: it used up no attempt. The database failed, the worker was stopped, or the process ended each time. */
  readonly kind?: 'lost'
  readonly name: string
  readonly code?: string
  readonly message: string
}

/** What a message has been through. */
export interface Past {
  /** How often it failed. */
  readonly failures: number
  /** The last ten failures, oldest first. */
  readonly history: readonly PastFailure[]
}

/** A message that never failed. */
const NO_PAST: Past = Object.freeze({ failures: 0, history: Object.freeze([]) })

const [MAX_WORKER, MAX_NAME, MAX_MESSAGE] = [100, 100, 300]

/** The entry of a failure: a JSON text in ASCII, on one line, which every store and every encoding takes. */
function historyEntry(worker: string, { name, code, message }: ErrorRecord, kind: PastFailure['kind']): string {
  return asciiJson(
    JSON.stringify({
      worker: cut(worker, MAX_WORKER),
      ...(kind !== undefined && { kind }),
      name: cut(name, MAX_NAME),
      ...(code !== undefined && { code: cut(code, MAX_NAME) }),
      message: cut(message, MAX_MESSAGE),
    }),
  )
}

/** A failure as it is written: the error in full for the row, and an entry for its history. */
export interface RecordedFailure {
  readonly error: ErrorRecord
  readonly entry: string
}

/** Turns an error into what is written of it; `hookError` is that of the `onFailed` hook. */
export function recordFailure(
  { worker, redact }: { readonly worker: string; readonly redact: Redact },
  thrown: Error,
  { kind, hookError }: { readonly kind?: PastFailure['kind'] | undefined; readonly hookError?: Error | undefined } = {},
): RecordedFailure {
  const record = recordError(thrown, redact)
  const error = hookError === undefined ? record : { ...record, onFailed: recordError(hookError, redact, 1) }
  return { error, entry: historyEntry(worker, error, kind) }
}

/** What a row remembers, as it is stored. */
export interface Remembered {
  readonly failures: number
  readonly history: string | null
}

/** With one more failure, for stores that do it themselves. */
export function remember({ failures, history }: Remembered, at: number, attempt: number, entry: string): Remembered {
  const before = history === null ? [] : history.split('\n')
  const lines = [`${at} ${attempt} ${entry}`, ...before].slice(0, REMEMBERED)
  return { failures: failures + 1, history: lines.join('\n') }
}

/** Reads a history. What is none, because another version or a person wrote it, is left out. */
export function pastOf({ failures, history }: Remembered): Past {
  if (history === null && failures === 0) return NO_PAST
  const read = (history ?? '').split('\n').slice(0, REMEMBERED).flatMap(readLine).reverse()
  return { failures: Math.max(Number.isSafeInteger(failures) ? failures : 0, read.length), history: read }
}

const LINE = /^(\d{1,15}) (\d{1,9}) (\{.*\})$/

function readLine(line: string): PastFailure[] {
  const [, at, attempt, entry] = LINE.exec(line) ?? []
  if (entry === undefined) return []
  try {
    const { worker, kind, name, code, message }: Partial<Record<string, unknown>> = JSON.parse(entry)
    return [
      {
        at: new Date(Number(at)),
        attempt: Number(attempt),
        worker: textOf(worker),
        ...(kind === 'lost' && { kind: 'lost' as const }),
        name: textOf(name) || 'Error',
        ...(typeof code === 'string' && { code }),
        message: textOf(message),
      },
    ]
  } catch {
    return []
  }
}

/** Never ends in half a character. */
function cut(text: string, length: number): string {
  const whole = text.toWellFormed()
  return whole.length <= length ? whole : `${whole.slice(0, length - 1).toWellFormed()}…`
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
