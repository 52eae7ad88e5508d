import { encodeText } from '../../../message/index.ts'
import { type PauseStatements, plain, statement } from '../../sql/index.ts'
import { MS } from './fragments.ts'
import { encoded } from './rows.ts'

/** Consumers and relays that a person has paused. */
export function pauses(schema: string): PauseStatements {
  const columns = `origin, scope, actor, note, ${MS('at')} as at`
  const one = 'origin = $1::text and scope = $2::text'
  return {
    list: plain(`select ${columns} from ${schema}.pauses order by origin collate "C", scope collate "C"`),
    lock: statement(`select ${columns} from ${schema}.pauses where ${one} for update`, (origin, scope) => [
      origin,
      encodeText(scope),
    ]),
    insert: statement(
      `insert into ${schema}.pauses (origin, scope, actor, note) values ($1::text, $2::text, $3::text, $4::text)`,
      (origin, scope, { actor, note }) => [origin, encodeText(scope), encodeText(actor), encoded(note)],
    ),
    delete: statement(`delete from ${schema}.pauses where ${one}`, (origin, scope) => [origin, encodeText(scope)]),
  }
}
