// The rows of an operation: which they are, and how one of them is changed.

import type { Audit, BulkOperation, OperationStep, Store } from '../../contracts/index.ts'
import { compareSeq } from '../../message/index.ts'
import { refuseRetry } from './retrying.ts'

/** The parts of a store that operations are about. */
export type OperationStore = Pick<Store<never, never>, 'failed' | 'sent' | 'operations'>

/** A page of its rows behind `after`, oldest first. Rows behind its last one came later, and are left alone. */
export async function pageOf(
  store: OperationStore,
  operation: BulkOperation,
  after: string | null,
  limit: number,
): Promise<readonly string[]> {
  const { upTo, lastFailure } = operation
  if (upTo === null) return []
  const behind = after ?? undefined
  const page =
    operation.kind === 'republish'
      ? await store.sent.seqs(operation.where, behind, limit)
      : await store.failed.seqs({ ...operation.where, lastFailure: lastFailure ?? undefined }, behind, limit)
  return page.filter((seq) => compareSeq(seq, upTo) <= 0)
}

/**
 * Rejects if a row must not be changed. False: it is gone, or an edit has replaced it. The store checks again once it has locked the row,
 * including whether the row is a different failure by then.
 */
export async function mayChange(store: OperationStore, operation: BulkOperation, seq: string): Promise<boolean> {
  if (operation.kind === 'republish') return true
  const failed = await store.failed.get(seq)
  if (failed === undefined || (failed.replacedBy !== null) !== (operation.where.replaced ?? false)) return false
  if (operation.kind === 'retry') refuseRetry(failed, operation.effectsChecked === true)
  return true
}

/** Changes a row, and counts it in the same transaction. False: it is gone. */
export function changeRow(
  { failed, sent }: OperationStore,
  { kind, actor, note }: BulkOperation,
  seq: string,
  step: OperationStep,
): Promise<boolean> {
  const audit: Audit = { action: kind, actor, ...(note !== null && { note }) }
  if (kind === 'republish') return sent.republish(seq, audit, step)
  return kind === 'retry' ? failed.retry(seq, audit, step) : failed.discard(seq, audit, step)
}
