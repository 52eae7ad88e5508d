// Responses to HTTP requests on SQLite. The transaction that looks for them holds the only write lock.

import type { ResponseRow } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import { type RequestKey, type ResponseStatements, responseColumns, statement } from '../../sql/index.ts'
import { LATER, UUID } from './fragments.ts'
import { NOW } from './migrations.ts'

/** Responses. */
export function responses(prefix: string): ResponseStatements {
  const expired = `p.expires_at <= ${NOW}
  and not exists (select 1 from ${prefix}inbox as i where i.message_key = p.message_key and i.consumer = p.consumer)
  and not exists (select 1 from ${prefix}failed as f
    where f.consumer = p.consumer and f.message_key = p.message_key and f.origin = 'inbox')`
  const deleteTexts = ['responses', 'receipts', 'effects'].map(
    (table) => `delete from ${prefix}${table} where consumer = ? and message_key = ${UUID}`,
  )
  const written = statement(
    `
insert into ${prefix}responses (expires_at, consumer, message_key, id, status, headers, body)
values (${LATER}, ?, ${UUID}, ?, ?, ?, ?)
on conflict (consumer, message_key) do update set created_at = excluded.created_at, expires_at = excluded.expires_at,
  id = excluded.id, status = excluded.status, headers = excluded.headers, body = excluded.body`,
    ({ consumer, messageKey, id, response, keepMs }: ResponseRow) => [
      ...[keepMs, consumer, messageKey, encodeText(id)],
      ...responseColumns(response),
    ],
  )
  return {
    write: (row) => [written(row)],
    read: statement(
      `
select r.message_key, r.token, r.source, r.id, r.type, r.fingerprint, r.taken_at,
  p.status, p.headers, p.body, p.expires_at <= ${NOW} as expired
from ${prefix}receipts as r
left join ${prefix}responses as p on p.consumer = r.consumer and p.message_key = r.message_key
where r.consumer = ? and r.message_key = ${UUID}`,
      keyOf,
    ),
    lockExpired: statement(
      `
select p.consumer, p.message_key from ${prefix}responses as p where ${expired} order by p.expires_at limit ?`,
      (limit) => [limit],
    ),
    lockOne: statement(
      `
select p.consumer, p.message_key from ${prefix}responses as p
where p.consumer = ? and p.message_key = ${UUID} and ${expired}`,
      keyOf,
    ),
    delete: (keys) => keys.flatMap((key) => deleteTexts.map((text) => ({ text, params: keyOf(key) }))),
  }
}

function keyOf({ consumer, messageKey }: RequestKey): readonly [string, string] {
  return [consumer, messageKey]
}
