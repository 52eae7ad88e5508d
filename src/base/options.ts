import { describe, HapaxError } from './errors.ts'

/** Isolation levels by their SQL names. */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

/** Throws `invalid-option` in the one sentence form of hapax: "expected leaseMs to be a positive integer, got -1". */
export function expected(name: string, what: string, got: unknown): never {
  throw new HapaxError('invalid-option', `expected ${name} to be ${what}, got ${describe(got)}`, {
    fields: { option: name },
  })
}

/** Timers and database settings have 31 bits for milliseconds. This leaves room for what is added to them. */
export const MAX_MS = 2_000_000_000

/** A whole number above zero, or the default where it is not given. */
export function positiveInteger(name: string, value: number | undefined, fallback: number): number {
  if (value === undefined) return fallback
  if (!Number.isSafeInteger(value) || value <= 0) expected(name, 'a positive integer', value)
  if (value > MAX_MS) expected(name, `at most ${MAX_MS}`, value)
  return value
}

/** A whole number, zero as well, or the default where it is not given. */
export function wholeNumber(name: string, value: number | undefined, fallback: number): number {
  if (value === 0) return 0
  if (value !== undefined && !(Number.isSafeInteger(value) && value > 0)) expected(name, 'a whole number', value)
  return positiveInteger(name, value, fallback)
}

/** A number of at least `least`, or the default where it is not given. */
export function numberFrom(
  name: string,
  least: number,
  value: number | undefined,
  fallback: number,
  most: number = MAX_MS,
): number {
  if (value === undefined) return fallback
  if (typeof value !== 'number' || !Number.isFinite(value) || value < least) {
    expected(name, `a number of at least ${least}`, value)
  }
  if (value > most) expected(name, `at most ${most}`, value)
  return value
}

/** One of the listed words, or the default where it is not given. */
export function oneOf<T extends string>(name: string, words: readonly T[], value: T | undefined, fallback: T): T {
  return value === undefined ? fallback : word(name, words, value)
}

/** One of the listed words. */
export function word<T extends string>(name: string, words: readonly T[], value: unknown): T {
  const found = words.find((each) => each === value)
  return found ?? expected(name, words.map((each) => `'${each}'`).join(' or '), value)
}

/** A string that is well-formed, not empty and at most `maxBytes` long in UTF-8. */
export function text(name: string, value: unknown, maxBytes = 255): string {
  if (!isText(value, maxBytes)) expected(name, `a non-empty, well-formed string of at most ${maxBytes} bytes`, value)
  return value
}

/** Whether a value is a non-empty well-formed string of at most this many bytes. */
export function isText(value: unknown, maxBytes: number): value is string {
  return (
    typeof value === 'string' &&
    value.length > 0 &&
    value.length <= maxBytes &&
    value.isWellFormed() &&
    // One UTF-16 unit is at most three bytes of UTF-8: most strings need no exact count.
    (value.length * 3 <= maxBytes || Buffer.byteLength(value) <= maxBytes)
  )
}

/** Control characters and direction marks: a name with them can pass for another one on a screen. */
const UNREADABLE = /[\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u

/** A text that people read as a name: of a consumer, a relay, a queue. */
export function nameText(name: string, value: unknown, maxBytes = 255): string {
  const checked = text(name, value, maxBytes)
  if (UNREADABLE.test(checked)) expected(name, 'a name without control characters and marks of direction', value)
  return checked
}

/** Whether a day such as 2026-02-28 is in the calendar: JavaScript takes February 30 for March 2. */
export function isDay(day: string): boolean {
  const time = Date.parse(`${day}T00:00Z`)
  return Number.isFinite(time) && new Date(time).toISOString().startsWith(day)
}

const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'] as const

/** An isolation level, or undefined. It becomes part of SQL text, so every place that inserts it checks it by this function. */
export function isolationOption(value: Isolation | undefined): Isolation | undefined {
  return value === undefined ? undefined : word('isolation', ISOLATIONS, value)
}

/** An object that can do this: a logger, a clock, a pool. */
export function able<T>(name: string, what: string, value: T, methods: readonly string[]): T {
  if (methods.some((method) => typeof fieldOf(value, method) !== 'function')) expected(name, what, value)
  return value
}

/** Reads a field of a value whose type is not known: undefined where the value is no object, or has no such field. */
export function fieldOf(value: unknown, name: PropertyKey): unknown {
  const has = typeof value === 'function' || (typeof value === 'object' && value !== null)
  return has ? Reflect.get(value, name) : undefined
}

/** A plain name for a table, a schema or a prefix; nothing else is ever put into SQL text. */
export function identifier(name: string, value: string): string {
  if (typeof value !== 'string' || !/^[a-z_][a-z0-9_]{0,47}$/.test(value)) {
    expected(name, 'a name of lower-case letters, digits and _, at most 48 long', value)
  }
  return value
}

/** Refuses names of options that do not exist: a misspelt option must not be silently ignored. */
export function noOthers(where: string, given: object, known: readonly string[]): void {
  object(where, given)
  const other = Object.keys(given).find((key) => !known.includes(key))
  if (other === undefined) return
  expected(
    where,
    known.length === 0 ? 'an object without options' : `an object with the options ${known.join(', ')}`,
    other,
  )
}

/**
 * Refuses a url that is named and undefined, where nothing is given in its place: a variable of the environment that is not set. The
 * options allow it, because the compiler knows every such variable as possibly undefined.
 */
export function refuseUnsetUrl(given: { readonly url?: unknown }, instead?: unknown, name = 'url'): void {
  if (!('url' in given) || given.url !== undefined || instead !== undefined) return
  const what = `expected ${name} to be a connection string, got undefined: is its environment variable set?`
  throw new HapaxError('invalid-option', what, { fields: { option: name } })
}

/** An object with options: no list, no map, no date, and no promise that was meant to be awaited. */
export function object(where: string, given: unknown, what = 'an object'): void {
  if (Object.prototype.toString.call(given) !== '[object Object]') expected(where, what, given)
}

/** True or false, or the default where it is not given. Other values that count as true or false were meant otherwise. */
export function flag(name: string, value: unknown, fallback: boolean): boolean {
  if (value === undefined) return fallback
  if (typeof value !== 'boolean') expected(name, 'true or false', value)
  return value
}

/** A function, or nothing. */
export function callback(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function') expected(name, 'a function', value)
}

/** A signal, or nothing. */
export function signalOption(name: string, value: AbortSignal | undefined): void {
  if (value === undefined) return
  const isSignal = typeof fieldOf(value, 'aborted') === 'boolean'
  if (!isSignal || typeof fieldOf(value, 'addEventListener') !== 'function') expected(name, 'an AbortSignal', value)
}

/** The longest span of time that databases can count back. */
export const MAX_SPAN_MS: number = 100 * 365 * 86_400_000

/** A span of days or years: longer than a timer can be set to. */
export function spanMs(name: string, value: unknown): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1 || value > MAX_SPAN_MS) {
    expected(name, `a whole number of milliseconds between 1 and ${MAX_SPAN_MS}`, value)
  }
  return value
}
