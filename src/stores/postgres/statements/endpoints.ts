import { encodeText } from '../../../message/index.ts'
import { type EndpointStatements, endpointLists, plain, statement, type WrittenEndpoint } from '../../sql/index.ts'
import { MS } from './fragments.ts'

/** The endpoints of outgoing webhooks. */
export function endpoints(schema: string): EndpointStatements {
  const looked = `id, relay, url, types, enabled, reason, note, ${MS('created_at')} as created_at, ${MS('changed_at')} as changed_at`
  const columns = `${looked}, secrets`
  return {
    list: plain(`select ${columns} from ${schema}.endpoints order by relay collate "C", id collate "C"`),
    look: plain(`select ${looked} from ${schema}.endpoints order by relay collate "C", id collate "C"`),
    lock: statement(`select ${columns} from ${schema}.endpoints where id = $1::text for update`, (id) => [
      encodeText(id),
    ]),
    insert: statement(
      `
insert into ${schema}.endpoints (relay, url, types, secrets, enabled, reason, note, id)
values ($1::text, $2::text, $3::text, $4::text, $5::boolean, $6::text, $7::text, $8::text)`,
      values,
    ),
    update: statement(
      `
update ${schema}.endpoints set relay = $1::text, url = $2::text, types = $3::text, secrets = $4::text, enabled = $5::boolean,
  reason = $6::text, note = $7::text, changed_at = clock_timestamp()
where id = $8::text`,
      values,
    ),
    delete: statement(`delete from ${schema}.endpoints where id = $1::text`, (id) => [encodeText(id)]),
  }
}

function values(endpoint: WrittenEndpoint) {
  const { id, relay, url, enabled, reason, note } = endpoint
  const texts = [reason, note].map((text) => (text === null ? null : encodeText(text)))
  return [relay, encodeText(url), ...endpointLists(endpoint), String(enabled), ...texts, encodeText(id)]
}
