// What may come in a query, a path or a body: each field with its check. What no check is written for is refused.

import { expected, fieldOf, isDay, nameText, noOthers, text, word } from '../base/index.ts'
import { isSeq, MAX_TEXT_BYTES } from '../message/index.ts'

/** Returns the value of a field, or throws `invalid-option`. Undefined: it was not sent. */
export type Check<T> = (name: string, value: unknown) => T

/** The fields of a request, each with its check. */
export type Fields<P> = { readonly [Name in keyof P]-?: Check<P[Name]> }

/** The checked fields of what came from outside. Those that were not sent, and need not be, are left out. */
export function checkedFields<P extends object>(where: string, fields: Fields<P>, given: object): P {
  noOthers(where, given, Object.keys(fields))
  const found: Partial<P> = {}
  for (const name in fields) {
    const value = fields[name](name, fieldOf(given, name))
    if (value !== undefined) found[name] = value
  }
  // Every check has returned what its field may be: undefined, too, where it may be left out.
  return found as P
}

/** A field that may be left out. */
export function optional<T>(check: Check<T>): Check<T | undefined> {
  return (name, value) => (value === undefined ? undefined : check(name, value))
}

/** The name of a consumer, a relay, an actor, a reason. */
export const nameField: Check<string> = (name, value) => nameText(name, value)

/** A type, a key, an id, a source. */
export const textField: Check<string> = (name, value) => text(name, value, MAX_TEXT_BYTES)

/** Where a page begins: whatever the page before said. */
export const cursorField: Check<string> = (name, value) => text(name, value, 4_000)

/** The number of a row, as a text. */
export const seqField: Check<string> = (name, value) => (isSeq(value) ? value : expected(name, SEQ, value))
const SEQ = 'the seq of a row, such as 12-3456'

/** A UUID, as operations have one. */
export const uuidField: Check<string> = (name, value) =>
  typeof value === 'string' && UUID.test(value) ? value : expected(name, 'a UUID', value)
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** One of these words. */
export function wordField<T extends string>(...words: readonly T[]): Check<T> {
  return (name, value) => word(name, words, value)
}

/** Where rows wait. */
export const originField: Check<'inbox' | 'outbox'> = wordField('inbox', 'outbox')

/** A time as ISO 8601 writes it, as `Date.toJSON` does. */
export const timeField: Check<Date> = (name, value) => {
  const time =
    typeof value === 'string' && ISO.test(value) && isDay(value.slice(0, 10)) ? Date.parse(value) : Number.NaN
  return Number.isFinite(time) ? new Date(time) : expected(name, 'a time such as 2026-01-31T12:00:00.000Z', value)
}
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/

/** How many rows a page has. */
export const limitField: Check<number> = (name, value) => {
  const fine = typeof value === 'string' && /^[1-9]\d{0,2}$/.test(value) && Number(value) <= MAX_PAGE
  return fine ? Number(value) : expected(name, `a whole number from 1 to ${MAX_PAGE}`, value)
}
const MAX_PAGE = 200

/** `1` in a query. */
export const switchField: Check<true> = (name, value) => (value === '1' ? true : expected(name, '1, or absent', value))

/** `true` in a body. */
export const trueField: Check<true> = (name, value) =>
  value === true ? true : expected(name, 'true, or absent', value)

/** The note of a change, for the audit. */
export const noteField: Check<string> = (name, value) => text(name, value, 1_000)

/** A rate in a body. */
export const rateField: Check<number> = (name, value) => {
  const fine = typeof value === 'number' && value >= 0.001 && value <= 1_000_000
  return fine ? value : expected(name, 'a rate per second, from 0.001 to 1000000', value)
}
