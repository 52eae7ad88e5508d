// Lists of what waits, and of the audit, on PostgreSQL. As in status.ts, every index is named by the order that only it has: a range of one
// keeps that order from being the order of the numbers alone.

import type { Origin } from '../../../contracts/index.ts'
import { encodeText, laneOfKey } from '../../../message/index.ts'
import {
  auditedStatements,
  plain,
  type WaitingLists,
  type WaitingPath,
  type WaitingTable,
  type WaitingWords,
  type Way,
  waitingStatements,
} from '../../sql/index.ts'
import { array } from '../literal.ts'
import { MS, SEQ } from './fragments.ts'

const WORDS: WaitingWords = {
  text: encodeText,
  textValue: '?::text',
  number: '?::bigint',
  timeValue: 'to_timestamp(?::float8 / 1000)',
  time: (ms) => ms,
  ms: MS,
  now: 'clock_timestamp()',
  key: 'key',
  name: SEQ('m'),
  markless: `m.seq || '-0'`,
  bytes: 'octet_length(m.data)',
  message: `m.message_key::text as message_key, m.attributes, m.data, encode(m.fingerprint, 'hex') as fingerprint`,
  limit: (rows) => ({ text: 'limit ?::integer', params: [rows] }),
  finished: (text) => {
    let number = 0
    return text.replaceAll('?', () => `$${++number}`)
  },
}

const SCOPES = { inbox: 'consumer', outbox: 'relay' } as const
const ORDERED = { inbox: 'm.ordered', outbox: 'm.key is not null' } as const
const TRIED = '(m.attempts > 0 or m.held_at is not null)'

/** What waits, and the audit. */
export function waiting(schema: string): WaitingLists {
  const of = (origin: Origin): WaitingLists[Origin] => {
    const table = tableOf(schema, origin)
    const [name, scope] = [`${schema}.${origin}`, `m.${SCOPES[origin]}`]
    const tried = plain(scopesText(name, scope, TRIED, `${scope}, m.held_at, m.seq`))
    return {
      ...waitingStatements(WORDS, table),
      scopes: {
        key:
          origin === 'inbox'
            ? undefined
            : plain(scopesText(name, scope, ORDERED.outbox, `${scope}, m.lane, m.key, m.seq`)),
        held: plain(scopesText(name, scope, 'm.held_at is not null', `${scope}, m.seq`)),
        retrying: tried,
        due: tried,
      },
      held: undefined,
      due: (one, limit) => ({
        text: `
select ${SEQ('m')} as seq, ${MS('m.available_at')} as due_at, m.attempts from ${name} m
where ${scope} between $1::text and $2::text and ${TRIED} and m.held_at is null
order by ${scope}, m.held_at, m.seq limit $3::integer`,
        params: [encodeText(one), encodeText(one), limit],
      }),
    }
  }
  return {
    inbox: of('inbox'),
    outbox: of('outbox'),
    audited: auditedStatements(WORDS, `${schema}.audit m`),
  }
}

/** The scopes of rows in an index, by one probe each. */
function scopesText(table: string, scope: string, where: string, order: string): string {
  return `
with recursive known (scope) as (
  (select ${scope} from ${table} m where ${where} order by ${order} limit 1)
  union all
  select next.scope from known cross join lateral (
    select ${scope} as scope from ${table} m where ${where} and ${scope} > known.scope order by ${order} limit 1) as next
)
select scope from known`
}

function tableOf(schema: string, origin: Origin): WaitingTable {
  const from = `${schema}.${origin} m`
  const scope = `m.${SCOPES[origin]}`
  const one = `${scope} between ?::text and ?::text`
  const way = (path: WaitingPath): Way => {
    if (path.by === 'all') return { from, text: '', params: [], order: ['m.seq'] }
    const name = encodeText(path.scope)
    if (path.by === 'key') {
      const text = `${scope} = ?::text and m.lane = ?::smallint and m.key between ?::text and ?::text and ${ORDERED[origin]}`
      const key = encodeText(path.key)
      return { from, text, params: [name, laneOfKey(path.key), key, key], order: ['m.key', 'm.seq'] }
    }
    const [text, order] =
      path.by === 'held'
        ? [`${one} and m.held_at is not null`, [scope, 'm.seq']]
        : [`${one} and ${TRIED} and m.held_at is null`, [scope, 'm.held_at', 'm.seq']]
    return { from, text, params: [name, name], order }
  }
  return {
    origin,
    scope: SCOPES[origin],
    ordered: ORDERED[origin],
    way,
    byId: (keys) => {
      const text = 'm.message_key between ?::uuid and ?::uuid'
      return { from, text, params: [keys.from, keys.to], order: ['m.message_key'] }
    },
    byNumber: (numbers) => ({ from, text: 'm.seq = any (?::text::bigint[])', params: [array(numbers)], order: [] }),
  }
}
