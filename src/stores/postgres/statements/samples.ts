import { encodeText } from '../../../message/index.ts'
import { type SampleStatements, statement } from '../../sql/index.ts'
import { array } from '../literal.ts'
import { AGO, MS } from './fragments.ts'

/** What workers have counted. */
export function samples(schema: string): SampleStatements {
  const table = `${schema}.samples`
  // Added up by the key of the table before: no row may be written twice by one statement.
  const text = `
insert into ${table} (at, worker, origin, scope, done, duplicates, retried, failed, lag_ms, aged, waiting, oldest_ms)
select to_timestamp(floor(extract(epoch from clock_timestamp()) / 60) * 60), $1::text, s.origin, s.scope, sum(s.done), sum(s.duplicates),
  sum(s.retried), sum(s.failed), sum(s.lag_ms), sum(s.aged), max(nullif(s.waiting, '')::bigint), max(nullif(s.oldest_ms, '')::float8)
from unnest($2::text::text[], $3::text::text[], $4::text::bigint[], $5::text::bigint[], $6::text::bigint[], $7::text::bigint[],
  $8::text::float8[], $9::text::bigint[], $10::text::text[], $11::text::text[])
  as s (origin, scope, done, duplicates, retried, failed, lag_ms, aged, waiting, oldest_ms)
group by s.origin, s.scope
on conflict (at, worker, origin, scope) do update
set done = samples.done + excluded.done, duplicates = samples.duplicates + excluded.duplicates,
  retried = samples.retried + excluded.retried, failed = samples.failed + excluded.failed,
  lag_ms = samples.lag_ms + excluded.lag_ms, aged = samples.aged + excluded.aged,
  waiting = greatest(samples.waiting, excluded.waiting), oldest_ms = greatest(samples.oldest_ms, excluded.oldest_ms)`
  return {
    add: (worker, rows) => [
      {
        text,
        params: [
          encodeText(worker),
          array(rows.map((row) => row.origin)),
          array(rows.map((row) => encodeText(row.scope))),
          array(rows.map((row) => row.done)),
          array(rows.map((row) => row.duplicates)),
          array(rows.map((row) => row.retried)),
          array(rows.map((row) => row.failed)),
          array(rows.map((row) => row.lagMs)),
          array(rows.map((row) => row.aged)),
          array(rows.map((row) => String(row.waiting ?? ''))),
          array(rows.map((row) => String(row.oldestMs ?? ''))),
        ],
      },
    ],
    forget: statement(
      `delete from ${table} where at < ${AGO('$1::float8')} or at > clock_timestamp() + interval '1 minute'`,
      (keepMs) => [keepMs],
    ),
    list: statement(
      `
select ${MS('s.at')} as at, s.origin, s.scope, sum(s.done)::bigint as done, sum(s.duplicates)::bigint as duplicates,
  sum(s.retried)::bigint as retried, sum(s.failed)::bigint as failed, sum(s.lag_ms)::numeric::text as lag_ms,
  sum(s.aged)::bigint as aged, max(s.waiting) as waiting, max(s.oldest_ms)::numeric::text as oldest_ms
from ${table} s where s.at >= ${AGO('$1::float8')}
group by s.at, s.origin, s.scope order by s.at, s.origin collate "C", s.scope collate "C"`,
      (sinceMs) => [sinceMs],
    ),
  }
}
