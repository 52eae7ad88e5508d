// Changes to many rows of a store that has no operations: one by one, at a limited rate, with a report on each.

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
import type { RowResult } from '../worker/index.ts'
import type { By } from './audit.ts'

/** Options of changes to many rows: who, how many, how fast. */
export interface BulkOptions {
  /** Who changes them, and why, for the audit. */
  readonly by?: By
  /** The most rows to change, oldest first. @default all that are there when it begins */
  readonly limit?: number
  /** The most rows per second. @default as fast as the store allows */
  readonly perSecond?: number
  /** Called after each row. An error that it throws ends the call. */
  readonly onResult?: (result: BulkResult) => void
  /** Stops between two rows. */
  readonly signal?: AbortSignal
}

/** Options of bulk retries. */
export interface RetryAllOptions extends BulkOptions {
  /** As for `retry`, for every match. Without it, messages that failed as `broken-atomicity` are skipped and count as errors. @default false */
  readonly effectsChecked?: boolean
}

/** The result for one row. `gone`: the row was changed or deleted by another call meanwhile. */
export type BulkResult = RowResult

/** The results of all rows, counted. */
export interface BulkSummary {
  readonly done: number
  readonly gone: number
  readonly errors: number
  /** Whether the signal stopped it before the end. */
  readonly stopped: boolean
}

/** Which rows to change, and how to change one. */
export interface BulkWork {
  /** The newest row at the beginning. Later rows are left alone; otherwise messages that fail again would be retried without end. */
  newest(): Promise<string | undefined>
  /** A page of rows behind `after`, oldest first. */
  page(after: string | undefined, limit: number): Promise<readonly string[]>
  /** Resolves with false if the row is no longer there. */
  change(seq: string): Promise<boolean>
}

/** How many rows are listed at a time. */
const PAGE = 500

/** Changes rows one by one, oldest first, so that those of one key keep their order. A row that fails does not stop the others. */
export async function bulk(clock: Clock, work: BulkWork, options: BulkOptions): Promise<BulkSummary> {
  const { limit, perSecond, onResult, signal } = checkedBulk(options)
  const counts = { done: 0, gone: 0, errors: 0 }
  const seqs = await chosen(work, limit, signal)
  const begun = clock.monotonic()
  for (const [index, seq] of seqs.entries()) {
    if (perSecond !== undefined) {
      const waitMs = begun + (index * 1000) / perSecond - clock.monotonic()
      if (waitMs > 0) await pause(clock, waitMs, signal)
    }
    if (signal?.aborted) return { ...counts, stopped: true }
    const result = await changed(work, seq)
    counts[result.result === 'error' ? 'errors' : result.result] += 1
    onResult?.(result)
  }
  return { ...counts, stopped: false }
}

/** All of them, before any is changed: a row that somebody else retries and that fails again keeps its number, but not its mark. */
async function chosen(work: BulkWork, limit: number, signal: AbortSignal | undefined): Promise<readonly string[]> {
  const last = await work.newest()
  const seqs: string[] = []
  if (last === undefined) return seqs
  do {
    const page = await work.page(seqs.at(-1), Math.min(PAGE, limit - seqs.length))
    const wanted = page.filter((seq) => compareSeq(seq, last) <= 0)
    for (const seq of wanted) seqs.push(seq)
    if (page.length === 0 || wanted.length < page.length) break
  } while (seqs.length < limit && !signal?.aborted)
  return seqs
}

async function changed(work: BulkWork, seq: string): Promise<BulkResult> {
  try {
    return { seq, result: (await work.change(seq)) ? 'done' : 'gone' }
  } catch (error) {
    // These errors are not about this row: every other row would fail in the same way.
    if (isHapaxError(error, 'store-unavailable') || isHapaxError(error, 'schema-missing')) throw error
    return { seq, result: 'error', error: asError(error) }
  }
}

/** Checks the options of a change to many rows. */
export function checkedBulk(options: BulkOptions): BulkOptions & { readonly limit: number } {
  noOthers('options', options, ['by', 'limit', 'perSecond', 'onResult', 'signal'])
  const limit = mostRows(options.limit)
  if (options.perSecond !== undefined) numberFrom('perSecond', 0.001, options.perSecond, 1)
  callback('onResult', options.onResult)
  signalOption('signal', options.signal)
  return { ...options, limit }
}

/** Checks how many rows to change at most; infinity means all. */
export function mostRows(limit: number = Number.POSITIVE_INFINITY): number {
  if (!(limit > 0) || (limit !== Number.POSITIVE_INFINITY && !Number.isSafeInteger(limit))) {
    expected('limit', 'a positive integer', limit)
  }
  return limit
}

/** Checks the seq of a row. */
export function checkedSeq(seq: string): string {
  if (!isSeq(seq)) expected('seq', 'the seq of a row as it is listed, such as 12-3456', seq)
  return seq
}

/** Checks how many rows to list. Bounded, because they are held in memory with their payloads. */
export function pageSize(size: number = 50): number {
  if (!Number.isSafeInteger(size) || size <= 0) expected('limit', 'a positive integer', size)
  if (size > 1000) expected('limit', 'at most 1000', size)
  return size
}
