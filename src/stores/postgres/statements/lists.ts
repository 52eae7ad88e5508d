import { encodeText } from '../../../message/index.ts'
import type { ListStatements } from '../../sql/index.ts'
import { MS } from './fragments.ts'

/** Lists of receipts and effects, on PostgreSQL in one schema. They are ordered by the whole key: anything else is sorted first. */
export function lists(schema: string): ListStatements {
  const receipts = `
select message_key::text as message_key, source, id, type, ${MS('taken_at')} as taken_at from ${schema}.receipts
where consumer = $1::text and receipts.message_key < $2::uuid
order by consumer desc, receipts.message_key desc limit $3::integer`
  const effects = `
select e.message_key::text as message_key, e.name, e.state, e.token::text as token, e.attempts, null as result, e.error,
  ${MS('e.first_at')} as first_at, ${MS('e.last_at')} as last_at, r.source, r.id, r.type
from (
  select * from ${schema}.effects where consumer = $1::text and (message_key, name) < ($2::uuid, $3::text)
  order by consumer desc, message_key desc, name desc limit $4::integer
) as e left join ${schema}.receipts r on r.consumer = e.consumer and r.message_key = e.message_key
order by e.message_key desc, e.name desc`
  return {
    receipts: ({ consumer, messageKey }, limit) => ({ text: receipts, params: [consumer, messageKey, limit] }),
    effects: ({ consumer, messageKey, name }, limit) => ({
      text: effects,
      params: [consumer, messageKey, encodeText(name), limit],
    }),
  }
}
