import type { Audit } from './admin.ts'
import type { Origin } from './rows.ts'

/** A consumer, or a relay, that no worker serves until a person resumes it. */
export interface Pause {
  /** `inbox`: a consumer; `outbox`: a relay. */
  readonly origin: Origin
  readonly scope: string
  readonly actor: string
  readonly note: string | null
  readonly at: Date
}

/** What is paused. Workers read it often: it is a handful of rows. */
export interface StorePauses {
  list(): Promise<readonly Pause[]>
  /** False: it is paused already; who did it first, and why, stays. */
  pause(origin: Origin, scope: string, audit: Audit): Promise<boolean>
  /** False: it is not paused. */
  resume(origin: Origin, scope: string, audit: Audit): Promise<boolean>
}
