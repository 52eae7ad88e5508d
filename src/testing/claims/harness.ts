import type { ClaimStore } from '../../contracts/index.ts'

/** A fresh database with a lease store on it. */
export interface TestLeases {
  readonly store: ClaimStore
  /** Another, independent store on the same database, as another process would have it. */
  another(): Promise<ClaimStore>
  /** Closes the stores and removes what they left. */
  close(): Promise<void>
}

/** How the suite reaches a lease store. */
export interface ClaimHarness {
  open(): Promise<TestLeases>
}
