// Lists of receipts and effects. These tables are large, so that they are read by their key, in bounded steps.

import { expected, noOthers, signalOption, text, word } from '../base/index.ts'
import type {
  EffectWhere,
  Listed,
  ListedEffect,
  ListedReceipt,
  ListPosition,
  ReceiptWhere,
  StoreLists,
} from '../contracts/index.ts'
import { pageSize } from './bulk.ts'
import { type Importable, type ImportOptions, type ImportResult, importReceipts } from './import.ts'

/** How to page through a list that is read by its key. */
interface ListPage {
  /** How many rows a page has. @default 50 */
  readonly limit?: number
  /** The `after` of the page before. @default the first page */
  readonly after?: string
  /** Stops between two looks. What was found so far is returned, and the next page continues from there. */
  readonly signal?: AbortSignal
}

/** A page of a list. */
export interface ListResult<T> {
  readonly rows: readonly T[]
  /** Where the next page begins. Undefined: this is the last page. */
  readonly after: string | undefined
}

/** Which receipts to list. */
export type ReceiptQuery = ReceiptWhere & ListPage

/** Which effects to list. */
export type EffectQuery = EffectWhere & ListPage

const NAMES = ['consumer', 'since', 'until', 'limit', 'after', 'signal'] as const
const STATES = ['started', 'done', 'not-done', 'unknown'] as const

/** Receipts: which messages were taken. They are read by their key, so that a condition that matches few rows is slow on a large table. */
export class Receipts {
  readonly #parts: Parameters<typeof importReceipts>[0]

  /** Made by `createHapax`. */
  constructor(parts: Parameters<typeof importReceipts>[0]) {
    this.#parts = parts
  }

  /**
   * Writes receipts of messages that another inbox has processed, so that this consumer takes them for duplicates. Receipts that are there
   * stay as they are: it can be repeated.
   */
  import(messages: Importable, options: ImportOptions): Promise<ImportResult> {
    return importReceipts(this.#parts, messages, options)
  }

  /** A page of receipts, by consumer, those of the newest UUIDv7 ids first; those of other ids follow, in no order. */
  async list(query: ReceiptQuery = {}): Promise<ListResult<ListedReceipt>> {
    noOthers('query', query, NAMES)
    const where = checked(query)
    return pageOf(query, (after, limit) => this.#parts.admin.receipts(where, after, limit))
  }
}

/** Outside calls of leased consumers, read in the same way. */
export class Effects {
  readonly #store: Pick<StoreLists, 'effects'>

  /** Made by `createHapax`. */
  constructor(store: Pick<StoreLists, 'effects'>) {
    this.#store = store
  }

  /** A page of effects, in the order of the receipts of their messages. `explain` shows what a call returned. */
  async list(query: EffectQuery = {}): Promise<ListResult<ListedEffect>> {
    noOthers('query', query, [...NAMES, 'state'])
    const { state } = query
    const where = { ...checked(query), ...(state !== undefined && { state: word('state', STATES, state) }) }
    return pageOf(query, (after, limit) => this.#store.effects(where, after, limit))
  }
}

function checked({ consumer, since, until }: ReceiptWhere): ReceiptWhere {
  for (const [name, value] of Object.entries({ since, until })) {
    if (value !== undefined && !(value instanceof Date && Number.isFinite(value.getTime()))) {
      expected(name, 'a date', value)
    }
  }
  return { consumer: consumer === undefined ? undefined : text('consumer', consumer), since, until }
}

/** Looks until the page is full, or no rows are left. */
async function pageOf<T>(
  { limit, after, signal }: ListPage,
  look: (after: ListPosition | undefined, limit: number) => Promise<Listed<T>>,
): Promise<ListResult<T>> {
  const size = pageSize(limit)
  signalOption('signal', signal)
  let position = after === undefined ? undefined : positionOf(after)
  const rows: T[] = []
  do {
    const found = await look(position, size - rows.length)
    rows.push(...found.rows)
    position = found.after
  } while (position !== undefined && rows.length < size && !signal?.aborted)
  return { rows, after: position && cursorOf(position) }
}

/** A position as one word without special characters, so that it can be used on a command line. */
function cursorOf({ consumer, messageKey, name }: ListPosition): string {
  return Buffer.from(JSON.stringify([consumer, messageKey ?? null, name ?? null])).toString('base64url')
}

/** Reads a position. It comes from outside, so that every part is checked. */
function positionOf(cursor: string): ListPosition {
  const [consumer, messageKey, name] = partsOf(cursor)
  const fine = typeof consumer === 'string' && (messageKey === null || isKey(messageKey))
  if (!fine || (name !== null && typeof name !== 'string')) expected('after', 'that of the page before', cursor)
  return { consumer, messageKey: isKey(messageKey) ? messageKey : undefined, name: name ?? undefined }
}

function partsOf(cursor: unknown): readonly unknown[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text('after', cursor, 4_000), 'base64url').toString())
    return Array.isArray(parts) ? parts : []
  } catch {
    return []
  }
}

function isKey(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)
}
