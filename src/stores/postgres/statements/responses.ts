// Responses to HTTP requests on PostgreSQL. A response is locked before it is deleted with its receipt and its journal; who takes the key
// locks nothing.

import type { ResponseRow } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import { prepared, type RequestKey, type ResponseStatements, responseColumns, statement } from '../../sql/index.ts'
import { array } from '../literal.ts'
import { LATER, MS } from './fragments.ts'

/** Responses. */
export function responses(schema: string): ResponseStatements {
  // Lookups of their own, not joins: those may be planned to read all of the inbox. An index is searched by the time of the statement, and
  // not by that of the clock.
  const expired = (now: string): string => `p.expires_at <= ${now}
  and (select true from ${schema}.inbox i where i.message_key = p.message_key and i.consumer = p.consumer limit 1) is null
  and (select true from ${schema}.failed f
    where f.consumer = p.consumer and f.message_key = p.message_key and f.origin = 'inbox' limit 1) is null`
  // One lookup for each key; OFFSET keeps it from being planned as a join, which may read all rows.
  const deleteText = (table: string): string => `
delete from ${schema}.${table} where ctid = any (array(
  select t.place from unnest($1::text::text[], $2::text::uuid[]) as k (consumer, message_key)
  cross join lateral (select m.ctid as place from ${schema}.${table} m
    where m.consumer = k.consumer and m.message_key = k.message_key offset 0) as t))`
  const deleteTexts = ['responses', 'receipts', 'effects'].map(deleteText)
  // Two statements, because ON CONFLICT DO UPDATE names a key: see `dialect`.
  const removed = prepared(
    `delete from ${schema}.responses where consumer = $1::text and message_key = $2::uuid`,
    keyOf,
  )
  const written = prepared(
    `
insert into ${schema}.responses (expires_at, consumer, message_key, id, status, headers, body)
values (${LATER('$1::float8')}, $2::text, $3::uuid, $4::text, $5::integer, $6::text, $7::bytea)`,
    ({ consumer, messageKey, id, response, keepMs }: ResponseRow) => [
      ...[keepMs, consumer, messageKey, encodeText(id)],
      ...responseColumns(response),
    ],
  )
  return {
    write: (row) => [removed(row), written(row)],
    read: prepared(
      `
select r.message_key::text as message_key, r.token::text as token, r.source, r.id, r.type,
  encode(r.fingerprint, 'hex') as fingerprint, ${MS('r.taken_at')} as taken_at,
  p.status, p.headers, p.body, p.expires_at <= clock_timestamp() as expired
from ${schema}.receipts r
left join ${schema}.responses p on p.consumer = r.consumer and p.message_key = r.message_key
where r.consumer = $1::text and r.message_key = $2::uuid`,
      keyOf,
    ),
    lockExpired: statement(
      `
select p.consumer, p.message_key::text as message_key from ${schema}.responses p
where ${expired('statement_timestamp()')}
order by p.expires_at limit $1::integer for update of p skip locked`,
      (limit) => [limit],
    ),
    lockOne: statement(
      `
select p.consumer, p.message_key::text as message_key from ${schema}.responses p
where p.consumer = $1::text and p.message_key = $2::uuid and ${expired('clock_timestamp()')}
for update of p`,
      keyOf,
    ),
    delete: (keys) => {
      const params = [array(keys.map(({ consumer }) => consumer)), array(keys.map(({ messageKey }) => messageKey))]
      return deleteTexts.map((text) => ({ text, params }))
    },
  }
}

function keyOf({ consumer, messageKey }: RequestKey): readonly [string, string] {
  return [consumer, messageKey]
}
