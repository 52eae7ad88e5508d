// Delivery to consumers of the same database, without a broker: receipts and inbox rows are written in the publisher's transaction, so
// the messages are there if and only if that transaction commits.

import type { LocalDelivery, LocalResult, LocalRow, Param, Row } from '../../../contracts/index.ts'
import { encodeText, laneOf } from '../../../message/index.ts'
import { asNumber, asText, type Dialect } from '../../sql/index.ts'
import { array } from '../literal.ts'
import { ENTERED, LATER, SEQ } from './fragments.ts'
import { messageArrays } from './rows.ts'

/** Delivers messages to the consumers of this database. */
export function local(schema: string): Pick<Dialect, 'writeLocal' | 'lastLocal'> {
  const text = statement(schema)
  return {
    writeLocal: async (executor, rows, token, entered, followed) => {
      const answer = await executor.query(text, values(rows, token, entered, followed))
      return answer.rows.map(resultOf)
    },
    lastLocal: (rows, token) => ({
      // With many rows, how they are joined depends on how many: that is planned each time.
      statements: [{ text, params: values(rows, token), ...(rows.length <= FEW && { prepare: true }) }],
      results: ([answer]) => answer?.rows.map(resultOf) ?? [],
    }),
  }
}

const FEW = 5

function values(rows: readonly LocalRow[], token: string, entered = '', followed = false): readonly Param[] {
  const known = rows.flatMap(({ message, consumers }) =>
    consumers.map((consumer) => ({ type: message.type, consumer })),
  )
  return [
    ...messageArrays(rows.map((row) => row.message)),
    array(rows.map((row) => row.delayMs)),
    array(rows.map((row) => laneOf(row.message, false))),
    array(rows.map((row) => laneOf(row.message, true))),
    entered,
    array(known.map(({ type }) => encodeText(type))),
    array(known.map(({ consumer }) => consumer.name)),
    array(known.map(({ consumer }) => String(consumer.ordered))),
    token,
    followed ? entered : '',
  ]
}

function resultOf(row: Row): LocalResult {
  const delivered = row['delivered']
  return {
    consumers: asNumber(row['consumers']),
    fresh: asNumber(row['fresh']),
    rows: delivered === null ? [] : asText(delivered).split('\n').map(deliveryOf),
  }
}

/** A line: the seq, whether order counts, and the consumer, whose name may have spaces but no line break. */
function deliveryOf(line: string): LocalDelivery {
  const [seq = '', ordered, ...consumer] = line.split(' ')
  return { seq, ordered: ordered === 'true', consumer: consumer.join(' ') }
}

/** One statement: who listens, receipts where there are none, and an inbox row for each receipt that is new. */
function statement(schema: string): string {
  return `
with m as (
  select message_key, source, id, type, nullif(key, '') as key, attributes, data, fingerprint, delay_ms, lane, key_lane, place
  from unnest($1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::text[],
    $6::text::text[], $7::text::bytea[], $8::text::text[], $9::text::float8[], $10::text::smallint[],
    $11::text::smallint[])
    with ordinality as m (message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, lane, key_lane, place)
  where ${ENTERED('$12', '$17')}
), known as (
  select distinct * from unnest($13::text::text[], $14::text::text[], $15::text::boolean[])
    as known (type, consumer, ordered)
), listening as (
  select type, consumer, bool_or(ordered) as ordered from (
    select type, consumer, ordered from known
    union all
    select type, consumer, ordered from ${schema}.subscriptions where type in (select type from m)
  ) as either group by type, consumer
), target as (
  select m.*, listening.consumer, listening.ordered and m.key is not null as ordered
  from m join listening on listening.type = m.type
), receipt as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select consumer, message_key, $16::uuid, source, id, type, decode(fingerprint, 'hex') from target
  order by consumer, message_key
  on conflict do nothing
  returning consumer, message_key
), delivered as (
  insert into ${schema}.inbox
    (consumer, message_key, source, id, type, key, attributes, data, fingerprint, available_at, first_due_at,
      lane, ordered)
  select consumer, message_key, source, id, type, key, attributes, data, decode(fingerprint, 'hex'),
    ${LATER('delay_ms')}, ${LATER('delay_ms')}, case when ordered then key_lane else lane end, ordered
  from target join receipt using (consumer, message_key)
  order by place, consumer
  returning consumer, message_key, ${SEQ('inbox')} || ' ' || ordered || ' ' || consumer as line
)
select count(target.consumer) as consumers, count(delivered.consumer) as fresh,
  string_agg(delivered.line, chr(10)) as delivered
from m left join target using (place)
  left join delivered on delivered.consumer = target.consumer and delivered.message_key = target.message_key
group by place order by place`
}
