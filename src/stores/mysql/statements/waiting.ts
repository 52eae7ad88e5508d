// Lists of what waits, and of the audit, on MariaDB and MySQL. They have no partial indexes: one for the few rows that have failed would
// cost every message. So those that hold their key are read off the index by time, and others that have failed are found by their numbers.

import type { Origin } from '../../../contracts/index.ts'
import { ALL_LANES, laneOfKey } from '../../../message/index.ts'
import {
  auditedStatements,
  plain,
  uuidBytes,
  type WaitingLists,
  type WaitingPath,
  type WaitingTable,
  type WaitingWords,
  type Way,
  waitingStatements,
} from '../../sql/index.ts'
import { BY_KEY, LIMIT, MS, NAME, NOW, NUMBERED, SEQ } from './fragments.ts'
import { bytes, keyHash, microseconds, numbered, text } from './rows.ts'

const WORDS: WaitingWords = {
  text,
  textValue: '?',
  number: SEQ,
  timeValue: `timestamp'1970-01-01 00:00:00' + interval ? microsecond`,
  time: microseconds,
  ms: MS,
  now: NOW,
  key: '`key`',
  name: NAME(),
  markless: `concat(m.seq, '-0')`,
  bytes: 'm.bytes',
  message: 'm.message_key, m.attributes, m.data, m.fingerprint',
  limit: (rows) => ({ text: LIMIT(rows), params: [] }),
  finished: (text) => text,
}

const SCOPES = { inbox: 'consumer', outbox: 'relay' } as const
/** Rows without order, and first rows of keys that wait for their time. */
const TIMED = [0, 1]

/** What waits, and the audit. */
export function waiting(prefix: string): WaitingLists {
  const of = (origin: Origin): WaitingLists[Origin] => {
    const [table, scope] = [`${prefix}${origin}`, SCOPES[origin]]
    const byTime = `force index (${origin}_lane)`
    const part = (lane: number, timed: number, limit: number): string => `
(select cast(m.seq as char) as seq, ${MS('m.available_at')} as due_at, m.attempts from ${table} as m ${byTime}
where m.${scope} = ? and m.lane = ${lane} and m.timed = ${timed} and m.available_at > ${NOW}
order by m.available_at, m.seq ${LIMIT(limit)})`
    return {
      ...waitingStatements(WORDS, tableOf(prefix, origin)),
      scopes: {
        key:
          origin === 'inbox'
            ? undefined
            : plain(`select distinct ${scope} as scope from ${table} force index (outbox_key)`),
        held: undefined,
        retrying: undefined,
        due: plain(`select distinct ${scope} as scope from ${table} ${byTime}`),
      },
      held: (limit) =>
        plain(`
select cast(m.seq as char) as seq from (select distinct ${scope} as scope, lane from ${table} ${byTime}) as l
straight_join ${table} as m ${byTime} on m.${scope} = l.scope and m.lane = l.lane and m.timed = 3 ${LIMIT(limit)}`),
      due: (one, limit) => {
        const parts = ALL_LANES.flatMap((lane) => TIMED.map((timed) => [lane, timed] as const))
        const each = Math.max(1, limit / parts.length)
        const union = parts.map(([lane, timed]) => part(lane, timed, each)).join('\nunion all')
        return { text: union, params: parts.map(() => bytes(one)) }
      },
    }
  }
  return {
    inbox: of('inbox'),
    outbox: of('outbox'),
    audited: auditedStatements(WORDS, `${prefix}audit as m ${BY_KEY}`),
  }
}

function tableOf(prefix: string, origin: Origin): WaitingTable {
  const table = `${prefix}${origin}`
  const all: Way = { from: `${table} as m ${BY_KEY}`, text: '', params: [], order: ['m.seq'] }
  const way = (path: WaitingPath): Way => {
    if (path.by !== 'key') return all
    return {
      from: `${table} as m force index (${origin}_key)`,
      text: `m.${SCOPES[origin]} = ? and m.lane = ? and m.key_hash = ?`,
      params: [bytes(path.scope), laneOfKey(path.key), keyHash(path.key)],
      order: ['m.seq'],
    }
  }
  return {
    origin,
    scope: SCOPES[origin],
    ordered: origin === 'inbox' ? 'm.ordered' : 'm.`key` is not null',
    way,
    byId: ({ from, to }) => ({
      from: `${table} as m force index (${origin}_message)`,
      text: 'm.message_key between ? and ?',
      params: [uuidBytes(from), uuidBytes(to)],
      order: ['m.message_key'],
    }),
    byNumber: (numbers) => {
      return { from: NUMBERED(table), text: '', params: [numbered(numbers)], order: [] }
    },
  }
}
