import { AUDIT_ACTIONS } from '../../admin/index.ts'
import type { Audit } from '../../contracts/index.ts'
import type { AuditView, EffectsView, KeysView, PostedRelease } from '../api.ts'
import {
  cursorField,
  limitField,
  nameField,
  optional,
  originField,
  textField,
  timeField,
  wordField,
} from '../fields.ts'
import type { ConsoleHapax } from '../hapax.ts'
import { type Route, read, type WriteRoute, write } from '../route.ts'
import { auditRow, effectView } from '../views/rows.ts'

const OK = { ok: true } as const
const PAGE = 50
const MOST_KEYS = 200
/** How long rows are looked for in tables that have no index for it. */
const LOOK_MS = 150

interface EffectSearch {
  readonly state?: 'started' | 'done' | 'not-done' | 'unknown' | undefined
  readonly scope?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
  readonly cursor?: string | undefined
  readonly limit?: number | undefined
}

interface AuditSearch {
  readonly actor?: string | undefined
  readonly action?: Audit['action'] | undefined
  readonly scope?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
  readonly cursor?: string | undefined
  readonly limit?: number | undefined
}

type EffectsFound = Awaited<ReturnType<ConsoleHapax['effects']['list']>>
type AuditFound = Awaited<ReturnType<ConsoleHapax['audit']['list']>>

export const otherRoutes: readonly Route[] = [
  read<EffectSearch, EffectsFound>({
    path: 'api/effects',
    role: 'viewer',
    fields: {
      state: optional(wordField('started', 'done', 'not-done', 'unknown')),
      scope: optional(nameField),
      since: optional(timeField),
      until: optional(timeField),
      cursor: optional(cursorField),
      limit: optional(limitField),
    },
    load: (hapax, { state, scope: consumer, since, until, cursor, limit = PAGE }) => {
      const after = cursor === undefined ? {} : { after: cursor }
      const signal = AbortSignal.timeout(LOOK_MS)
      return hapax.effects.list({ state, consumer, since, until, ...after, limit, signal })
    },
    view: ({ rows, after }, seen): EffectsView => ({
      rows: rows.map((each) => effectView(each, null, seen)),
      cursor: after ?? null,
    }),
  }),
  read({
    path: 'api/keys',
    role: 'viewer',
    fields: {},
    load: (hapax) => hapax.keys.list({ limit: MOST_KEYS + 1 }),
    view: (keys): KeysView => ({
      more: keys.length > MOST_KEYS,
      keys: keys.slice(0, MOST_KEYS).map(({ origin, scope, key, id, failedSeq, heldAt, waiting }) => ({
        origin,
        scope,
        key,
        id,
        seq: failedSeq,
        heldAt: heldAt.toISOString(),
        waiting,
      })),
    }),
  }),
  write<Omit<PostedRelease, 'note'>>({
    path: 'api/keys/release',
    role: 'operator',
    fields: { origin: originField, scope: nameField, key: textField },
    act: async (hapax, held, by) => {
      await hapax.keys.release(held, by)
      return OK
    },
  }),
  ...(['consumers', 'relays'] as const).flatMap((kind) => [pausing(kind, 'pause'), pausing(kind, 'resume')]),
  read<AuditSearch, AuditFound>({
    path: 'api/audit',
    role: 'viewer',
    fields: {
      actor: optional(nameField),
      action: optional(wordField(...AUDIT_ACTIONS)),
      scope: optional(nameField),
      since: optional(timeField),
      until: optional(timeField),
      cursor: optional(cursorField),
      limit: optional(limitField),
    },
    load: async (hapax, { cursor, limit = PAGE, ...where }) => {
      const before = cursor === undefined ? {} : { before: cursor }
      return hapax.audit.list({ ...where, ...before, limit, signal: AbortSignal.timeout(LOOK_MS) })
    },
    view: ({ rows, before }, seen): AuditView => ({
      rows: rows.map((each) => auditRow(each, seen)),
      cursor: before ?? null,
    }),
  }),
]

function pausing(kind: 'consumers' | 'relays', verb: 'pause' | 'resume'): WriteRoute {
  return write<{ name: string }>({
    path: `api/${kind}/:name/${verb}`,
    role: 'operator',
    fields: { name: nameField },
    act: async (hapax, { name }, by) => {
      await hapax[kind][verb](name, by)
      return OK
    },
  })
}
