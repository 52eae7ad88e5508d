/** What the kit can do with a store that it knows. */
export interface StoreTools {
  /** Brings it back to where it began. */
  reset(): Promise<void>
  /** Milliseconds until the next message is due; negative if it is; undefined: none waits. */
  nextMs(): Promise<number | undefined>
  /** Makes what waits due by so much earlier. */
  move(ms: number): Promise<void>
}

/** By store. */
export const toolsOf: WeakMap<object, StoreTools> = new WeakMap()
