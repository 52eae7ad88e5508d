import { type Clock, within } from '../base/index.ts'
import type { InboxLine } from './lines/inbox.ts'
import type { Line } from './lines/line.ts'
import type { Membership } from './membership.ts'
import type { Suspects } from './suspects.ts'

/** What a beginning needs of its worker. */
interface BeginningOptions<Tx> {
  readonly membership: Pick<Membership, 'note'>
  readonly suspects: Pick<Suspects, 'current' | 'begin'>
  readonly clock: Clock
  /** Whether a note should have a connection even while transactions have all of theirs. */
  readonly overlaps: boolean
  isRunning(): boolean
  /** Inboxes whose handlers can run. */
  inboxes(): readonly InboxLine<Tx>[]
  /** All lines that can make progress. */
  movable(): readonly Line[]
}

/**
 * Begins with what is in hand. Messages are noted in the database before they run: if one ends this process, other workers know the
 * suspects. One note at a time, because each says what is in hand at its moment.
 */
export class Beginning<Tx> {
  readonly #options: BeginningOptions<Tx>
  #underWay: Promise<void> | undefined
  #again = false
  /** Until when rows are noted before they are claimed. */
  #oneByOneUntil = Number.NEGATIVE_INFINITY

  constructor(options: BeginningOptions<Tx>) {
    this.#options = options
  }

  begin(): Promise<void> {
    if (this.#underWay !== undefined) {
      this.#again = true
      return this.#underWay
    }
    this.#underWay = this.#all().finally(() => {
      this.#underWay = undefined
    })
    return this.#underWay
  }

  async #all(): Promise<void> {
    do {
      this.#again = false
      await this.#once()
    } while (this.#again)
  }

  async #once(): Promise<void> {
    const { suspects, inboxes, movable, isRunning } = this.#options
    if (suspects.current !== undefined || !isRunning()) return
    const lines = inboxes()
    const alone = lines.length === 0 ? undefined : suspects.begin()
    if (alone !== undefined) return alone
    if (lines.map((line) => line.putUp()).includes(true)) await this.#note(lines)
    if (!isRunning()) return
    for (const line of lines) line.noted()
    for (const line of movable()) line.begin()
  }

  /** Rows are claimed while they are being noted, and their handlers wait for the note. */
  async #note(lines: readonly InboxLine<Tx>[]): Promise<void> {
    const noting = this.#options.membership.note()
    if (this.#mayOverlap) {
      const noted = this.#inTime(noting)
      for (const line of lines) line.beginNoting(noted)
    }
    await noting
  }

  get #mayOverlap(): boolean {
    const { overlaps, clock } = this.#options
    return overlaps && clock.monotonic() >= this.#oneByOneUntil
  }

  /**
   * A pooler may have fewer connections than the pool: then the note may wait for the very transactions that wait for it. So they do
   * not wait for long, and for a while nothing is claimed before it is noted.
   */
  #inTime(noting: Promise<void>): Promise<boolean> {
    const { clock, isRunning } = this.#options
    // A worker that has left notes nothing any more.
    const noted = noting.then(isRunning, () => false)
    return within(clock, PATIENCE_MS, noted, () => {
      this.#oneByOneUntil = clock.monotonic() + ONE_BY_ONE_MS
      return false
    })
  }
}

const PATIENCE_MS = 200
const ONE_BY_ONE_MS = 60_000
