import type { ClaimStore } from '../../contracts/index.ts'

/** A fresh place, with a lease store on it. */
export interface TestLeases {
  readonly store: ClaimStore
  /** Another, independent store on the same place, as another process would have it. */
  another(): Promise<ClaimStore>
  /** Closes the stores and removes what they left. */
  close(): Promise<void>
}

/** How the suite reaches a lease store. */
export interface ClaimHarness {
  open(): Promise<TestLeases>
}
