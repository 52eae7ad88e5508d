// Lists of what waits, and of the audit, on SQLite.

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
import { NAME, SEQS, UUID } from './fragments.ts'
import { NOW } from './migrations.ts'

const WORDS: WaitingWords = {
  text: encodeText,
  textValue: '?',
  number: 'cast(? as integer)',
  timeValue: '?',
  time: (ms) => ms,
  ms: (column) => column,
  now: NOW,
  key: 'key',
  name: NAME('m'),
  markless: `m.seq || '-0'`,
  bytes: 'length(m.data)',
  message: 'm.message_key, m.attributes, m.data, m.fingerprint',
  limit: (rows) => ({ text: 'limit ?', params: [rows] }),
  finished: (text) => text,
}

const SCOPES = { inbox: 'consumer', outbox: 'relay' } as const
const ORDERED = { inbox: 'm.ordered = 1', outbox: 'm.key is not null' } as const
const TRIED = '(m.attempts > 0 or m.held_at is not null)'

/** What waits, and the audit. */
export function waiting(prefix: string): WaitingLists {
  const of = (origin: Origin): WaitingLists[Origin] => {
    const scope = `m.${SCOPES[origin]}`
    const by = (index: string): string => `${prefix}${origin} as m indexed by ${prefix}${origin}_${index}`
    const tried = plain(scopesText(by('tried'), scope, TRIED))
    return {
      ...waitingStatements(WORDS, tableOf(prefix, origin)),
      scopes: {
        key: origin === 'inbox' ? undefined : plain(scopesText(by('key'), scope, ORDERED.outbox)),
        held: plain(scopesText(by('holds'), scope, 'm.held_at is not null')),
        retrying: tried,
        due: tried,
      },
      held: undefined,
      due: (one, limit) => ({
        text: `
select ${NAME('m')} as seq, m.available_at as due_at, m.attempts from ${by('tried')}
where ${scope} = ? and ${TRIED} and m.held_at is null order by m.seq limit ?`,
        params: [encodeText(one), limit],
      }),
    }
  }
  return { inbox: of('inbox'), outbox: of('outbox'), audited: auditedStatements(WORDS, `${prefix}audit as m`) }
}

/** The values of the first column of an index, by one probe each; the last one is null. */
function scopesText(from: string, scope: string, where: string): string {
  const next = (after: string): string =>
    `(select ${scope} from ${from} where ${where} and ${scope} > ${after} order by ${scope} limit 1)`
  return `
with recursive known (scope) as (
  select ${next(`''`)} union all select ${next('known.scope')} from known where known.scope is not null
)
select scope from known where scope is not null`
}

function tableOf(prefix: string, origin: Origin): WaitingTable {
  const table = `${prefix}${origin}`
  const by = (index: string): string => `${table} as m indexed by ${table}_${index}`
  // By the number alone, whatever the statistics say: an index on a condition may be small today.
  const byNumber = `${table} as m not indexed`
  const one = `m.${SCOPES[origin]} = ?`
  const order = ['m.seq']
  const way = (path: WaitingPath): Way => {
    if (path.by === 'all') return { from: byNumber, text: '', params: [], order }
    const name = encodeText(path.scope)
    if (path.by === 'key') {
      const params = [name, laneOfKey(path.key), encodeText(path.key)]
      return { from: by('key'), text: `${one} and m.lane = ? and m.key = ? and ${ORDERED[origin]}`, params, order }
    }
    if (path.by === 'held') {
      return { from: by('holds'), text: `${one} and m.held_at is not null`, params: [name], order }
    }
    return { from: by('tried'), text: `${one} and ${TRIED} and m.held_at is null`, params: [name], order }
  }
  return {
    origin,
    scope: SCOPES[origin],
    ordered: ORDERED[origin],
    way,
    byId: ({ from, to }) => {
      const text = `m.message_key between ${UUID} and ${UUID}`
      return { from: by('message'), text, params: [from, to], order: ['m.message_key'] }
    },
    byNumber: (numbers) => {
      return { from: byNumber, text: `m.seq in ${SEQS}`, params: [JSON.stringify(numbers)], order: [] }
    },
  }
}
