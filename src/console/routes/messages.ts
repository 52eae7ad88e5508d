import { expected } from '../../base/index.ts'
import type { AuditSubject, Origin, Trace, WaitingState } from '../../contracts/index.ts'
import { keyRange, originOf, type StoredMessage } from '../../message/index.ts'
import type { LifeView, MessagesView, Place, RetriedView, RetriesView, RowView } from '../api.ts'
import {
  cursorField,
  limitField,
  nameField,
  optional,
  originField,
  seqField,
  switchField,
  textField,
  timeField,
  wordField,
} from '../fields.ts'
import type { ConsoleHapax } from '../hapax.ts'
import { payloadView } from '../payload.ts'
import { type Route, read, type Seen, write } from '../route.ts'
import { momentsOf, scopeOf, traceIdOf } from '../views/life.ts'
import { effectView, failedRow, idView, isLight, light, receiptRow, sentRow, waitingRow } from '../views/rows.ts'

interface Search {
  readonly place: Place
  readonly scope?: string | undefined
  readonly type?: string | undefined
  readonly key?: string | undefined
  readonly id?: string | undefined
  readonly state?: WaitingState | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
  readonly cursor?: string | undefined
  readonly limit?: number | undefined
}

interface Retrying {
  readonly origin: Origin
  readonly scope?: string | undefined
  readonly type?: string | undefined
  readonly key?: string | undefined
  readonly id?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

/** Rows of any place, before it is known who looks at them. */
interface Found {
  readonly rows: readonly ((seen: Seen) => RowView)[]
  readonly cursor: string | null
}

/** How long a request may retry messages. The person repeats it for the others. */
const RETRY_MS = 10_000
const PAGE = 50
const MOST = 100

export const messageRoutes: readonly Route[] = [
  read<Search, Found>({
    path: 'api/messages',
    role: 'viewer',
    fields: {
      place: wordField('inbox', 'outbox', 'failed', 'sent', 'receipts'),
      scope: optional(nameField),
      type: optional(textField),
      key: optional(textField),
      id: optional(textField),
      state: optional(wordField('waiting', 'retrying', 'held', 'leased')),
      since: optional(timeField),
      until: optional(timeField),
      cursor: optional(cursorField),
      limit: optional(limitField),
    },
    load: (hapax, search) => found(hapax, search),
    view: ({ rows, cursor }, seen): MessagesView => ({ rows: rows.map((each) => each(seen)), cursor }),
  }),
  read<{ id: string; source?: string | undefined; scan?: true | undefined; whole?: true | undefined }, Life>({
    path: 'api/message',
    role: 'viewer',
    fields: { id: textField, source: optional(textField), scan: optional(switchField), whole: optional(switchField) },
    load: (hapax, { id, source, scan }) => lifeOf(hapax, id, source, scan === true),
    view: (life, seen, { id, whole }) => lifeView(life, seen, id, whole === true),
    keeps: ({ message }) => message === undefined || isLight(message),
    shows: ({ message }) => message && named(message),
  }),
  read({
    path: 'api/retries',
    role: 'viewer',
    fields: {},
    load: async (hapax) => {
      const inbox = await hapax.messages.retries({ origin: 'inbox', limit: MOST + 1 })
      const outbox = await hapax.messages.retries({ origin: 'outbox', limit: MOST + 1 })
      return [...inbox, ...outbox].sort((a, b) => a.dueAt.getTime() - b.dueAt.getTime())
    },
    // Beyond the first ones, rows of one origin would be missing among those of the other.
    view: (rows, seen): RetriesView => ({
      rows: rows.slice(0, MOST).map((each) => waitingRow(each, seen)),
      more: rows.length > MOST,
    }),
  }),
  write<{ origin: Origin; seq: string }>({
    path: 'api/messages/:origin/:seq/retry',
    role: 'operator',
    fields: { origin: originField, seq: seqField },
    act: async (hapax, { origin, seq }, by) => {
      await hapax.messages.retry(origin, seq, by)
      return { ok: true }
    },
  }),
  write<Retrying>({
    path: 'api/messages/retry',
    role: 'operator',
    fields: {
      origin: originField,
      scope: optional(nameField),
      type: optional(textField),
      key: optional(textField),
      id: optional(textField),
      since: optional(timeField),
      until: optional(timeField),
    },
    act: async (hapax, { origin, ...where }, by): Promise<RetriedView> => {
      const conditions = defined(where)
      const chosen = Object.keys(conditions).length > 0 ? conditions : { all: true as const }
      const signal = AbortSignal.timeout(RETRY_MS)
      const { done, stopped } = await hapax.messages.retryAll({ origin, ...chosen }, { by, signal })
      return { done, stopped }
    },
  }),
  write<{ seq: string }>({
    path: 'api/sent/:seq/republish',
    role: 'operator',
    fields: { seq: seqField },
    act: async (hapax, { seq }, by) => {
      await hapax.sent.republish(seq, by)
      return { ok: true }
    },
  }),
]

function found(hapax: ConsoleHapax, search: Search): Promise<Found> {
  switch (search.place) {
    case 'inbox':
    case 'outbox':
      return waiting(hapax, search, search.place)
    case 'failed':
      return failed(hapax, search)
    case 'sent':
      return sent(hapax, search)
    case 'receipts':
      return receipts(hapax, search)
  }
}

async function waiting(hapax: ConsoleHapax, search: Search, origin: 'inbox' | 'outbox'): Promise<Found> {
  const { place: _, cursor, limit = PAGE, ...where } = search
  const before = pageStart(cursor)
  const signal = AbortSignal.timeout(LOOK_MS)
  const { rows, before: next } = await hapax.messages.list({ origin, ...where, ...before, limit, signal })
  return { rows: rows.map((row) => (seen) => waitingRow(row, seen)), cursor: next ?? null }
}

async function failed(hapax: ConsoleHapax, search: Search): Promise<Found> {
  refuseOthers(search, ['key', 'id', 'state'])
  const { scope: consumer, type, since, until, cursor, limit = PAGE } = search
  const conditions = defined({ consumer, type, since, until })
  const rows = (await hapax.failed.list({ ...conditions, ...pageStart(cursor), limit })).map(light)
  return { rows: rows.map((row) => (seen) => failedRow(row, seen)), cursor: nextOf(rows, limit) }
}

async function sent(hapax: ConsoleHapax, search: Search): Promise<Found> {
  refuseOthers(search, ['key', 'id', 'state'])
  const { scope: relay, type, since, until, cursor, limit = PAGE } = search
  const conditions = defined({ relay, type, since, until })
  const rows = (await hapax.sent.list({ ...conditions, ...pageStart(cursor), limit })).map(light)
  return { rows: rows.map((row) => (seen) => sentRow(row, seen)), cursor: nextOf(rows, limit) }
}

async function receipts(hapax: ConsoleHapax, search: Search): Promise<Found> {
  refuseOthers(search, ['key', 'id', 'state', 'type'])
  const { scope: consumer, since, until, cursor, limit = PAGE } = search
  const after = cursor === undefined ? {} : { after: cursor }
  const signal = AbortSignal.timeout(LOOK_MS)
  const { rows, after: next } = await hapax.receipts.list({ consumer, since, until, ...after, limit, signal })
  return { rows: rows.map((row) => (seen) => receiptRow(row, seen)), cursor: next ?? null }
}

/** How long rows are looked for in tables that have no index for it. Then the page shows what was found, and goes on from there. */
const LOOK_MS = 150

/** A condition that is not looked at must not seem to have matched. */
function refuseOthers(search: Search, names: readonly (keyof Search)[]): void {
  const other = names.find((name) => search[name] !== undefined)
  if (other !== undefined) expected(other, `absent in ${search.place}`, search[other])
}

function pageStart(cursor: string | undefined): { readonly before?: string } {
  return cursor === undefined ? {} : { before: seqField('cursor', cursor) }
}

/** The last row of a full page. */
export function nextOf(rows: readonly { readonly seq: string }[], limit: number): string | null {
  return rows.length < limit ? null : (rows.at(-1)?.seq ?? null)
}

/** A message, as the audit names it. */
export function named({ source, id, type }: StoredMessage): AuditSubject {
  return { source, id, type }
}

/** Without what is undefined. */
export function defined<T extends object>(conditions: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  return Object.fromEntries(Object.entries(conditions).filter(([, value]) => value !== undefined)) as never
}

/** All that is known of a message. */
interface Life {
  readonly traces: readonly Trace[]
  readonly waiting: LifeView['waiting']
  readonly message: Parameters<typeof payloadView>[0] | undefined
  readonly thorough: boolean
}

async function lifeOf(hapax: ConsoleHapax, id: string, source: string | undefined, scan: boolean): Promise<Life> {
  const traces = await hapax.explain(id, source, { scan })
  const places = traces.filter((each) => each.where === 'inbox' || each.where === 'outbox')
  const rows = await Promise.all(places.map((each) => waitingAt(hapax, id, each)))
  const waits = await Promise.all(
    rows.flat().map(async ({ origin, scope, seq }) => ({
      origin,
      scope,
      seq,
      why: await hapax.messages.why(origin, seq),
    })),
  )
  const failedSeq = traces.find((each) => each.where === 'failed')?.seq
  const [first] = waits
  const message =
    failedSeq !== undefined
      ? (await hapax.failed.get(failedSeq))?.message
      : first && (await hapax.messages.get(first.origin, first.seq))?.message
  const thorough = scan || source !== undefined || keyRange(id) !== undefined
  return { traces, waiting: waits, message, thorough }
}

type Waits = Extract<Trace, { where: 'inbox' | 'outbox' }>

/** The rows of a message that waits. */
async function waitingAt(
  hapax: ConsoleHapax,
  id: string,
  trace: Waits,
): Promise<readonly { readonly origin: 'inbox' | 'outbox'; readonly scope: string; readonly seq: string }[]> {
  const [origin, scope] = [trace.where, scopeOf(trace)]
  const key = trace.key === null ? {} : { key: trace.key }
  const listed = await hapax.messages.list({
    origin,
    scope,
    id,
    ...key,
    limit: 2,
    signal: AbortSignal.timeout(LOOK_MS),
  })
  return listed.rows.filter(({ source }) => source === trace.source)
}

function lifeView({ traces, waiting, message, thorough }: Life, seen: Seen, id: string, whole: boolean): LifeView {
  const [type = null] = traces.map((each) => each.type)
  const traceId = traceIdOf(traces)
  const failed = traces.flatMap((each) => (each.where === 'failed' ? [each] : []))
  const effects = traces.flatMap((each) => (each.where === 'effect' && each.effect.name !== '' ? [each] : []))
  return {
    id: type === null ? id : idView({ id, type }, seen),
    sources: [...new Set(traces.map(({ source }) => originOf(source)?.source ?? source))],
    type,
    key: traces.flatMap((each) => ('key' in each && each.key !== null ? [each.key] : []))[0] ?? message?.key ?? null,
    moments: momentsOf(traces, seen),
    waiting,
    failed: failed.map(({ seq }) => seq),
    effects: effects.map(({ effect, consumer, source, type: of }) =>
      effectView(
        { ...effect, message: { source, id, type: of } },
        failed.find((each) => each.consumer === consumer)?.seq ?? null,
        seen,
      ),
    ),
    payload: message === undefined ? null : payloadView(message, seen, whole),
    traceId,
    traceUrl: traceId === null ? null : linkOf(traceId, seen),
    thorough,
  }
}

/** Only addresses that a browser opens as a page: the text comes from the application, the id from a message. */
function linkOf(traceId: string, { settings }: Seen): string | null {
  try {
    const url = settings.traceLink?.(traceId)
    return url !== undefined && /^https?:$/.test(URL.parse(url)?.protocol ?? '') ? url : null
  } catch (error) {
    settings.report(error)
    return null
  }
}
