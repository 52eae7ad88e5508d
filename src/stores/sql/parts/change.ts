import { HapaxError, isHapaxError } from '../../../base/index.ts'
import type { Result, Row, Statement } from '../../../contracts/index.ts'
import type { SqlParts } from './context.ts'
import type { Counted } from './step.ts'

/** How often a change is tried when others are in its way, or the link breaks. */
const MAX_RUNS = 5

/**
 * One change by hand of the row that `first` finds; false: it finds none. It is one short transaction: it locks the row that it is
 * about, so of two people one finds nothing, and writes what it did to the audit.
 *
 * When the link breaks during the commit, it is not known whether it happened. The change is then made again: if its row is
 * still there, it had not happened, and happens now. If the row is gone, it did happen, by this call or by another one
 * in between: that cannot be told, and is reported as `commit-unknown`, unless `mine` tells that it was this one. A step of an
 * operation is counted: that tells it, before the change is made again.
 */
export async function change(
  { calls }: Pick<SqlParts, 'calls'>,
  first: Statement,
  then: (row: Row) => readonly Statement[],
  mine: () => Promise<boolean> = () => Promise.resolve(false),
  step?: Counted,
): Promise<boolean> {
  let unknown: unknown
  for (let run = 1; ; run++) {
    let sent = false
    let isOther = false
    const follow = ({ rows: [row] }: Result, held: Result | undefined): readonly Statement[] | undefined => {
      step?.check(held)
      isOther = row !== undefined && step?.isOf(row, held) === false
      sent = row !== undefined && !isOther
      if (row === undefined || isOther) return undefined
      return [...then(row), ...(step === undefined ? [] : [step.last])]
    }
    try {
      if (unknown !== undefined && (await step?.made())) return true
      const { rows } = await calls.short(first, follow, { before: step && [step.before] })
      if (rows.length > 0 && !isOther) return true
      if (unknown === undefined) return false
      if (await mine()) return true
      throw commitUnknown(unknown)
    } catch (error) {
      if (sent && isLost(error)) unknown = error
      const again = error === unknown || isHapaxError(error, 'transaction-conflict')
      if (!again || run === MAX_RUNS) throw unknown === undefined ? error : commitUnknown(unknown)
    }
  }
}

/** Whether the link was lost: if that was after the last statements were sent, they may have been committed. */
function isLost(error: unknown): boolean {
  return (['commit-unknown', 'store-unavailable', 'transaction-lost'] as const).some((code) =>
    isHapaxError(error, code),
  )
}

function commitUnknown(cause: unknown): HapaxError {
  return new HapaxError(
    'commit-unknown',
    'the connection was lost while committing, and it could not be learnt whether this call made the change: look at the message before it is made again',
    { cause },
  )
}
