import type { Clock } from '../../../base/index.ts'
import type { Link } from '../link.ts'
import type { Hand } from './hand.ts'
import type { Delivered, Group, Member, Wanted } from './member.ts'

/** What a reader of a group needs, with every default filled in. */
export interface ReadingSettings extends Group {
  /** The field that is the body. */
  readonly body: string
  /** Larger entries are not read whole. */
  readonly maxBytes: number
  readonly claimAfterMs: number
  readonly timeoutMs: number
  readonly clock: Clock
}

/** What a way of reading has to work with. */
export interface Desk {
  readonly settings: ReadingSettings
  /** Waits for new entries. */
  readonly reading: Link
  /** For everything else, so that nothing has to wait for new entries. */
  readonly control: Link
  readonly member: Member
  readonly hand: Hand
  /** Takes in entries that came otherwise than by `next`. */
  take(delivered: readonly Delivered[]): void
  /** Tells that entries have been removed from the stream before they were finished. */
  reportGone(ids: readonly string[]): void
  /** Whether nothing more is to be read. */
  readonly stopping: boolean
}

/** How a session reads its group: together with others, or alone. */
export interface Reading {
  /** The next entries, or none after a while. */
  next(wanted: Wanted): Promise<readonly Delivered[]>
  /** What has to be done now and then, so that others leave alone what is in hand, and so that nothing is left behind. */
  tend(): Promise<void>
  /** Lets others have what was read and cannot be handled. */
  giveBack(ids: readonly string[]): void
  /** Ends it: others may have everything. */
  leave(): Promise<void>
}

/** How long Redis keeps a question for new entries. */
export function blockMs({ timeoutMs }: ReadingSettings): number {
  return Math.min(5_000, timeoutMs)
}
