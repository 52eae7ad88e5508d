import { expected, flag, noOthers, spanMs, text, word } from '../base/index.ts'
import type { FailedWhere, SentWhere } from '../contracts/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'

/** Which rows a change to many of them is about: what the conditions say, or all of them, if that is said. */
export type Chosen<Where> = Where & {
  /** All there are; instead of conditions. */
  readonly all?: true
}

/** Throws if the value of a condition is not a possible one. */
type Check = (name: string, value: unknown) => unknown

/** How each condition is checked. */
type Checks<Where> = { readonly [Name in keyof Where]-?: Check }

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
  return chosen(where, FAILED, ({ all, ...conditions }) => conditions)
}

/** What a change to many published messages is about. */
export function chosenSent(where: Chosen<SentWhere>): SentWhere {
  return chosen(where, SENT, ({ all, ...conditions }) => conditions)
}

function checked<Where extends object>(where: Where, checks: Readonly<Record<string, Check>>): Where {
  noOthers('query', where, Object.keys(checks))
  const copy = { ...where }
  for (const [name, value] of Object.entries(where)) {
    // A condition without a value is none; stores go by the names that are there.
    if (value === undefined) Reflect.deleteProperty(copy, name)
    else checks[name]?.(name, value)
  }
  return copy
}

/**
 * Where rows are changed, nothing is guessed. A condition without a value is an error: left out, it would widen the change. And a change
 * to all rows has to be asked for by `all`, not by the absence of conditions.
 */
function chosen<Where extends object>(
  where: Chosen<Where>,
  checks: Readonly<Record<string, Check>>,
  conditionsOf: (where: Chosen<Where>) => Where,
): Where {
  noOthers('query', where, [...Object.keys(checks), 'all'])
  const { all } = where
  for (const [name, value] of Object.entries(where)) {
    if (value === undefined) expected(name, 'absent, or a value to look for', value)
  }
  if (all !== undefined && all !== true) expected('all', 'true, or absent', all)
  const which = checked(conditionsOf(where), checks)
  const count = Object.entries(which).filter(([name, value]) => name !== 'replaced' || value === true).length
  if (all && count > 0) expected('query', 'conditions or all: true', 'both')
  if (!all && count === 0) expected('query', 'an object with a condition, or all: true', 'neither')
  return which
}

/** Whose message, where that is said. */
export function sourceOption(source: string | undefined): string | undefined {
  return source === undefined ? undefined : text('source', source, MAX_TEXT_BYTES)
}
