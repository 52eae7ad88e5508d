import type { BulkOperation, OperationStep, Result, Row, Statement } from '../../../contracts/index.ts'
import { compareSeq } from '../../../message/index.ts'
import { leaseLost } from '../frozen.ts'
import { asOperation } from '../operation-rows.ts'
import { asText } from '../values.ts'
import { rowsOf, type SqlParts } from './context.ts'

/** What surrounds the change of a row that is a step of an operation. */
export interface Counted {
  /** Locks the operation, before the row. */
  readonly before: Statement
  /** Throws `lease-lost` if the answer to that says so. */
  check(answer: Result | undefined): void
  /** Whether the locked row still belongs to the operation's snapshot. */
  isOf(row: Row, answer: Result | undefined): boolean
  /** Counts the row. */
  readonly last: Statement
  /** Whether the row is the last one that was counted: then the change was made. */
  made(): Promise<boolean>
}

/** A change of this row as a step; undefined: it is none. */
export function counted(parts: SqlParts, step: OperationStep | undefined, seq: string): Counted | undefined {
  if (step === undefined) return undefined
  const { operations } = parts.dialect
  return {
    before: operations.lockHeld(step),
    check: (answer) => {
      const [row] = answer?.rows ?? []
      if (row === undefined || asOperation(row).state !== 'running') throw leaseLost(step)
    },
    isOf: (row, answer) => {
      const [operation] = answer?.rows ?? []
      return operation !== undefined && isFrozen(asOperation(operation), row)
    },
    last: operations.count(step.id, seq),
    made: async () => {
      const [row] = await rowsOf(parts, operations.get(step.id))
      return row !== undefined && asOperation(row).after === seq
    },
  }
}

/** Whether a failed row, as `failed.lock` returns it, belongs to the snapshot. Rows of `sent` never change. */
function isFrozen(work: BulkOperation, row: Row): boolean {
  if (work.kind === 'republish') return true
  const { lastFailure } = work
  const { replaced = false } = work.where
  const isLater = lastFailure !== null && compareSeq(asText(row['failure']), lastFailure) > 0
  return !isLater && (row['replaced_by'] !== null) === replaced
}
