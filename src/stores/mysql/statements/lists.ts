import { type ListStatements, uuidBytes } from '../../sql/index.ts'
import { BY_KEY, MS } from './fragments.ts'
import { bytes, text } from './rows.ts'

const LIMIT = (limit: number): string => `limit ${Math.trunc(limit)}`

/** Lists of receipts and effects, on MariaDB and MySQL with one prefix. */
export function lists(prefix: string): ListStatements {
  const receipts = (limit: number): string => `
select message_key, source, id, type, ${MS('taken_at')} as taken_at from ${prefix}receipts ${BY_KEY}
where consumer = ? and message_key < ? order by message_key desc ${LIMIT(limit)}`
  // Not as a comparison of pairs, which these servers do not look up in an index.
  const effects = (limit: number): string => `
select e.message_key, e.name, e.state, e.token, e.attempts, null as result, e.error, ${MS('e.first_at')} as first_at,
  ${MS('e.last_at')} as last_at, r.source, r.id, r.type
from (
  select * from ${prefix}effects ${BY_KEY}
  where consumer = ? and message_key <= ? and (message_key < ? or name < ?)
  order by message_key desc, name desc ${LIMIT(limit)}
) as e left join ${prefix}receipts as r on r.consumer = e.consumer and r.message_key = e.message_key
order by e.message_key desc, e.name desc`
  return {
    receipts: ({ consumer, messageKey }, limit) => ({
      text: receipts(limit),
      params: [bytes(consumer), uuidBytes(messageKey)],
    }),
    effects: ({ consumer, messageKey, name }, limit) => ({
      text: effects(limit),
      params: [bytes(consumer), uuidBytes(messageKey), uuidBytes(messageKey), text(name)],
    }),
  }
}
