// Conditions that select failed and published messages, checked once for lists and for changes.

import { expected, flag, noOthers, spanMs, text, word } from '../base/index.ts'
import type { FailedWhere, SentWhere } from '../contracts/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'

/** Selects the rows of a change to many: by conditions, or explicitly all of them. */
export type Chosen<Where> = Where & {
  /** All rows; instead of conditions. */
  readonly all?: true
}

/** Throws if the value of a condition is not valid. */
type Check = (name: string, value: unknown) => unknown

/** How each condition is checked. */
type Checks<Where> = { readonly [Name in keyof Where]-?: Check }

const scopeName = (name: string, value: unknown): string => text(name, value)
const typeName = (name: string, value: unknown): string => text(name, value, MAX_TEXT_BYTES)

const time = (name: string, value: unknown): Date =>
  value instanceof Date && Number.isFinite(value.getTime()) ? value : expected(name, 'a date', value)

const FAILED: Checks<FailedWhere> = {
  origin: (name, value) => word(name, ['inbox', 'outbox'], value),
  consumer: scopeName,
  type: typeName,
  reason: scopeName,
  errorHash: scopeName,
  olderThanMs: spanMs,
  newerThanMs: spanMs,
  since: time,
  until: time,
  replaced: (name, value) => flag(name, value, false),
}

const SENT: Checks<SentWhere> = {
  relay: scopeName,
  type: typeName,
  olderThanMs: spanMs,
  newerThanMs: spanMs,
  since: time,
  until: time,
}

/** Checked conditions on failed messages. A copy, because the caller may change its own later. */
export function failedWhere(where: FailedWhere): FailedWhere {
  return checked(where, FAILED)
}

/** Checked conditions on published messages. */
export function sentWhere(where: SentWhere): SentWhere {
  return checked(where, SENT)
}

/** The failed messages that a change selects. */
export function chosenFailed(where: Chosen<FailedWhere>): FailedWhere {
  return chosen(where, FAILED, ({ all, ...conditions }) => conditions)
}

/** The published messages that a change selects. */
export function chosenSent(where: Chosen<SentWhere>): SentWhere {
  return chosen(where, SENT, ({ all, ...conditions }) => conditions)
}

function checked<Where extends object>(where: Where, checks: Readonly<Record<string, Check>>): Where {
  noOthers('query', where, Object.keys(checks))
  const copy = { ...where }
  for (const [name, value] of Object.entries(where)) {
    // In a list, a condition without a value means no condition. Stores look at the names that are present.
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

/** Checks the optional source of a message. */
export function sourceOption(source: string | undefined): string | undefined {
  return source === undefined ? undefined : text('source', source, MAX_TEXT_BYTES)
}
