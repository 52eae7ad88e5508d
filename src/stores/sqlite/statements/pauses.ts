import { encodeText } from '../../../message/index.ts'
import { type PauseStatements, plain, statement } from '../../sql/index.ts'
import { encoded } from './rows.ts'

/** Consumers and relays that a person has paused. */
export function pauses(prefix: string): PauseStatements {
  const columns = 'origin, scope, actor, note, at'
  const one = 'origin = ? and scope = ?'
  return {
    list: plain(`select ${columns} from ${prefix}pauses order by origin, scope`),
    lock: statement(`select ${columns} from ${prefix}pauses where ${one}`, (origin, scope) => [
      origin,
      encodeText(scope),
    ]),
    insert: statement(
      `insert into ${prefix}pauses (origin, scope, actor, note) values (?, ?, ?, ?)`,
      (origin, scope, { actor, note }) => [origin, encodeText(scope), encodeText(actor), encoded(note)],
    ),
    delete: statement(`delete from ${prefix}pauses where ${one}`, (origin, scope) => [origin, encodeText(scope)]),
  }
}
