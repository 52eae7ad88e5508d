import type { Row } from '../connection.ts'
import type { FailedMessage, InboxRow, OutboxMessage, Receipt, StoreStatus, Trace, WorkerRow } from '../store.ts'
import { asBoolean, asDate, asError, asHex, asMessage, asText, asUuid } from './values.ts'

/** A receipt that was there before. */
export function asReceipt(row: Row): Receipt {
  return {
    token: asUuid(row['token']),
    source: asText(row['source']),
    id: asText(row['id']),
    type: asText(row['type']),
    fingerprint: asHex(row['fingerprint']),
    takenAt: asDate(row['taken_at']),
  }
}

/** A row of the inbox. */
export function asInboxRow(row: Row): InboxRow {
  return {
    seq: String(row['seq']),
    consumer: asText(row['consumer']),
    message: asMessage(row),
    ordered: asBoolean(row['ordered']),
    attempts: Number(row['attempts']),
    lost: Number(row['lost']),
    starts: Number(row['starts']),
    crashes: Number(row['crashes']),
  }
}

/** A row of the outbox. */
export function asOutboxMessage(row: Row): OutboxMessage {
  return {
    seq: String(row['seq']),
    relay: asText(row['relay']),
    message: asMessage(row),
    attempts: Number(row['attempts']),
  }
}

/** A row of `workers`. */
export function asWorker(row: Row): WorkerRow {
  return {
    id: asText(row['id']),
    name: asText(row['name']),
    serves: asText(row['serves']),
    startedAt: asDate(row['started_at']),
    silentMs: Math.max(0, Number(row['silent_ms'])),
    alive: asBoolean(row['alive']),
    inHand: (JSON.parse(asText(row['in_hand'])) as unknown[]).length,
  }
}

/** A row of the failed store. */
export function asFailed(row: Row): FailedMessage {
  return {
    seq: String(row['seq']),
    consumer: asText(row['consumer']),
    message: asMessage(row),
    attempts: Number(row['attempts']),
    reason: asText(row['reason']),
    error: asError(row['error']) ?? { name: 'Error', message: '' },
    failedAt: asDate(row['failed_at']),
  }
}

/** How much there is: the counts of the consumers, and of the outbox. */
export function asStatus(consumers: readonly Row[], outbox: Row | undefined): StoreStatus {
  return {
    consumers: consumers.map(asConsumerStatus),
    outbox: Number(outbox?.['outbox'] ?? 0),
    oldestOutboxAt: outbox?.['oldest'] == null ? null : asDate(outbox['oldest']),
  }
}

function asConsumerStatus(row: Row): StoreStatus['consumers'][number] {
  return {
    consumer: asText(row['consumer']),
    receipts: Number(row['receipts']),
    waiting: Number(row['waiting']),
    retrying: Number(row['retrying']),
    failed: Number(row['failed']),
  }
}

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
