import { expected, flag, noOthers, spanMs, text, word } from '../base/index.ts'
import type { FailedWhere, SentWhere } from '../contracts/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'

/** Which rows a change to many of them is about: what the conditions say, or all of them, if that is said. */
export type Chosen<Where> = Where & {
  /** All there are; instead of conditions. */
  readonly all?: true
}

/** How one condition is checked. */
type Checks<Where> = { readonly [Name in keyof Where]-?: (name: string, value: never) => unknown }

const scopeName = (name: string, value: unknown): string => text(name, value)
const typeName = (name: string, value: unknown): string => text(name, value, MAX_TEXT_BYTES)

const FAILED: Checks<FailedWhere> = {
  origin: (name, value) => word(name, ['inbox', 'outbox'], value),
  consumer: scopeName,
  type: typeName,
  reason: scopeName,
  errorHash: scopeName,
  olderThanMs: spanMs,
  newerThanMs: spanMs,
  replaced: (name, value) => flag(name, value, false),
}

const SENT: Checks<SentWhere> = { relay: scopeName, type: typeName, olderThanMs: spanMs, newerThanMs: spanMs }

/** Conditions on failed messages, checked; a copy, because the caller may go on changing its own. */
export function failedWhere(where: FailedWhere): FailedWhere {
  return checked(where, FAILED)
}

/** Conditions on published messages, checked. */
export function sentWhere(where: SentWhere): SentWhere {
  return checked(where, SENT)
}

/** What a change to many failed messages is about. */
export function chosenFailed(where: Chosen<FailedWhere>): FailedWhere {
  return chosen(where, FAILED)
}

/** What a change to many published messages is about. */
export function chosenSent(where: Chosen<SentWhere>): SentWhere {
  return chosen(where, SENT)
}

function checked<Where extends object>(where: Where, checks: Checks<Where>): Where {
  noOthers('query', where, Object.keys(checks))
  const given = Object.entries(where).filter(([, value]) => value !== undefined)
  for (const [name, value] of given) checks[name as keyof Where](name, value as never)
  return Object.fromEntries(given) as Where
}

/**
 * Where rows are changed, nothing is left to be guessed: a condition without a value is a mistake of the caller's, and without any
 * condition it takes a word to mean everything.
 */
function chosen<Where extends object>(where: Chosen<Where>, checks: Checks<Where>): Where {
  noOthers('query', where, [...Object.keys(checks), 'all'])
  const { all, ...conditions } = where
  for (const [name, value] of Object.entries(where)) {
    if (value === undefined) expected(name, 'absent, or a value to look for', value)
  }
  if (all !== undefined && all !== true) expected('all', 'true, or absent', all)
  const which = checked(conditions as unknown as Where, checks)
  const count = Object.entries(which).filter(([name, value]) => name !== 'replaced' || value === true).length
  if (all && count > 0) expected('query', 'conditions or all: true', 'both')
  if (!all && count === 0) expected('query', 'an object with a condition, or all: true', 'neither')
  return which
}

/** Whose message, where that is said. */
export function sourceOption(source: string | undefined): string | undefined {
  return source === undefined ? undefined : text('source', source, MAX_TEXT_BYTES)
}
