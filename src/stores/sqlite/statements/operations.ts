import { encodeText, markOf, numberOf } from '../../../message/index.ts'
import { conditionsJson, errorJson, type OperationStatements, statement } from '../../sql/index.ts'
import { LATER } from './fragments.ts'
import { NOW } from './migrations.ts'
import { encoded, one } from './rows.ts'

const LEASED = `(token is not null and leased_until > ${NOW})`
const COLUMNS = `id, kind, conditions, per_second, up_to || '-' || up_to_mark as up_to, total, state,
  after_seq || '-' || after_mark as after_row, done, gone, errors, error, actor, note, created_at, changed_at, ended_at,
  state = 'running' and ${LEASED} as worked`
/** Whether this row was not visited before. What was recorded already, by a call whose answer was lost, must not count twice. */
const FURTHER = 'cast(? as integer) > coalesce(after_seq, 0)'
/** The row that was visited last, by its number. */
const VISITED = `after_mark = iif(${FURTHER}, cast(? as integer), after_mark),
  after_seq = max(coalesce(after_seq, 0), cast(? as integer))`

/** Changes to many rows. */
export function operations(prefix: string): OperationStatements {
  const table = `${prefix}operations`
  const free = `state = 'running' and not ${LEASED}`
  const freeText = `select ${COLUMNS} from ${table} where ${free} order by id limit 1`
  const freeOneText = `select ${COLUMNS} from ${table} where id = ? and ${free}`
  const freeOf: OperationStatements['free'] = (id) => {
    return id === undefined ? { text: freeText, params: [] } : { text: freeOneText, params: [encodeText(id)] }
  }
  return {
    clock: statement(`select ${NOW} as now`, () => []),
    // There is one writer.
    writers: () => [],
    insert: statement(
      `
insert into ${table} (id, kind, conditions, per_second, up_to, up_to_mark, total, actor, note)
values (?, ?, ?, ?, cast(? as integer), cast(? as integer), ?, ?, ?)`,
      ({ work, draft, audit, upTo, lastFailure, total }) => [
        encodeText(draft.id),
        work.kind,
        conditionsJson({ work, lastFailure }),
        draft.perSecond,
        ...named(upTo),
        total,
        encodeText(audit.actor),
        encoded(audit.note),
      ],
    ),
    get: statement(`select ${COLUMNS} from ${table} where id = ?`, (id) => [encodeText(id)]),
    list: (before, limit) =>
      before === undefined
        ? { text: `select ${COLUMNS} from ${table} order by id desc limit ?`, params: [limit] }
        : {
            text: `select ${COLUMNS} from ${table} where id < ? order by id desc limit ?`,
            params: [encodeText(before), limit],
          },
    free: freeOf,
    lockFree: freeOf,
    lease: statement(`update ${table} set token = ?, leased_until = ${LATER} where id = ?`, (id, token, leaseMs) => [
      token,
      leaseMs,
      encodeText(id),
    ]),
    lockHeld: statement(`select ${COLUMNS} from ${table} where id = ? and token = ?`, ({ id, token }) => [
      encodeText(id),
      token,
    ]),
    advance: statement(
      `
update ${table} set gone = gone + iif(${FURTHER}, ?, 0), errors = errors + iif(${FURTHER}, ?, 0), error = coalesce(?, error), changed_at = ${NOW},
  token = iif(state = 'running', token, null), leased_until = ${LATER}, ${VISITED}
where id = ?`,
      (id, leaseMs, { after, gone, errors, error }) => [
        ...[numberOf(after ?? '0-0'), gone, numberOf(after ?? '0-0'), errors],
        ...[error && errorJson(error), leaseMs],
        ...visited(after ?? '0-0'),
        encodeText(id),
      ],
    ),
    end: statement(
      `
update ${table} set state = 'done', ended_at = ${NOW}, token = null, gone = max(gone, total - done - errors)
where id = ? and ended_at is null`,
      (id) => [encodeText(id)],
    ),
    count: statement(`update ${table} set done = done + 1, changed_at = ${NOW}, ${VISITED} where id = ?`, (id, seq) => [
      ...visited(seq),
      encodeText(id),
    ]),
    release: statement(`update ${table} set token = null where id = ? and token = ?`, ({ id, token }) => [
      encodeText(id),
      token,
    ]),
    lockOther: statement(
      `select ${COLUMNS} from ${table} where id = ? and ended_at is null and state <> ?`,
      (id, state) => [encodeText(id), state],
    ),
    change: statement(
      `update ${table} set state = ?, changed_at = ${NOW}, ended_at = iif(? = 'cancelled', ${NOW}, null) where id = ?`,
      (id, state) => [state, state, encodeText(id)],
    ),
  }
}

/** The parameters of `VISITED`. */
function visited(seq: string): readonly [string, string, string] {
  return [numberOf(seq), markOf(seq), numberOf(seq)]
}

function named(seq: string | null): readonly [string | null, string | null] {
  return seq === null ? [null, null] : one(seq)
}
