import { encodeText } from '../../../message/index.ts'
import { type EndpointStatements, endpointLists, plain, statement, type WrittenEndpoint } from '../../sql/index.ts'
import { NOW } from './migrations.ts'

/** The endpoints of outgoing webhooks. */
export function endpoints(prefix: string): EndpointStatements {
  const looked = 'id, relay, url, types, enabled, reason, note, created_at, changed_at'
  const columns = `${looked}, secrets`
  return {
    list: plain(`select ${columns} from ${prefix}endpoints order by relay, id`),
    look: plain(`select ${looked} from ${prefix}endpoints order by relay, id`),
    lock: statement(`select ${columns} from ${prefix}endpoints where id = ?`, (id) => [encodeText(id)]),
    insert: statement(
      `
insert into ${prefix}endpoints (relay, url, types, secrets, enabled, reason, note, id) values (?, ?, ?, ?, ?, ?, ?, ?)`,
      values,
    ),
    update: statement(
      `
update ${prefix}endpoints set relay = ?, url = ?, types = ?, secrets = ?, enabled = ?, reason = ?, note = ?, changed_at = ${NOW}
where id = ?`,
      values,
    ),
    delete: statement(`delete from ${prefix}endpoints where id = ?`, (id) => [encodeText(id)]),
  }
}

function values(endpoint: WrittenEndpoint) {
  const { id, relay, url, enabled, reason, note } = endpoint
  const texts = [reason, note].map((text) => (text === null ? null : encodeText(text)))
  return [relay, encodeText(url), ...endpointLists(endpoint), Number(enabled), ...texts, encodeText(id)]
}
