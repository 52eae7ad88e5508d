import type { ConsumerOptions } from 'hapax'
import type { AnyRig } from '../rig.ts'

/** How keys cannot run: their first message is held, or waits for its next attempt. */
export type Stuck = 'held' | 'waiting'

/** A rig whose tables can be made large. */
export interface GrownRig extends AnyRig {
  /** Writes two messages for each of so many keys, the first of which cannot run. */
  fillStuck(count: number, how: Stuck): Promise<void>
  /** Writes receipts of messages that were finished so many days ago. */
  fillReceipts(count: number, days: number, written: (count: number) => void): Promise<void>
  /** Whether looks still come upon messages with order that cannot run. */
  hasStuckInFront(): Promise<boolean>
  /** What the database does by itself in time, done now. */
  tidy(): Promise<void>
}

/** What a consumer of a rig is like. */
export type GrownOptions = ConsumerOptions & { readonly many?: boolean }

/** A store whose growth is measured. */
export interface GrownStore {
  readonly title: string
  open(name: string, options: GrownOptions): Promise<GrownRig>
}
