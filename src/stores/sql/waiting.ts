// Texts of the lists of what waits. They are put together from conditions that are there, because a planner that is given all of them,
// most without a value, does not see which index finds the rows.

import type { AuditWhere, Origin, Param, Statement, WaitingState, WaitingWhere } from '../../contracts/index.ts'
import { markOf, numberOf } from '../../message/index.ts'
import type { AuditedStatements, WaitingPath, WaitingStatements } from './dialect/waiting.ts'

/** A part of a statement, and its values. A question mark stands for a value. */
interface Fragment {
  readonly text: string
  readonly params: readonly Param[]
}

/** How a database writes what these statements need. The table of a statement is `m`. */
export interface WaitingWords {
  /** A text as a value, and what stands for it. */
  readonly text: (value: string) => Param
  readonly textValue: string
  /** What stands for the number of a row, and for a time, whose value `time` makes of milliseconds since 1970. */
  readonly number: string
  readonly timeValue: string
  readonly time: (ms: number) => Param
  readonly ms: (column: string) => string
  readonly now: string
  /** A column that may be a word of the language. */
  readonly key: string
  /** What names a row, and what names one that has no mark. */
  readonly name: string
  readonly markless: string
  /** How large the payload is, without reading it. */
  readonly bytes: string
  /** The columns of a message that a list does not have. */
  readonly message: string
  /** So many rows at most. As a value where that is possible: there are not many texts then. */
  readonly limit: (rows: number) => Fragment
  /** The finished text. */
  readonly finished: (text: string) => string
}

/** One way to the rows of a table: which ones, and the order that the index has. */
export interface Way extends Fragment {
  readonly from: string
  readonly order: readonly string[]
}

/** The inbox, or the outbox, of a database. */
export interface WaitingTable {
  readonly origin: Origin
  /** consumer, or relay. */
  readonly scope: string
  /** Whether the order of a row counts. */
  readonly ordered: string
  readonly way: (path: WaitingPath) => Way
  readonly byId: (keys: { readonly from: string; readonly to: string }) => Way
  readonly byNumber: (numbers: readonly string[]) => Way
}

type Made = 'floor' | 'page' | 'byId' | 'numbered' | 'one' | 'place' | 'first' | 'count'

/** The statements that differ in words alone. */
export function waitingStatements(words: WaitingWords, table: WaitingTable): Pick<WaitingStatements, Made> {
  const columns = columnsOf(words, table)
  const build = builder(words)
  const rows = (way: Way, conditions: readonly Fragment[], rest: Fragment, more = ''): Statement =>
    build(`select ${columns}${more} from ${way.from}`, [way, ...conditions], rest)
  const first = (order: string, limit: number, end = ''): Fragment => limited(words, order, limit, end)
  const named = (seq: string, more = ''): Statement => {
    const row = { text: `m.seq = ${words.number} and m.mark = ${words.number}`, params: [numberOf(seq), markOf(seq)] }
    return rows(table.way({ by: 'all' }), [row], NOTHING, more)
  }
  const before = (number: string): Fragment => ({ text: `m.seq < ${words.number}`, params: [number] })
  const from = (number: string): Fragment => ({ text: `m.seq >= ${words.number}`, params: [number] })
  return {
    floor: (path, number, count) => {
      const way = table.way(path)
      const last = first(descending(way.order), 1, ` offset ${Math.trunc(count) - 1}`)
      const what = `select ${words.name} as seq, ${words.ms('m.created_at')} as created_at`
      return build(`${what} from ${way.from}`, [way, before(number)], last)
    },
    page: (path, where, lowest, number, limit) => {
      const way = table.way(path)
      const conditions = [before(number), from(lowest), ...conditionsOf(words, table, where)]
      return rows(way, conditions, first(descending(way.order), limit))
    },
    byId: (keys, where, limit) => {
      const way = table.byId(keys)
      return rows(way, conditionsOf(words, table, where), first(way.order.join(', '), limit))
    },
    numbered: (numbers, where) => rows(table.byNumber(numbers), conditionsOf(words, table, where), NOTHING),
    one: (seq) => named(seq, `, ${words.message}`),
    place: (seq) => named(seq),
    first: (scope, key, number) => {
      const way = table.way({ by: 'key', scope, key })
      return rows(way, [before(number)], first(way.order.join(', '), 1))
    },
    count: (scope, key, number, limit) => {
      const way = table.way({ by: 'key', scope, key })
      const end = first(way.order.join(', '), limit, ') as counted')
      return build(`select count(*) as count from (select m.seq from ${way.from}`, [way, before(number)], end)
    },
  }
}

/** The statements on the audit. `from` is its table as `m`, by its number. */
export function auditedStatements(words: WaitingWords, from: string): AuditedStatements {
  const build = builder(words)
  const before = (number: string): Fragment => ({ text: `m.seq < ${words.number}`, params: [number] })
  return {
    floor: (number, count) =>
      build(
        `select ${words.markless} as seq, ${words.ms('m.at')} as created_at from ${from}`,
        [before(number)],
        limited(words, 'm.seq desc', 1, ` offset ${Math.trunc(count) - 1}`),
      ),
    page: (where, first, number, limit) =>
      build(
        `select ${words.markless} as seq, ${words.ms('m.at')} as at, m.action, m.actor, m.note, m.origin, m.consumer as scope,
  m.source, m.id, m.type from ${from}`,
        [before(number), { text: `m.seq >= ${words.number}`, params: [first] }, ...auditConditions(words, where)],
        limited(words, 'm.seq desc', limit),
      ),
  }
}

function builder(words: WaitingWords) {
  return (head: string, conditions: readonly Fragment[], rest: Fragment): Statement => {
    const texts = conditions.map(({ text }) => text).filter((text) => text !== '')
    return {
      text: words.finished(`\n${head}${texts.length === 0 ? '' : `\nwhere ${texts.join(' and ')}`}\n${rest.text}`),
      params: [...conditions, rest].flatMap(({ params }) => [...params]),
    }
  }
}

function columnsOf(words: WaitingWords, { scope, origin, ordered }: WaitingTable): string {
  const leased = isLeased(words, origin)
  return `${words.name} as seq, m.${scope} as scope, m.source, m.id, m.type, m.${words.key}, ${ordered} as ordered, m.attempts,
  case when m.held_at is not null then 'held' ${leased === undefined ? '' : `when ${leased} then 'leased'`}
    when m.attempts > 0 then 'retrying' else 'waiting' end as state, ${words.bytes} as bytes,
  ${words.ms('m.created_at')} as created_at, ${words.ms('m.available_at')} as due_at, ${words.ms('m.held_at')} as held_at,
  m.error, m.failures, m.history`
}

/** Whether a row is in hand. The token of a lease stays when it has run out. */
function isLeased({ now }: WaitingWords, origin: Origin): string | undefined {
  return origin === 'inbox' ? `(m.lease_token is not null and m.available_at > ${now})` : undefined
}

function conditionsOf(words: WaitingWords, { scope, origin }: WaitingTable, where: WaitingWhere): readonly Fragment[] {
  const equal = (column: string, value: string | undefined): readonly Fragment[] =>
    value === undefined ? [] : [{ text: `m.${column} = ${words.textValue}`, params: [words.text(value)] }]
  return [
    ...equal(scope, where.scope),
    ...equal('type', where.type),
    ...equal(words.key, where.key),
    ...equal('id', where.id),
    ...(where.state === undefined ? [] : [{ text: stateText(words, origin, where.state), params: [] }]),
    ...times(words, 'm.created_at', where),
  ]
}

function stateText(words: WaitingWords, origin: Origin, state: WaitingState): string {
  const leased = isLeased(words, origin)
  const free = leased === undefined ? '' : ` and not ${leased}`
  switch (state) {
    case 'held':
      return 'm.held_at is not null'
    case 'leased':
      return leased === undefined ? '1 = 0' : `m.held_at is null and ${leased}`
    case 'retrying':
      return `m.held_at is null and m.attempts > 0${free}`
    case 'waiting':
      return `m.held_at is null and m.attempts = 0${free}`
  }
}

function auditConditions(words: WaitingWords, where: AuditWhere): readonly Fragment[] {
  const values = Object.entries({ actor: where.actor, action: where.action, consumer: where.scope })
  const equal = values.flatMap(([column, value]) =>
    value === undefined ? [] : [{ text: `m.${column} = ${words.textValue}`, params: [words.text(value)] }],
  )
  const { origin } = where
  const ofOrigin =
    origin === undefined
      ? []
      : [{ text: `(m.origin is null or m.origin = ${words.textValue})`, params: [words.text(origin)] }]
  return [...equal, ...ofOrigin, ...times(words, 'm.at', where)]
}

function times(
  words: WaitingWords,
  column: string,
  { since, until }: { readonly since?: Date | undefined; readonly until?: Date | undefined },
): readonly Fragment[] {
  const than = (sign: string, date: Date): Fragment => {
    return { text: `${column} ${sign} ${words.timeValue}`, params: [words.time(within(date.getTime()))] }
  }
  return [...(since === undefined ? [] : [than('>=', since)]), ...(until === undefined ? [] : [than('<', until)])]
}

/** Times that every database has: nothing was written before 1970, and nothing will be after the year 9999. */
function within(ms: number): number {
  return Math.min(Math.max(ms, 0), 253_402_300_799_000)
}

function descending(order: readonly string[]): string {
  return order.map((column) => `${column} desc`).join(', ')
}

function limited(words: WaitingWords, order: string, rows: number, end = ''): Fragment {
  const { text, params } = words.limit(rows)
  return { text: `order by ${order} ${text}${end}`, params }
}

const NOTHING: Fragment = { text: '', params: [] }
