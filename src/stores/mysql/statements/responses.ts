// Responses to HTTP requests on MariaDB and MySQL. Who takes a key locks its receipt, so what is deleted is locked with its receipt, the
// receipt first: two transactions that lock in different orders deadlock.

import type { Param, ResponseRow } from '../../../contracts/index.ts'
import { type RequestKey, type ResponseStatements, responseColumns, statement, uuidBytes } from '../../sql/index.ts'
import { BY_KEY, LATER, LIMIT, MS, NOW, tables } from './fragments.ts'
import { bytes, microseconds, text } from './rows.ts'

/** Responses. */
export function responses(prefix: string): ResponseStatements {
  const { receipts, responses: kept, inbox, failed, effects } = tables(prefix)
  const isExpired = `expires_at <= ${NOW}`
  // A derived table, which is not locked: the inbox must not be. Lookups with a limit, because EXISTS may be planned to read whole tables.
  // A response that has lost its receipt stays until its key comes again.
  const finished = (where: string): string => `
  select p.consumer, p.message_key from ${kept} as p ${where}
  and (select 1 from ${receipts} as o ${BY_KEY}
    where o.consumer = p.consumer and o.message_key = p.message_key limit 1) is not null
  and (select 1 from ${inbox} as i force index (inbox_message)
    where i.message_key = p.message_key and i.consumer = p.consumer limit 1) is null
  and (select 1 from ${failed} as f force index (failed_message)
    where f.consumer = p.consumer and f.message_key = p.message_key and f.origin = 'inbox' limit 1) is null`
  const lockText = (found: string, locked: string): string => `
select m.consumer, m.message_key from (${found}) as old
straight_join ${receipts} as r ${BY_KEY} on r.consumer = old.consumer and r.message_key = old.message_key
straight_join ${kept} as m ${BY_KEY} on m.consumer = old.consumer and m.message_key = old.message_key
where m.${isExpired} for update ${locked}`
  const deleteTexts = [kept, receipts, effects].map(
    (table) => `delete from ${table} where consumer = ? and message_key = ?`,
  )
  const written = statement(
    `
insert into ${kept} (created_at, expires_at, consumer, message_key, id, status, headers, body)
values (${NOW}, ${LATER}, ?, ?, ?, ?, ?, ?)
on duplicate key update created_at = values(created_at), expires_at = values(expires_at), id = values(id), status = values(status),
  headers = values(headers), body = values(body)`,
    ({ consumer, messageKey, id, response, keepMs }: ResponseRow) => {
      const [status, headers, body] = responseColumns(response)
      const content = [status, bytes(headers), Buffer.from(body.buffer, body.byteOffset, body.byteLength)]
      return [microseconds(keepMs), ...keyOf({ consumer, messageKey }), text(id), ...content]
    },
  )
  return {
    write: (row) => [written(row)],
    read: statement(
      `
select r.message_key, r.token, r.source, r.id, r.type, r.fingerprint, ${MS('r.taken_at')} as taken_at,
  p.status, p.headers, p.body, p.${isExpired} as expired
from ${receipts} as r ${BY_KEY}
left join ${kept} as p ${BY_KEY} on p.consumer = r.consumer and p.message_key = r.message_key
where r.consumer = ? and r.message_key = ?`,
      keyOf,
    ),
    lockExpired: (limit) => ({
      text: lockText(
        `${finished(`force index (responses_expiry) where p.${isExpired}`)} order by p.expires_at ${LIMIT(limit)}`,
        'skip locked',
      ),
      params: [],
    }),
    lockOne: statement(
      lockText(`${finished(`where p.consumer = ? and p.message_key = ? and p.${isExpired}`)} limit 1`, ''),
      keyOf,
    ),
    delete: (keys) => keys.flatMap((key) => deleteTexts.map((text) => ({ text, params: keyOf(key) }))),
  }
}

function keyOf({ consumer, messageKey }: RequestKey): readonly Param[] {
  return [bytes(consumer), uuidBytes(messageKey)]
}
