import { HapaxError } from '../../base/index.ts'
import type { FailedWhere, OperationStep, OperationWork, SentWhere } from '../../contracts/index.ts'

/** What an operation does, with the conditions as they are at this time of the database: ages have become times. */
export function frozen(work: OperationWork, now: number): OperationWork {
  const { kind } = work
  if (kind === 'republish') return { kind, where: frozenWhere(work.where, now) }
  return { kind, where: frozenWhere(work.where, now) }
}

/** `until` is there in any case: a row that fails again later, under its old number, is another failure. */
function frozenWhere<Where extends FailedWhere | SentWhere>(where: Where, now: number): Where {
  const { olderThanMs, newerThanMs, since, until, ...rest } = where
  // The end of this millisecond: times are no more precise here, and rows of the last one belong to it.
  const ends = [now + 1, until?.getTime() ?? now + 1, olderThanMs === undefined ? now + 1 : now - olderThanMs]
  const begins = [since?.getTime(), newerThanMs === undefined ? undefined : now - newerThanMs].filter(
    (each) => each !== undefined,
  )
  const from = begins.length === 0 ? {} : { since: new Date(Math.max(...begins)) }
  return { ...rest, ...from, until: new Date(Math.min(...ends)) } as Where
}

/** Why a row is not changed: the operation is another process's, or was paused or cancelled. */
export function leaseLost({ id }: OperationStep): HapaxError {
  const sentence = 'this process may not work on the operation: it was paused or cancelled, or another process has it'
  return new HapaxError('lease-lost', sentence, { fields: { operation: id } })
}
