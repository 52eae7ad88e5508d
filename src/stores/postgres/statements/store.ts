// Deliveries with their receipts, by one statement. The receipts are written in the order of their keys, as everywhere: two groups that
// insert in different order deadlock. The rows get their numbers in the order of the messages.

import type { Deliveries, Result } from '../../../contracts/index.ts'
import { laneOf } from '../../../message/index.ts'
import { asText, type InboxStatements } from '../../sql/index.ts'
import { array } from '../literal.ts'
import { SEQ } from './fragments.ts'
import { messageArrays } from './rows.ts'

/** Stores deliveries. */
export function store(schema: string): InboxStatements['store'] {
  const text = statement(schema)
  return (deliveries) => {
    const { consumer, token, messages, ordered, starts } = deliveries
    const lanes = array(messages.map((message) => laneOf(message, ordered)))
    const params = [...messageArrays(messages), lanes, consumer, token, String(ordered), starts, consumer]
    return { statement: { text, params, prepare: true }, seqs: (answer) => seqsOf(deliveries, answer) }
  }
}

/** One row comes back: the seqs in the order of the messages, with nothing in the place of those that were there before. */
function seqsOf({ messages }: Deliveries, answer: Result | undefined): ReadonlyMap<string, string> {
  const list = asText(answer?.rows[0]?.['seqs']).split(',')
  const seqs = new Map<string, string>()
  for (const [index, { messageKey }] of messages.entries()) if (list[index]) seqs.set(messageKey, list[index])
  return seqs
}

function statement(schema: string): string {
  return `
with m as (
  select message_key, source, id, type, nullif(key, '') as key, attributes, data, decode(fingerprint, 'hex') as fingerprint, lane, place
  from unnest($1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::text[],
    $6::text::text[], $7::text::bytea[], $8::text::text[], $9::text::smallint[])
    with ordinality as m (message_key, source, id, type, key, attributes, data, fingerprint, lane, place)
), receipt as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select $10::text, message_key, $11::uuid, source, id, type, fingerprint from m
  order by message_key
  on conflict do nothing
  returning message_key
), stored as (
  insert into ${schema}.inbox
    (message_key, source, id, type, key, attributes, data, fingerprint, available_at, lane, ordered, starts, consumer)
  select message_key, source, id, type, key, attributes, data, fingerprint, clock_timestamp(), lane,
    $12::boolean and key is not null, $13::integer, $14::text
  from m join receipt using (message_key)
  order by place
  returning message_key, ${SEQ('inbox')} as seq
)
select string_agg(coalesce(stored.seq, ''), ',' order by place) as seqs from m left join stored using (message_key)`
}
