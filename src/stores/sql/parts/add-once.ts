import { isHapaxError, pause, systemClock } from '../../../base/index.ts'
import type { Result, Statement } from '../../../contracts/index.ts'
import type { SqlParts } from './context.ts'

const MOST_RUNS = 20
/** How much longer each pause is than the one before. */
const STEP_MS = 5

/**
 * Adds a row by its key, in one short transaction: a statement, and those that follow from its result; undefined: the row is there.
 * Returns whether it was added. `mine` tells of a row that is there after an error whether this call has added it; undefined: there is none.
 */
export async function addOnce(
  { calls }: Pick<SqlParts, 'calls'>,
  first: Statement,
  then: (answer: Result) => readonly Statement[] | undefined,
  mine: () => Promise<boolean | undefined>,
): Promise<boolean> {
  for (let run = 1; ; run++) {
    let added = false
    try {
      const follow = (answer: Result): readonly Statement[] | undefined => {
        const statements = then(answer)
        added = statements !== undefined
        return statements
      }
      await calls.short(first, follow)
      return added
    } catch (error) {
      // The key was taken at the same time, or the answer to the commit was lost.
      const found = await mine()
      if (found !== undefined) return found
      // Where rivals lock the same gap, one of them is told so before the other has committed.
      if (!isHapaxError(error, 'transaction-conflict') || run >= MOST_RUNS) throw error
      await pause(systemClock, run * STEP_MS)
    }
  }
}
