import type { Param } from '../../../contracts/index.ts'
import { type EndpointStatements, endpointLists, plain, statement, type WrittenEndpoint } from '../../sql/index.ts'
import { BY_KEY, MS, NOW, tables } from './fragments.ts'
import { bytes, text } from './rows.ts'

/** The endpoints of outgoing webhooks. */
export function endpoints(prefix: string): EndpointStatements {
  const { endpoints: table } = tables(prefix)
  const looked = `m.id, m.relay, m.url, m.types, m.enabled, m.reason, m.note, ${MS('m.created_at')} as created_at,
  ${MS('m.changed_at')} as changed_at`
  const columns = `${looked}, m.secrets`
  return {
    list: plain(`select ${columns} from ${table} as m order by m.relay, m.id`),
    look: plain(`select ${looked} from ${table} as m order by m.relay, m.id`),
    lock: statement(`select ${columns} from ${table} as m ${BY_KEY} where m.id = ? for update`, (id) => [text(id)]),
    insert: statement(
      `
insert into ${table} (relay, url, types, secrets, enabled, reason, note, id, created_at, changed_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, ${NOW})`,
      values,
    ),
    update: statement(
      `
update ${table} set relay = ?, url = ?, types = ?, secrets = ?, enabled = ?, reason = ?, note = ?, changed_at = ${NOW}
where id = ?`,
      values,
    ),
    delete: statement(`delete from ${table} where id = ?`, (id) => [text(id)]),
  }
}

function values(endpoint: WrittenEndpoint): readonly Param[] {
  const { id, relay, url, enabled, reason, note } = endpoint
  const texts = [reason, note].map((each) => (each === null ? null : text(each)))
  return [bytes(relay), text(url), ...endpointLists(endpoint).map(bytes), Number(enabled), ...texts, text(id)]
}
