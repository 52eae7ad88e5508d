import {
  asError,
  type Clock,
  callback,
  expected,
  isHapaxError,
  noOthers,
  numberFrom,
  pause,
  signalOption,
} from '../base/index.ts'
import { compareSeq, isSeq } from '../message/index.ts'
import type { By } from './audit.ts'

/** How many rows are changed, and how fast. */
export interface BulkOptions {
  readonly by?: By
  /** How many rows at most; the oldest ones. @default all that are there when it begins */
  readonly limit?: number
  /** How many rows in a second at most. @default as fast as the store answers */
  readonly perSecond?: number
  /** Called after each row. What it throws ends the call. */
  readonly onResult?: (result: BulkResult) => void
  /** Stops between two rows. */
  readonly signal?: AbortSignal
}

/** What became of one row. `gone`: somebody else was faster. */
export type BulkResult =
  | { readonly seq: string; readonly result: 'done' | 'gone' }
  | { readonly seq: string; readonly result: 'error'; readonly error: Error }

/** What became of all of them. */
export interface BulkSummary {
  readonly done: number
  readonly gone: number
  readonly errors: number
  /** Whether the signal stopped it before the end. */
  readonly stopped: boolean
}

/** Rows to change, and how one is changed. */
export interface BulkWork {
  /** The newest row that is there when it begins: what fails, or is sent, while it runs does not belong to it. */
  newest(): Promise<string | undefined>
  /** A page of rows behind `after`, oldest first. */
  page(after: string | undefined, limit: number): Promise<readonly string[]>
  /** False: it is not there any more. */
  change(seq: string): Promise<boolean>
}

const PAGE = 500

/** Changes rows one by one, oldest first, so that those of one key keep their order. One bad row stops no other. */
export async function bulk(clock: Clock, work: BulkWork, options: BulkOptions): Promise<BulkSummary> {
  const { limit, perSecond, onResult, signal } = checked(options)
  const counts = { done: 0, gone: 0, errors: 0 }
  const begun = clock.monotonic()
  let count = 0
  for await (const seq of rows(work, limit)) {
    if (perSecond !== undefined) {
      const waitMs = begun + (count * 1000) / perSecond - clock.monotonic()
      if (waitMs > 0) await pause(clock, waitMs, signal)
    }
    if (signal?.aborted) return { ...counts, stopped: true }
    const result = await changed(work, seq)
    count += 1
    counts[result.result === 'error' ? 'errors' : result.result] += 1
    onResult?.(result)
  }
  return { ...counts, stopped: false }
}

async function* rows(work: BulkWork, limit: number): AsyncGenerator<string> {
  const last = await work.newest()
  if (last === undefined) return
  let left = limit
  let after: string | undefined
  while (left > 0) {
    const page = await work.page(after, Math.min(PAGE, left))
    for (const seq of page) {
      if (compareSeq(seq, last) > 0) return
      yield seq
    }
    if (page.length === 0) return
    after = page.at(-1)
    left -= page.length
  }
}

async function changed(work: BulkWork, seq: string): Promise<BulkResult> {
  try {
    return { seq, result: (await work.change(seq)) ? 'done' : 'gone' }
  } catch (error) {
    // Not the row's fault: every other one would meet the same.
    if (isHapaxError(error, 'store-unavailable') || isHapaxError(error, 'schema-missing')) throw error
    return { seq, result: 'error', error: asError(error) }
  }
}

function checked(options: BulkOptions): BulkOptions & { readonly limit: number } {
  noOthers('options', options, ['by', 'limit', 'perSecond', 'onResult', 'signal'])
  const { limit = Number.POSITIVE_INFINITY, perSecond } = options
  if (!(limit > 0) || (limit !== Number.POSITIVE_INFINITY && !Number.isSafeInteger(limit))) {
    expected('limit', 'a positive integer', limit)
  }
  if (perSecond !== undefined) numberFrom('perSecond', 0.001, perSecond, 1)
  callback('onResult', options.onResult)
  signalOption('signal', options.signal)
  return { ...options, limit }
}

/** The name of a row, as the store gave it. */
export function checkedSeq(seq: string): string {
  if (!isSeq(seq)) expected('seq', 'the seq of a row as it is listed, such as 12-3456', seq)
  return seq
}

/** How many rows of a list. */
export function pageSize(size: number = 50): number {
  if (!Number.isSafeInteger(size) || size <= 0) expected('limit', 'a positive integer', size)
  if (size > 1000) expected('limit', 'at most 1000', size)
  return size
}
