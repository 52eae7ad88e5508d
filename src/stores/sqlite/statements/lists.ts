import { encodeText } from '../../../message/index.ts'
import type { ListStatements } from '../../sql/index.ts'
import { UUID } from './fragments.ts'

/** Lists of receipts and effects, on SQLite with one prefix. */
export function lists(prefix: string): ListStatements {
  const receipts = `
select message_key, source, id, type, taken_at from ${prefix}receipts
where consumer = ? and message_key < ${UUID} order by message_key desc limit ?`
  const effects = `
select e.message_key, e.name, e.state, e.token, e.attempts, null as result, e.error, e.first_at, e.last_at, r.source, r.id, r.type
from ${prefix}effects as e left join ${prefix}receipts as r on r.consumer = e.consumer and r.message_key = e.message_key
where e.consumer = ? and (e.message_key, e.name) < (${UUID}, ?) order by e.message_key desc, e.name desc limit ?`
  return {
    receipts: ({ consumer, messageKey }, limit) => ({ text: receipts, params: [consumer, messageKey, limit] }),
    effects: ({ consumer, messageKey, name }, limit) => ({
      text: effects,
      params: [consumer, messageKey, encodeText(name), limit],
    }),
  }
}
