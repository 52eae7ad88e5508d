import type { Row } from '../connection.ts'
import type { Trace } from '../store.ts'
import { asDate, asError, asText } from './values.ts'

/** A row of the dialect's `trace` statements. */
export function asTrace(row: Row): Trace {
  const common = { source: asText(row['source']), type: asText(row['type']), at: asDate(row['at']) }
  const consumer = row['consumer'] == null ? '' : asText(row['consumer'])
  switch (asText(row['place'])) {
    case 'receipt':
      return { where: 'receipt', consumer, ...common }
    case 'outbox':
      return { where: 'outbox', relay: asText(row['relay']), ...common }
    case 'inbox':
      return {
        where: 'inbox',
        consumer,
        ...common,
        attempts: Number(row['attempts']),
        dueAt: asDate(row['due_at']),
        error: asError(row['error']),
      }
    default:
      return {
        where: 'failed',
        consumer,
        ...common,
        seq: String(row['seq']),
        attempts: Number(row['attempts']),
        reason: asText(row['reason']),
        error: asError(row['error']) ?? { name: 'Error', message: '' },
      }
  }
}
