import type {
  EffectWhere,
  Listed,
  ListedEffect,
  ListedReceipt,
  ListPosition,
  ReceiptWhere,
  Row,
  Statement,
  StoreLists,
} from '../../../contracts/index.ts'
import type { KeyPosition } from '../dialect/lists.ts'
import { asEffect } from '../rows.ts'
import { asDate, asText, asUuid } from '../values.ts'
import { rowsOf, type SqlParts } from './context.ts'

/** How many rows one look reads at most: there is no index on times and states, because it would cost every message. */
const LOOKED_AT = 1_000
/** No message has this key. */
const BEHIND_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Lists of receipts and effects in an SQL database. */
export function sqlLists(parts: SqlParts): StoreLists {
  const { lists } = parts.dialect
  return {
    receipts: (where, after, limit) =>
      look(parts, where, after, limit, {
        page: (behind) => lists.receipts(behind, LOOKED_AT),
        read: asListedReceipt,
        fits: (row) => isWithin(row.takenAt, where),
        positionOf: ({ consumer, messageKey }) => ({ consumer, messageKey }),
      }),
    effects: (where, after, limit) =>
      look(parts, where, after, limit, {
        page: (behind) => lists.effects(behind, LOOKED_AT),
        read: asListedEffect,
        fits: (row) => fitsEffect(row, where),
        positionOf: ({ consumer, messageKey, name }) => ({ consumer, messageKey, name }),
      }),
  }
}

/** How rows of one kind are looked for. */
interface Kind<T> {
  page(behind: KeyPosition): Statement
  read(consumer: string, row: Row): T
  fits(row: T): boolean
  positionOf(row: T): ListPosition
}

async function look<T>(
  parts: SqlParts,
  { consumer }: ReceiptWhere,
  after: ListPosition | undefined,
  limit: number,
  kind: Kind<T>,
): Promise<Listed<T>> {
  const [current, next] = consumer === undefined ? await consumersFrom(parts, after) : [consumer]
  if (current === undefined) return { rows: [], after: undefined }
  const from = after?.consumer === current ? after : undefined
  const behind = { consumer: current, messageKey: from?.messageKey ?? BEHIND_ALL, name: from?.name ?? '' }
  const seen = (await rowsOf(parts, kind.page(behind))).map((row) => kind.read(current, row))
  const fitting = seen.filter((row) => kind.fits(row))
  const rows = fitting.slice(0, limit)
  const last = fitting.length > limit ? rows.at(-1) : seen[LOOKED_AT - 1]
  if (last !== undefined) return { rows, after: kind.positionOf(last) }
  return { rows, after: next === undefined ? undefined : { consumer: next } }
}

/** The consumers that have receipts, from that of a position on. */
async function consumersFrom(parts: SqlParts, after: ListPosition | undefined): Promise<readonly string[]> {
  const all = (await rowsOf(parts, parts.dialect.status.receiptConsumers)).map((row) => asText(row['consumer']))
  if (after === undefined) return all
  const at = all.indexOf(after.consumer)
  return at < 0 ? all.filter((each) => each > after.consumer) : all.slice(at)
}

function isWithin(time: Date, { since, until }: ReceiptWhere): boolean {
  return (since === undefined || time >= since) && (until === undefined || time < until)
}

/** The row without a name has the notes of the message. */
function fitsEffect({ name, state, lastAt }: ListedEffect, where: EffectWhere): boolean {
  return name !== '' && (where.state === undefined || state === where.state) && isWithin(lastAt, where)
}

function asListedReceipt(consumer: string, row: Row): ListedReceipt {
  const [messageKey, takenAt] = [asUuid(row['message_key']), asDate(row['taken_at'])]
  return { consumer, messageKey, ...messageOf(row), takenAt }
}

function asListedEffect(consumer: string, row: Row): ListedEffect {
  const effect = asEffect({ consumer, messageKey: asUuid(row['message_key']) }, row)
  const { messageKey, name, state, attempts, error, firstAt, lastAt } = effect
  const message = row['id'] === null ? null : messageOf(row)
  return { consumer, messageKey, name, state, attempts, error, firstAt, lastAt, message }
}

function messageOf(row: Row): { source: string; id: string; type: string } {
  return { source: asText(row['source']), id: asText(row['id']), type: asText(row['type']) }
}
