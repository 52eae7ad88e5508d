import { numberOf } from '../../../message/index.ts'
import { conditionsJson, errorJson, MYSQL_ONLY, type OperationStatements, plain, statement } from '../../sql/index.ts'
import { BY_KEY, LATER, LIMIT, LOCK_WAIT, MS, NOW, SEQ, tables } from './fragments.ts'
import { bytes, microseconds, one, text, textOrNull } from './rows.ts'

const LEASED = `(m.token is not null and m.leased_until > ${NOW})`
const COLUMNS = `m.id, m.kind, m.conditions, m.per_second, concat(m.up_to, '-', m.up_to_mark) as up_to, m.total, m.state,
  concat(m.after_seq, '-', m.after_mark) as after_row, m.done, m.gone, m.errors, m.error, m.actor, m.note,
  ${MS('m.created_at')} as created_at, ${MS('m.changed_at')} as changed_at, ${MS('m.ended_at')} as ended_at,
  if(m.state = 'running' and ${LEASED}, 1, 0) as worked`
/** Whether this row was not visited before. What was recorded already, by a call whose answer was lost, must not count twice. */
const FURTHER = `${SEQ} > coalesce(after_seq, 0)`
/** The row that was visited last, by its number. Columns are assigned one after the other: the mark first, while the number is the old one. */
const VISITED = `after_mark = if(${FURTHER}, ${SEQ}, after_mark), after_seq = greatest(coalesce(after_seq, 0), ${SEQ})`

/** Changes to many rows. */
export function operations(prefix: string): OperationStatements {
  const { operations: table, failed, sent } = tables(prefix)
  const free = `m.state = 'running' and not ${LEASED}`
  const freeText = `select ${COLUMNS} from ${table} as m force index (operations_state) where ${free} order by m.id limit 1`
  const freeOneText = `select ${COLUMNS} from ${table} as m ${BY_KEY} where m.id = ? and ${free}`
  const listText = (limit: number) =>
    `select ${COLUMNS} from ${table} as m ${BY_KEY} order by m.id desc ${LIMIT(limit)}`
  const listBeforeText = (limit: number) =>
    `select ${COLUMNS} from ${table} as m ${BY_KEY} where m.id < ? order by m.id desc ${LIMIT(limit)}`
  const freeOf = (locking: string): OperationStatements['free'] => {
    const [oldest, named] = [`${freeText}${locking}`, `${freeOneText}${locking}`]
    return (id) => (id === undefined ? { text: oldest, params: [] } : { text: named, params: [text(id)] })
  }
  return {
    clock: statement(`select timestampdiff(microsecond, '1970-01-01', ${NOW}) div 1000 as now`, () => []),
    writers: (kind) => [plain(writersText(kind === 'republish' ? sent : failed))],
    insert: statement(
      `
insert into ${table} (id, kind, conditions, per_second, up_to, up_to_mark, total, actor, note, created_at, changed_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, ${NOW})`,
      ({ work, draft, audit, upTo, lastFailure, total }) => [
        text(draft.id),
        bytes(work.kind),
        bytes(conditionsJson({ work, lastFailure })),
        draft.perSecond,
        ...(upTo === null ? [null, null] : one(upTo)),
        total,
        text(audit.actor),
        textOrNull(audit.note),
      ],
    ),
    get: statement(`select ${COLUMNS} from ${table} as m ${BY_KEY} where m.id = ?`, (id) => [text(id)]),
    list: (before, limit) =>
      before === undefined
        ? { text: listText(limit), params: [] }
        : { text: listBeforeText(limit), params: [text(before)] },
    free: freeOf(''),
    lockFree: freeOf(' for update skip locked'),
    lease: statement(`update ${table} set token = ?, leased_until = ${LATER} where id = ?`, (id, token, leaseMs) => [
      bytes(token),
      microseconds(leaseMs),
      text(id),
    ]),
    lockHeld: statement(
      `select ${COLUMNS} from ${table} as m ${BY_KEY} where m.id = ? and m.token = ? for update`,
      ({ id, token }) => [text(id), bytes(token)],
    ),
    advance: statement(
      `
update ${table} set gone = gone + if(${FURTHER}, ?, 0), errors = errors + if(${FURTHER}, ?, 0), error = coalesce(?, error), changed_at = ${NOW},
  token = if(state = 'running', token, null), leased_until = ${LATER}, ${VISITED}
where id = ?`,
      (id, leaseMs, { after, gone, errors, error }) => [
        ...[numberOf(after ?? '0-0'), gone, numberOf(after ?? '0-0'), errors],
        ...[error && bytes(errorJson(error)), microseconds(leaseMs)],
        ...visited(after ?? '0-0'),
        text(id),
      ],
    ),
    end: statement(
      `
update ${table} set state = 'done', ended_at = ${NOW}, token = null, gone = greatest(gone, total - done - errors)
where id = ? and ended_at is null`,
      (id) => [text(id)],
    ),
    count: statement(`update ${table} set done = done + 1, changed_at = ${NOW}, ${VISITED} where id = ?`, (id, seq) => [
      ...visited(seq),
      text(id),
    ]),
    release: statement(`update ${table} set token = null where id = ? and token = ?`, ({ id, token }) => [
      text(id),
      bytes(token),
    ]),
    lockOther: statement(
      `select ${COLUMNS} from ${table} as m ${BY_KEY} where m.id = ? and m.ended_at is null and m.state <> ? for update`,
      (id, state) => [text(id), bytes(state)],
    ),
    change: statement(
      `update ${table} set state = ?, changed_at = ${NOW}, ended_at = if(? = 'cancelled', ${NOW}, null) where id = ?`,
      (id, state) => [bytes(state), bytes(state), text(id)],
    ),
  }
}

/**
 * Whoever is writing a row has it locked, and what is being written is among the newest. This does not wait: whoever waits here could be in
 * a deadlock with handlers.
 */
function writersText(table: string): string {
  return `
${LOCK_WAIT(0)} select m.seq from ${table} as m ${BY_KEY} order by m.seq desc limit 1000 for update ${MYSQL_ONLY} nowait */`
}

/** The parameters of `VISITED`. */
function visited(seq: string): readonly [string, string, string] {
  return [...one(seq), numberOf(seq)]
}
