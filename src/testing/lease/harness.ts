import type { LeaseStore } from '../../core/lease-store.ts'

/** A fresh place, with a lease store on it. */
export interface TestLeases {
  readonly store: LeaseStore
  /** Another, independent store on the same place, as another process would have it. */
  another(): Promise<LeaseStore>
  /** Closes the stores and removes what they left. */
  close(): Promise<void>
}

/** How the suite reaches a lease store. */
export interface LeaseHarness {
  open(): Promise<TestLeases>
}
