import { type PauseStatements, plain, statement } from '../../sql/index.ts'
import { BY_KEY, MS, NOW, tables } from './fragments.ts'
import { bytes, text, textOrNull } from './rows.ts'

/** Consumers and relays that a person has paused. */
export function pauses(prefix: string): PauseStatements {
  const { pauses: table } = tables(prefix)
  const columns = `m.origin, m.scope, m.actor, m.note, ${MS('m.at')} as at`
  return {
    list: plain(`select ${columns} from ${table} as m order by m.origin, m.scope`),
    lock: statement(
      `select ${columns} from ${table} as m ${BY_KEY} where m.origin = ? and m.scope = ? for update`,
      (origin, scope) => [bytes(origin), text(scope)],
    ),
    insert: statement(
      `insert into ${table} (origin, scope, actor, note, at) values (?, ?, ?, ?, ${NOW})`,
      (origin, scope, { actor, note }) => [bytes(origin), text(scope), text(actor), textOrNull(note)],
    ),
    delete: statement(`delete from ${table} where origin = ? and scope = ?`, (origin, scope) => [
      bytes(origin),
      text(scope),
    ]),
  }
}
