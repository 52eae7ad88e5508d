import { encodeText, numberOf } from '../../../message/index.ts'
import { conditionsJson, errorJson, type OperationStatements, plain, statement } from '../../sql/index.ts'
import { LATER, MS } from './fragments.ts'
import { encoded, one } from './rows.ts'

const LEASED = '(token is not null and leased_until > clock_timestamp())'
const COLUMNS = `id, kind, conditions, per_second::numeric::text as per_second, up_to || '-' || up_to_mark as up_to, total, state,
  after_seq || '-' || after_mark as after_row, done, gone, errors, error, actor, note, ${MS('created_at')} as created_at,
  ${MS('changed_at')} as changed_at, ${MS('ended_at')} as ended_at, state = 'running' and ${LEASED} as worked`
/** Whether this row was not visited before. What was recorded already, by a call whose answer was lost, must not count twice. */
const FURTHER = (number: string): string => `${number}::bigint > coalesce(after_seq, 0)`
/** The row that was visited last, by its number. */
const VISITED = (number: string, mark: string, again: string): string =>
  `after_mark = case when ${FURTHER(number)} then ${mark}::bigint else after_mark end,
  after_seq = greatest(after_seq, ${again}::bigint)`

/** Changes to many rows. */
export function operations(schema: string): OperationStatements {
  const table = `${schema}.operations`
  const free = `state = 'running' and not ${LEASED}`
  const freeText = `select ${COLUMNS} from ${table} where ${free} order by operations.id limit 1`
  const freeOneText = `select ${COLUMNS} from ${table} where operations.id = $1::text and ${free}`
  const freeOf = (locking: string): OperationStatements['free'] => {
    const [oldest, named] = [`${freeText}${locking}`, `${freeOneText}${locking}`]
    return (id) => (id === undefined ? { text: oldest, params: [] } : { text: named, params: [encodeText(id)] })
  }
  return {
    clock: statement(`select ${MS('clock_timestamp()')} as now`, () => []),
    // The lock is given back at once; meanwhile, others wait behind it.
    writers: (kind) => [
      plain(`set local lock_timeout = '200ms'`),
      plain(`lock table ${schema}.${kind === 'republish' ? 'sent' : 'failed'} in share mode`),
    ],
    insert: statement(
      `
insert into ${table} (id, kind, conditions, per_second, up_to, up_to_mark, total, actor, note)
values ($1::text, $2::text, $3::text, $4::float8, $5::bigint, $6::bigint, $7::bigint, $8::text, $9::text)`,
      ({ work, draft, audit, upTo, lastFailure, total }) => [
        encodeText(draft.id),
        work.kind,
        conditionsJson({ work, lastFailure }),
        draft.perSecond,
        ...(upTo === null ? [null, null] : one(upTo)),
        total,
        encodeText(audit.actor),
        encoded(audit.note),
      ],
    ),
    get: statement(`select ${COLUMNS} from ${table} where operations.id = $1::text`, (id) => [encodeText(id)]),
    list: (before, limit) =>
      before === undefined
        ? { text: `select ${COLUMNS} from ${table} order by operations.id desc limit $1::integer`, params: [limit] }
        : {
            text: `select ${COLUMNS} from ${table} where operations.id < $1::text order by operations.id desc limit $2::integer`,
            params: [encodeText(before), limit],
          },
    free: freeOf(''),
    lockFree: freeOf(' for update skip locked'),
    lease: statement(
      `update ${table} set token = $1::text, leased_until = ${LATER('$2::float8')} where id = $3::text`,
      (id, token, leaseMs) => [token, leaseMs, encodeText(id)],
    ),
    lockHeld: statement(
      `select ${COLUMNS} from ${table} where operations.id = $1::text and token = $2::text for update`,
      ({ id, token }) => [encodeText(id), token],
    ),
    advance: statement(
      `
update ${table} set gone = gone + case when ${FURTHER('$1')} then $2::bigint else 0 end,
  errors = errors + case when ${FURTHER('$3')} then $4::bigint else 0 end, error = coalesce($5::text, error),
  changed_at = clock_timestamp(), token = case when state = 'running' then token end, leased_until = ${LATER('$6::float8')},
  ${VISITED('$7', '$8', '$9')}
where id = $10::text`,
      (id, leaseMs, { after, gone, errors, error }) => [
        ...[numberOf(after ?? '0-0'), gone, numberOf(after ?? '0-0'), errors],
        ...[error && errorJson(error), leaseMs],
        ...visited(after ?? '0-0'),
        encodeText(id),
      ],
    ),
    end: statement(
      `
update ${table} set state = 'done', ended_at = clock_timestamp(), token = null, gone = greatest(gone, total - done - errors)
where id = $1::text and ended_at is null`,
      (id) => [encodeText(id)],
    ),
    count: statement(
      `
update ${table} set done = done + 1, changed_at = clock_timestamp(), ${VISITED('$1', '$2', '$3')}
where id = $4::text`,
      (id, seq) => [...visited(seq), encodeText(id)],
    ),
    release: statement(`update ${table} set token = null where id = $1::text and token = $2::text`, ({ id, token }) => [
      encodeText(id),
      token,
    ]),
    lockOther: statement(
      `
select ${COLUMNS} from ${table} where operations.id = $1::text and operations.ended_at is null and state <> $2::text for update`,
      (id, state) => [encodeText(id), state],
    ),
    change: statement(
      `
update ${table} set state = $1::text, changed_at = clock_timestamp(),
  ended_at = case when $2::text = 'cancelled' then clock_timestamp() end
where id = $3::text`,
      (id, state) => [state, state, encodeText(id)],
    ),
  }
}

/** The parameters of `VISITED`. */
function visited(seq: string): readonly [string, string, string] {
  return [...one(seq), numberOf(seq)]
}
