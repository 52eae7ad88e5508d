import { type SampleStatements, statement } from '../../sql/index.ts'
import { AGO, MS, NOW, tables } from './fragments.ts'
import { bytes, inserts, microseconds, text } from './rows.ts'

/** The larger one, or the one that there is. */
const LARGEST = (column: string): string =>
  `${column} = coalesce(greatest(${column}, values(${column})), ${column}, values(${column}))`
const ADDED = (column: string): string => `${column} = ${column} + values(${column})`

/** What workers have counted. */
export function samples(prefix: string): SampleStatements {
  const { samples: table } = tables(prefix)
  const columns = ['done', 'duplicates', 'retried', 'failed', 'lag_ms', 'aged']
  const insertText = {
    head: `
insert into ${table} (worker, origin, scope, ${columns.join(', ')}, waiting, oldest_ms, at)
values`,
    row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, timestamp'1970-01-01 00:00:00' + interval (timestampdiff(second, '1970-01-01', ${NOW}) div 60) minute)`,
    tail: `
on duplicate key update ${[...columns.map(ADDED), LARGEST('waiting'), LARGEST('oldest_ms')].join(', ')}`,
  }
  return {
    add: (worker, rows) =>
      inserts(
        insertText,
        rows.map(({ origin, scope, done, duplicates, retried, failed, lagMs, aged, waiting, oldestMs }) => [
          ...[text(worker), bytes(origin), text(scope)],
          ...[done, duplicates, retried, failed, lagMs, aged, waiting, oldestMs],
        ]),
      ),
    forget: statement(`delete from ${table} where at < ${AGO('?')} or at > ${NOW} + interval 1 minute`, (keepMs) => [
      microseconds(keepMs),
    ]),
    list: statement(
      `
select ${MS('m.at')} as at, m.origin, m.scope, sum(m.done) as done, sum(m.duplicates) as duplicates, sum(m.retried) as retried,
  sum(m.failed) as failed, sum(m.lag_ms) as lag_ms, sum(m.aged) as aged, max(m.waiting) as waiting, max(m.oldest_ms) as oldest_ms
from ${table} as m where m.at >= ${AGO('?')} group by m.at, m.origin, m.scope order by m.at, m.origin, m.scope`,
      (sinceMs) => [microseconds(sinceMs)],
    ),
  }
}
