import { exactJson, expected, HapaxError } from '../../base/index.ts'
import type { EffectRow, FailedMessage, FailedWhere } from '../../contracts/index.ts'
import type {
  FailedQueryView,
  GroupsView,
  MessagesView,
  PostedCount,
  PostedEdit,
  PostedRetry,
  PostedSettle,
} from '../api.ts'
import {
  type Check,
  checkedFields,
  cursorField,
  type Fields,
  limitField,
  nameField,
  optional,
  originField,
  seqField,
  switchField,
  textField,
  timeField,
  trueField,
  wordField,
} from '../fields.ts'
import { seesExactly } from '../payload.ts'
import { Refusal } from '../problems.ts'
import { type Route, read, write } from '../route.ts'
import { failedRow, failedView, groupView, isLight, light } from '../views/rows.ts'
import { defined, named, nextOf } from './messages.ts'

/** Conditions on failed messages, by the names that the page has for them. */
interface Conditions {
  readonly origin?: 'inbox' | 'outbox' | undefined
  readonly scope?: string | undefined
  readonly type?: string | undefined
  readonly reason?: string | undefined
  readonly errorHash?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

const CONDITIONS: Fields<Conditions> = {
  origin: optional(originField),
  scope: optional(nameField),
  type: optional(textField),
  reason: optional(nameField),
  errorHash: optional(nameField),
  since: optional(timeField),
  until: optional(timeField),
} satisfies { [Name in keyof Required<FailedQueryView>]: unknown }

/** Conditions in the body of a change. */
export const whereField: Check<FailedWhere> = (name, value) => {
  if (Object.prototype.toString.call(value) !== '[object Object]') expected(name, 'an object with conditions', value)
  return whereOf(checkedFields<Conditions>(name, CONDITIONS, Object(value)))
}

function whereOf({ scope: consumer, ...others }: Conditions): FailedWhere {
  return defined({ consumer, ...others })
}

/** Exactly the fields that a body may have. */
export type Named<Body> = { readonly [Name in Exclude<keyof Body, 'note'>]-?: unknown }

interface Paged {
  readonly cursor?: string | undefined
  readonly limit?: number | undefined
}

const PAGED: Fields<Paged> = { cursor: optional(cursorField), limit: optional(limitField) }
const PAGE = 50
const MOST_GROUPS = 200
const BY_SEQ: Fields<{ seq: string }> = { seq: seqField }
/** The user's confirmation for a message that failed as `broken-atomicity`. */
export const CHECKED: Fields<{ effectsChecked?: true | undefined }> = { effectsChecked: optional(trueField) }
const OK = { ok: true } as const

export const failedRoutes: readonly Route[] = [
  read<Conditions & Paged, readonly FailedMessage[]>({
    path: 'api/failed',
    role: 'viewer',
    fields: { ...CONDITIONS, ...PAGED },
    load: async (hapax, { cursor, limit = PAGE, ...conditions }) => {
      const before = cursor === undefined ? {} : { before: seqField('cursor', cursor) }
      return (await hapax.failed.list({ ...whereOf(conditions), ...before, limit })).map(light)
    },
    view: (rows, seen, { limit = PAGE }): MessagesView => ({
      rows: rows.map((each) => failedRow(each, seen)),
      cursor: nextOf(rows, limit),
    }),
  }),
  read({
    path: 'api/failed/groups',
    role: 'viewer',
    fields: CONDITIONS,
    load: (hapax, conditions) => hapax.failed.groups({ ...whereOf(conditions), limit: MOST_GROUPS + 1 }),
    view: (groups, seen): GroupsView => ({
      groups: groups.slice(0, MOST_GROUPS).map((each) => groupView(each, seen)),
      more: groups.length > MOST_GROUPS,
    }),
  }),
  read<{ seq: string; whole?: true | undefined }, { row: FailedMessage; effects: readonly EffectRow[] }>({
    path: 'api/failed/:seq',
    role: 'viewer',
    fields: { ...BY_SEQ, whole: optional(switchField) },
    load: async (hapax, { seq }) => {
      const row = await hapax.failed.get(seq)
      if (row === undefined) throw gone(seq)
      return { row, effects: await hapax.failed.effects(seq) }
    },
    view: ({ row, effects }, seen, { whole }) => failedView(row, effects, seen, whole === true),
    keeps: ({ row }) => isLight(row.message),
    shows: ({ row: { origin, consumer, message } }) => ({ origin, consumer, ...named(message) }),
  }),
  write<{ where?: FailedWhere | undefined; all?: true | undefined }>({
    path: 'api/failed/count',
    role: 'viewer',
    harmless: true,
    fields: { where: optional(whereField), all: optional(trueField) } satisfies Named<PostedCount>,
    act: async (hapax, { where = {} }) => ({ count: await hapax.failed.count(where) }),
  }),
  write<{ seq: string } & Omit<PostedRetry, 'note'>>({
    path: 'api/failed/:seq/retry',
    role: 'operator',
    fields: { ...BY_SEQ, ...CHECKED },
    act: async (hapax, { seq, effectsChecked = false }, by) => {
      await hapax.failed.retry(seq, { ...by, effectsChecked })
      return OK
    },
  }),
  write({
    path: 'api/failed/:seq/discard',
    role: 'operator',
    fields: BY_SEQ,
    act: async (hapax, { seq }, by) => {
      await hapax.failed.discard(seq, by)
      return OK
    },
  }),
  write({
    path: 'api/failed/:seq/note',
    role: 'operator',
    fields: BY_SEQ,
    act: async (hapax, { seq }, by) => {
      const { note } = by
      if (note === undefined) expected('note', 'a text', note)
      await hapax.failed.note(seq, { ...by, note })
      return OK
    },
  }),
  write<{ seq: string } & Omit<PostedEdit, 'note'>>({
    path: 'api/failed/:seq/edit',
    role: 'admin',
    large: true,
    fields: { ...BY_SEQ, ...CHECKED, data: dataField },
    act: async (hapax, { seq, data, effectsChecked = false }, by, seen) => {
      const row = await hapax.failed.get(seq)
      if (row === undefined) throw gone(seq)
      if (!seesExactly(row.message, seen)) {
        throw new Refusal(403, 'redacted', 'Only who sees a payload as it is may replace it: the rest would be lost.')
      }
      return hapax.failed.edit(seq, data, { by, exact: true, effectsChecked })
    },
  }),
  write<{ seq: string } & Omit<PostedSettle, 'note'>>({
    path: 'api/failed/:seq/settle',
    role: 'admin',
    fields: {
      ...BY_SEQ,
      ...CHECKED,
      effect: nameField,
      state: wordField('done', 'not-done', 'retry'),
      result: optional(dataField),
    },
    act: async (hapax, { seq, effect, state, result, effectsChecked = false }, by) => {
      const value = result === undefined ? {} : { result: parsed(result) }
      await hapax.failed.settle(seq, { effect, as: state, ...value, by, effectsChecked })
      return OK
    },
  }),
]

/** The text of a payload, or of a result. */
function dataField(name: string, value: unknown): string {
  const fine = typeof value === 'string' && value.isWellFormed()
  return fine ? value : expected(name, 'a well-formed string', value)
}

function parsed(text: string): unknown {
  try {
    return (exactJson(text) ?? expected('result', 'JSON', text)).value
  } catch (error) {
    if (error instanceof RangeError) expected('result', `JSON with exact numbers (${error.message})`, text)
    throw error
  }
}

function gone(seq: string): HapaxError {
  return new HapaxError('not-found', `there is no failed message ${seq}`, { fields: { seq } })
}
