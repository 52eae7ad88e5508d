import { encodeText } from '../../../message/index.ts'
import { type SampleStatements, statement } from '../../sql/index.ts'
import { NOW } from './migrations.ts'

/** What workers have counted. */
export function samples(prefix: string): SampleStatements {
  const table = `${prefix}samples`
  const text = `
insert into ${table} (at, worker, origin, scope, done, duplicates, retried, failed, lag_ms, aged, waiting, oldest_ms)
values (${NOW} - ${NOW} % 60000, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (at, worker, origin, scope) do update
set done = done + excluded.done, duplicates = duplicates + excluded.duplicates, retried = retried + excluded.retried,
  failed = failed + excluded.failed, lag_ms = lag_ms + excluded.lag_ms, aged = aged + excluded.aged,
  waiting = coalesce(max(waiting, excluded.waiting), waiting, excluded.waiting),
  oldest_ms = coalesce(max(oldest_ms, excluded.oldest_ms), oldest_ms, excluded.oldest_ms)`
  return {
    add: (worker, rows) =>
      rows.map(({ origin, scope, done, duplicates, retried, failed, lagMs, aged, waiting, oldestMs }) => ({
        text,
        params: [
          ...[encodeText(worker), origin, encodeText(scope)],
          ...[done, duplicates, retried, failed, lagMs, aged, waiting, oldestMs],
        ],
      })),
    forget: statement(`delete from ${table} where at < ${NOW} - ? or at > ${NOW} + 60000`, (keepMs) => [keepMs]),
    list: statement(
      `
select at, origin, scope, sum(done) as done, sum(duplicates) as duplicates, sum(retried) as retried, sum(failed) as failed,
  sum(lag_ms) as lag_ms, sum(aged) as aged, max(waiting) as waiting, max(oldest_ms) as oldest_ms
from ${table} where at >= ${NOW} - ? group by at, origin, scope order by at, origin, scope`,
      (sinceMs) => [sinceMs],
    ),
  }
}
