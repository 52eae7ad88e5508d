import { expected, HapaxError } from '../../base/index.ts'
import type { FailedWhere } from '../../contracts/index.ts'
import type { OperationsView, PostedOperation } from '../api.ts'
import {
  cursorField,
  type Fields,
  limitField,
  optional,
  rateField,
  trueField,
  uuidField,
  wordField,
} from '../fields.ts'
import type { ConsoleHapax } from '../hapax.ts'
import { type Route, read, type WriteRoute, write } from '../route.ts'
import { operationView } from '../views/rows.ts'
import { CHECKED, type Named, whereField } from './failed.ts'

const BY_ID: Fields<{ id: string }> = { id: uuidField }
const PAGE = 20

interface Posted {
  readonly kind: 'retry' | 'discard'
  readonly where?: FailedWhere | undefined
  readonly all?: true | undefined
  readonly perSecond?: number | undefined
  readonly id?: string | undefined
  readonly effectsChecked?: true | undefined
}

export const operationRoutes: readonly Route[] = [
  read<{ cursor?: string | undefined; limit?: number | undefined }, Awaited<ReturnType<Operations['list']>>>({
    path: 'api/operations',
    role: 'viewer',
    fields: { cursor: optional(cursorField), limit: optional(limitField) },
    load: (hapax, { cursor, limit = PAGE }) => {
      const before = cursor === undefined ? {} : { before: uuidField('cursor', cursor) }
      return hapax.operations.list({ ...before, limit })
    },
    view: (operations, seen, { limit = PAGE }): OperationsView => ({
      operations: operations.map((each) => operationView(each, seen)),
      cursor: operations.length < limit ? null : (operations.at(-1)?.id ?? null),
    }),
  }),
  read({
    path: 'api/operations/:id',
    role: 'viewer',
    fields: BY_ID,
    load: async (hapax, { id }) => {
      const operation = await hapax.operations.get(id)
      if (operation === undefined) throw new HapaxError('not-found', `there is no operation ${id}`, { fields: { id } })
      return operation
    },
    view: (operation, seen) => operationView(operation, seen),
  }),
  write<Posted>({
    path: 'api/operations',
    role: 'operator',
    // What is discarded is gone.
    roleFor: ({ kind }) => (kind === 'discard' ? 'admin' : 'operator'),
    fields: {
      kind: wordField('retry', 'discard'),
      where: optional(whereField),
      all: optional(trueField),
      perSecond: optional(rateField),
      id: optional(uuidField),
      ...CHECKED,
    } satisfies Named<PostedOperation>,
    act: async (hapax, { kind, where = {}, all, perSecond, id, effectsChecked = false }, by, seen) => {
      const chosen = all ? { all } : { where }
      if (all && Object.keys(where).length > 0) expected('where', 'empty beside all: true', where)
      if (!all && Object.keys(where).length === 0) expected('where', 'conditions, or all: true', where)
      const how = { ...(perSecond !== undefined && { perSecond }), ...(id !== undefined && { id }), by }
      const begun = await hapax.operations.begin({ kind, ...chosen, ...how, effectsChecked })
      seen.help(begun.id)
      return operationView(begun, seen)
    },
  }),
  ...(['pause', 'resume', 'cancel'] as const).map(
    (verb): WriteRoute =>
      write<{ id: string }>({
        path: `api/operations/:id/${verb}`,
        role: 'operator',
        fields: BY_ID,
        act: async (hapax, { id }, by, seen) => {
          await hapax.operations[verb](id, by)
          if (verb === 'resume') seen.help(id)
          return { ok: true }
        },
      }),
  ),
]

type Operations = ConsoleHapax['operations']
