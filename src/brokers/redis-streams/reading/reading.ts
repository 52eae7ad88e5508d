import type { Clock } from '../../../base/index.ts'
import type { Link } from '../link.ts'
import type { Hand } from './hand.ts'
import type { Delivered, Group, Member, Wanted } from './member.ts'

/** What a reader of a group needs, with every default filled in. */
export interface ReadingSettings extends Group {
  /** The name of the body field. */
  readonly body: string
  /** Larger entries are not read whole. */
  readonly maxBytes: number
  readonly claimAfterMs: number
  readonly timeoutMs: number
  readonly clock: Clock
}

/** What both ways of reading work with. */
export interface Desk {
  readonly settings: ReadingSettings
  /** The link that blocks while it waits for new entries. */
  readonly reading: Link
  /** The link for all other commands, which must not wait behind a blocking read. */
  readonly control: Link
  readonly member: Member
  readonly hand: Hand
  /** Accepts entries that did not come through `next`. */
  take(delivered: readonly Delivered[]): void
  /** Reports entries that were removed from the stream before they were finished. */
  reportGone(ids: readonly string[]): void
  /** Whether reading has to stop. */
  readonly stopping: boolean
}

/** How a session reads its group: together with others, or alone. */
export interface Reading {
  /** The next entries, or none after a while. */
  next(wanted: Wanted): Promise<readonly Delivered[]>
  /** Called periodically: keeps entries in hand from being claimed by others, and claims those of dead readers. */
  tend(): Promise<void>
  /** Returns entries that were read and cannot be handled. */
  giveBack(ids: readonly string[]): void
  /** Leaves the group; other readers get all unfinished entries. */
  leave(): Promise<void>
}

/** How long a blocking read waits for new entries. */
export function blockMs({ timeoutMs }: ReadingSettings): number {
  return Math.min(5_000, timeoutMs)
}
