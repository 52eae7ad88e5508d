// What waits in the inbox and the outbox, message by message.

import { type Clock, expected, HapaxError, noOthers, object, signalOption, text, word } from '../base/index.ts'
import type {
  Ahead,
  Audit,
  Numbered,
  Origin,
  Pause,
  Store,
  StoreWaiting,
  WaitingMessage,
  WaitingState,
  WaitingWhere,
} from '../contracts/index.ts'
import { MAX_TEXT_BYTES, type StoredMessage } from '../message/index.ts'
import { servesOf } from '../worker/index.ts'
import { auditOf, type By } from './audit.ts'
import { type BulkOptions, type BulkSummary, bulk, checkedBulk, checkedSeq, pageSize } from './bulk.ts'
import type { Chosen } from './where.ts'
import { whyOf } from './why.ts'

/** How to page through a list that is read by its numbers, the newest row first. */
export interface NumberedPage {
  /** How many rows a page has. @default 50 */
  readonly limit?: number
  /** The `before` of the page before. @default the first page */
  readonly before?: string
  /** Stops between two looks. What was found so far is returned, and the next page continues from there. */
  readonly signal?: AbortSignal
}

/** Which waiting messages to list. */
export type WaitingQuery = WaitingWhere &
  NumberedPage & {
    /** Those of consumers, or those of relays. @default 'inbox' */
    readonly origin?: Origin
  }

const ORIGINS = ['inbox', 'outbox'] as const
const STATES: readonly WaitingState[] = ['waiting', 'retrying', 'held', 'leased']

/** Which messages that wait for their next attempt. */
export type RetryingWhere = Omit<WaitingWhere, 'state'> & {
  /** Those of consumers, or those of relays. @default 'inbox' */
  readonly origin?: Origin
}

/** What these tools need. */
export interface MessagesOptions {
  readonly store: { readonly admin: StoreWaiting & Pick<Store<never>['admin'], 'status'> }
  readonly clock: Clock
  /** Something is due that workers of this process may want. */
  readonly wake: () => void
}

/** Messages that wait in the inbox of a consumer or the outbox of a relay. */
export class Messages {
  readonly #options: MessagesOptions

  /** Made by `createHapax`. */
  constructor(options: MessagesOptions) {
    this.#options = options
  }

  get #store(): MessagesOptions['store'] {
    return this.#options.store
  }

  /**
   * A page of waiting messages, the newest first. A key (in the inbox: together with its consumer), a state and an id that is a UUIDv7 are
   * found by an index, others are looked for row by row: on a large table, give it a `signal`.
   */
  async list(query: WaitingQuery = {}): Promise<Numbered<WaitingMessage>> {
    noOthers('query', query, [...Object.keys(CHECKS), 'origin', 'limit', 'before', 'signal'])
    const origin = originOption(query.origin)
    const where = checkedWhere(query)
    return pageOf(query, (before, limit) => this.#store.admin.waiting(origin, where, before, limit))
  }

  /** One of them with its payload; undefined: it is gone, because it was processed, sent, or has failed. */
  async get(
    origin: Origin,
    seq: string,
  ): Promise<{ readonly row: WaitingMessage; readonly message: StoredMessage } | undefined> {
    return this.#store.admin.one(originOption(origin), checkedSeq(seq))
  }

  /** Why a message waits, in one sentence. */
  async why(origin: Origin, seq: string): Promise<string> {
    const { admin } = this.#store
    const [from, name] = [originOption(origin), checkedSeq(seq)]
    const status = await admin.status()
    const ahead = await admin.ahead(from, name)
    const found = await admin.one(from, name)
    if (found === undefined) return 'It does not wait any more.'
    const { row } = found
    const live = status.workers.filter(({ alive }) => alive).map(servesOf)
    const serving = live.filter(({ consumers, relays }) =>
      from === 'inbox' ? consumers.has(row.scope) : relays.includes(row.scope),
    )
    const handling = serving.filter(
      ({ consumers }) => from === 'outbox' || isHandled(consumers.get(row.scope), row.type),
    )
    const failures = from === 'inbox' ? [] : serving.flatMap(({ failing }) => failing.get(row.scope) ?? [])
    const workers = serving.length - failures.length
    return whyOf({
      ...{ now: status.at, row, ahead: stillAhead(ahead), pause: pauseOf(status.paused, row) },
      ...{ workers, handlers: handling.length, unreached: workers === 0 ? failures[0] : undefined },
    })
  }

  /** The messages that have failed and are tried again next, the next one first. Of many, those that a bounded look finds. */
  async retries(query: { readonly origin?: Origin; readonly limit?: number } = {}): Promise<readonly WaitingMessage[]> {
    noOthers('query', query, ['origin', 'limit'])
    return this.#store.admin.retries(originOption(query.origin), pageSize(query.limit))
  }

  /**
   * Has a message that waits for its next attempt tried at once. Its attempts still count. Rejects with `not-found` if it is not there, or
   * does not wait for that: it is due, held, leased, or was not tried yet.
   */
  async retry(origin: Origin, seq: string, by?: By): Promise<void> {
    if (!(await this.#hasten(originOption(origin), checkedSeq(seq), auditOf('retry', by)))) throw notRetrying(seq)
  }

  /** Has all of these tried at once that failed and wait for their next attempt, oldest first; `{ all: true }` means all there are. */
  async retryAll(where: Chosen<RetryingWhere>, options: BulkOptions = {}): Promise<BulkSummary> {
    const { origin, ...conditions } = chosenRetrying(where)
    checkedBulk(options)
    const audit = auditOf('retry', options.by)
    const seqs = await this.#retrying(origin, conditions, options.signal)
    const work = {
      newest: async () => seqs.at(-1),
      page: async (after: string | undefined, limit: number) => {
        const from = after === undefined ? 0 : seqs.indexOf(after) + 1
        return seqs.slice(from, from + limit)
      },
      change: (seq: string) => this.#hasten(origin, seq, audit),
    }
    return bulk(this.#options.clock, work, options)
  }

  /** How many `retryAll` would have tried. */
  async countRetrying(where: Chosen<RetryingWhere>): Promise<number> {
    const { origin, ...conditions } = chosenRetrying(where)
    return (await this.#retrying(origin, conditions, undefined)).length
  }

  /** The oldest first. */
  async #retrying(origin: Origin, where: WaitingWhere, signal: AbortSignal | undefined): Promise<readonly string[]> {
    const seqs: string[] = []
    let before: string | undefined
    do {
      const found = await this.#store.admin.waiting(origin, { ...where, state: 'retrying' }, before, PAGE)
      for (const { seq } of found.rows) seqs.push(seq)
      before = found.before
    } while (before !== undefined && !signal?.aborted)
    return seqs.reverse()
  }

  async #hasten(origin: Origin, seq: string, audit: Audit): Promise<boolean> {
    const hastened = await this.#store.admin.hasten(origin, seq, audit)
    if (hastened) this.#options.wake()
    return hastened
  }
}

/** How many rows are listed at a time. */
const PAGE = 1_000

function chosenRetrying(chosen: Chosen<RetryingWhere>): WaitingWhere & { readonly origin: Origin } {
  object('where', chosen)
  const { all, origin, ...where }: RetryingWhere & { readonly all?: unknown } = chosen
  noOthers(
    'where',
    where,
    Object.keys(CHECKS).filter((name) => name !== 'state'),
  )
  const conditions = Object.values(where).filter((value) => value !== undefined)
  if (all !== undefined && (all !== true || conditions.length > 0)) expected('all', 'true, without conditions', all)
  if (all === undefined && conditions.length === 0)
    expected('where', 'at least one condition, or { all: true }', chosen)
  return { ...checkedWhere(where), origin: originOption(origin) }
}

function notRetrying(seq: string): HapaxError {
  const what = `the message ${seq} does not wait for its next attempt: it is gone, due, held, leased, or was not tried yet`
  return new HapaxError('not-found', what, { fields: { seq } })
}

/** A worker with a handler for unknown types says so by an empty name. */
function isHandled(types: readonly string[] | undefined, type: string): boolean {
  return types !== undefined && (types.includes(type) || types.includes(''))
}

function stillAhead(ahead: Ahead | undefined): Ahead | undefined {
  return ahead !== undefined && ahead.count > 0 ? ahead : undefined
}

function pauseOf(paused: readonly Pause[], { origin, scope }: WaitingMessage): Pause | undefined {
  return paused.find((each) => each.origin === origin && each.scope === scope)
}

function originOption(origin: Origin | undefined): Origin {
  return word('origin', ORIGINS, origin ?? 'inbox')
}

const CHECKS: { readonly [Name in keyof WaitingWhere]-?: (name: string, value: unknown) => unknown } = {
  scope: (name, value) => text(name, value),
  type: (name, value) => text(name, value, MAX_TEXT_BYTES),
  key: (name, value) => text(name, value, MAX_TEXT_BYTES),
  id: (name, value) => text(name, value, MAX_TEXT_BYTES),
  state: (name, value) => word(name, STATES, value),
  since: dateOption,
  until: dateOption,
}

function checkedWhere({ scope, type, key, id, state, since, until }: WaitingWhere): WaitingWhere {
  const where = { scope, type, key, id, state, since, until }
  for (const [name, check] of Object.entries(CHECKS)) {
    const value = Reflect.get(where, name)
    if (value !== undefined) check(name, value)
  }
  return where
}

/** Checks a time. */
export function dateOption(name: string, value: unknown): void {
  if (!(value instanceof Date && Number.isFinite(value.getTime()))) expected(name, 'a date', value)
}

/** Looks until the page is full, or no rows are left. */
export async function pageOf<T>(
  { limit, before, signal }: NumberedPage,
  look: (before: string | undefined, limit: number) => Promise<Numbered<T>>,
): Promise<Numbered<T>> {
  const size = pageSize(limit)
  signalOption('signal', signal)
  let position = before === undefined ? undefined : checkedSeq(before)
  const rows: T[] = []
  do {
    const found = await look(position, size - rows.length)
    rows.push(...found.rows)
    position = found.before
  } while (position !== undefined && rows.length < size && !signal?.aborted)
  return { rows, before: position }
}
