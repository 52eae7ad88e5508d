import { HapaxError } from '../../base/index.ts'
import type { FailedWhere, OperationStep, OperationWork, SentWhere } from '../../contracts/index.ts'

/** What an operation does, with the conditions as they are at this time of the database: ages have become times. */
export function frozen(work: OperationWork, now: number): OperationWork {
  const { kind } = work
  if (kind === 'republish') return { kind, where: frozenWhere(work.where, now) }
  const where = frozenWhere(work.where, now)
  if (kind === 'discard') return { kind, where }
  return { kind, where, ...(work.effectsChecked === true && { effectsChecked: true }) }
}

function frozenWhere<Where extends FailedWhere | SentWhere>(where: Where, now: number): Where {
  const { olderThanMs, newerThanMs, since, until, ...rest } = where
  const ends = given(until?.getTime(), olderThanMs === undefined ? undefined : now - olderThanMs)
  const begins = given(since?.getTime(), newerThanMs === undefined ? undefined : now - newerThanMs)
  const from = begins.length === 0 ? {} : { since: new Date(Math.max(...begins)) }
  const to = ends.length === 0 ? {} : { until: new Date(Math.min(...ends)) }
  return { ...rest, ...from, ...to } as Where
}

function given(...times: readonly (number | undefined)[]): readonly number[] {
  return times.filter((each) => each !== undefined)
}

/** Why a row is not changed: the operation is another process's, or was paused or cancelled. */
export function leaseLost({ id }: OperationStep): HapaxError {
  const sentence = 'this process may not work on the operation: it was paused or cancelled, or another process has it'
  return new HapaxError('lease-lost', sentence, { fields: { operation: id } })
}
