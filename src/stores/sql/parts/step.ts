import type { OperationStep, Result, Statement } from '../../../contracts/index.ts'
import { leaseLost } from '../frozen.ts'
import { asOperation } from '../operation-rows.ts'
import { rowsOf, type SqlParts } from './context.ts'

/** What surrounds the change of a row that is a step of an operation. */
export interface Counted {
  /** Locks the operation, before the row. */
  readonly before: Statement
  /** Throws `lease-lost` if the answer to that says so. */
  check(answer: Result | undefined): void
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
    last: operations.count(step.id, seq),
    made: async () => {
      const [row] = await rowsOf(parts, operations.get(step.id))
      return row !== undefined && asOperation(row).after === seq
    },
  }
}
