import type { Sample, Statement } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** Statements on what workers have counted, minute by minute. */
export interface SampleStatements {
  /** Adds to the rows of this worker and minute. There is one sample at least. */
  add(worker: string, samples: readonly Sample[]): readonly Statement[]
  /** Deletes what is older. */
  readonly forget: Sql<[keepMs: number]>
  /**
   * at, origin, scope, done, duplicates, retried, failed, lag_ms, aged, waiting, oldest_ms: added up over the workers, of the last two the
   * largest; by time, origin and scope.
   */
  readonly list: Sql<[sinceMs: number]>
}
