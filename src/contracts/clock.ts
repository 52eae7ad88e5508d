/** The result of a recount. */
export interface Recounted {
  /** Number of rows changed. */
  readonly rows: number
  /** Number of rows skipped because they were locked or gone; a later recount finds those that still exist. */
  readonly locked: number
}

/** The database clock, which may go back. Timestamps written before such a step then lie in the future. */
export interface StoreClock {
  /**
   * How far the latest known timestamp lies ahead of the clock, in milliseconds; 0: none does. Reads workers, samples and the newest
   * waiting rows only, so that it stays cheap. Held rows do not count: they wait for no time, and a recount leaves them as they are.
   */
  aheadMs(): Promise<number>
  /**
   * Restarts from the current time whatever was set at a time that lies in the future: delays and leases of rows keep their requested
   * length, and heartbeats become current. Leases of operations end after `operationLeaseMs` at the latest. Values set since are unchanged.
   */
  recount(operationLeaseMs: number): Promise<Recounted>
}
