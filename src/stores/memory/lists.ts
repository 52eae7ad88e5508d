import type {
  EffectWhere,
  Listed,
  ListedEffect,
  ListedReceipt,
  ListPosition,
  ReceiptWhere,
} from '../../contracts/index.ts'
import type { Data } from './data.ts'
import { receiptKey } from './rows.ts'

/** Receipts by consumer, the highest key first. */
export function listReceipts(
  data: Data,
  where: ReceiptWhere,
  after: ListPosition | undefined,
  limit: number,
): Listed<ListedReceipt> {
  const rows = data.receipts.all().filter((row) => isWithin(row.consumer, row.takenAt, where))
  return page(rows, after, limit, ({ consumer, messageKey, source, id, type, takenAt }) => {
    return { consumer, messageKey, source, id, type, takenAt }
  })
}

/** Effects in the same order. The row without a name has the notes of the message. */
export function listEffects(
  data: Data,
  where: EffectWhere,
  after: ListPosition | undefined,
  limit: number,
): Listed<ListedEffect> {
  const rows = data.effects.all().filter(({ name, consumer, state, lastAt }) => {
    return name !== '' && (where.state ?? state) === state && isWithin(consumer, lastAt, where)
  })
  return page(rows, after, limit, (row) => {
    const { consumer, messageKey, name, state, attempts, error, firstAt, lastAt } = row
    const receipt = data.receipts.get(receiptKey(consumer, row))
    const message = receipt === undefined ? null : { source: receipt.source, id: receipt.id, type: receipt.type }
    return { consumer, messageKey, name, state, attempts, error, firstAt, lastAt, message }
  })
}

function isWithin(consumer: string, time: Date, where: ReceiptWhere): boolean {
  const { since, until } = where
  return (
    (where.consumer ?? consumer) === consumer &&
    (since === undefined || time >= since) &&
    (until === undefined || time < until)
  )
}

function page<Row extends ListPosition, T>(
  rows: readonly Row[],
  after: ListPosition | undefined,
  limit: number,
  listed: (row: Row) => T,
): Listed<T> {
  const behind = rows.filter((row) => after === undefined || compare(row, after) > 0).sort(compare)
  const found = behind.slice(0, limit)
  const last = behind.length > limit ? found.at(-1) : undefined
  const position = last && { consumer: last.consumer, messageKey: last.messageKey, name: last.name }
  return { rows: found.map(listed), after: position }
}

/** By consumer; then the highest key, and the highest name, first. A position without a key is before all of them. */
function compare(a: ListPosition, b: ListPosition): number {
  return order(a.consumer, b.consumer) || order(b.messageKey, a.messageKey) || order(b.name, a.name)
}

/** What is missing is the highest. */
function order(a: string | undefined, b: string | undefined): number {
  if (a === b) return 0
  if (a === undefined) return 1
  return b === undefined || a < b ? -1 : 1
}
