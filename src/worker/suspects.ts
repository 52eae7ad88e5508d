import type { Clock } from '../base/index.ts'
import type { Entry } from '../contracts/index.ts'
import type { Floor } from '../transaction/index.ts'
import type { InboxLine } from './lines/inbox.ts'
import type { Membership } from './membership.ts'

/** What an inbox says of its suspects, and lets be done with them. */
export type SuspectLine = Pick<
  InboxLine<never>,
  'suspects' | 'takeSuspect' | 'giveBack' | 'unnoted' | 'beginAlone' | 'running'
>

/** What the care for suspects needs of its worker. */
export interface SuspectsOptions {
  readonly clock: Clock
  readonly floor: Floor
  readonly membership: Pick<Membership, 'note'>
  /** The inboxes of the worker. */
  lines(): readonly SuspectLine[]
  /** Whether the worker goes on. */
  isRunning(): boolean
  /** One of them is over. */
  changed(): void
}

/**
 * Messages that may have ended a process twice, among others and then apart from them, as one worker runs them: one after the other, each
 * alone on the floor.
 */
export class Suspects {
  readonly #options: SuspectsOptions
  #current: string | undefined
  /** Since when they run, one after the other. */
  #since: number | undefined
  #clearing = false
  /** How long the floor is closed, and then left to the others. */
  #closeMs = SUSPECTS_MS
  /** Lines have their turn one after the other. */
  #turn = 0

  constructor(options: SuspectsOptions) {
    this.#options = options
  }

  /** The seq of the one that runs, or is about to. */
  get current(): string | undefined {
    return this.#current
  }

  /** Begins with the next one; undefined: there is none, or the floor is not empty. */
  begin(): Promise<void> | undefined {
    const next = this.#next()
    return next && this.#beginAlone(next.line, next.suspect)
  }

  /** Lets the others have the floor. */
  stop(): void {
    this.#options.floor.reopen(this)
  }

  /** They have the floor for a while; then the others have it for a while. */
  #next(): { line: SuspectLine; suspect: Entry } | undefined {
    const { clock, floor } = this.#options
    const line = this.#nextLine()
    if (line === undefined) this.#closeMs = SUSPECTS_MS
    if (line === undefined || clock.monotonic() - (this.#since ?? clock.monotonic()) > this.#closeMs) {
      this.#since = undefined
      floor.reopen(this)
      return undefined
    }
    if (!this.#clear()) return undefined
    this.#since ??= clock.monotonic()
    const suspect = line.takeSuspect()
    this.#turn += 1
    return suspect && { line, suspect }
  }

  #nextLine(): SuspectLine | undefined {
    const lines = this.#options.lines()
    const from = lines.length === 0 ? 0 : this.#turn % lines.length
    return [...lines.slice(from), ...lines.slice(0, from)].find((each) => each.suspects.length > 0)
  }

  /**
   * Whether the floor is empty. One that does not become empty in time is closed for longer the next time, until that is enough for the
   * longest handler; in between it is left to the others for as long as it was closed.
   */
  #clear(): boolean {
    const { floor } = this.#options
    const cleared = floor.clear(this, this.#closeMs, this.#closeMs)
    if (floor.empty) {
      this.#clearing = false
      return true
    }
    if (this.#clearing && !cleared) this.#closeMs = Math.min(MAX_CLOSE_MS, 2 * this.#closeMs)
    this.#clearing = cleared
    return false
  }

  async #beginAlone(line: SuspectLine, suspect: Entry): Promise<void> {
    const { floor, membership, lines, isRunning } = this.#options
    this.#current = suspect.seq
    for (const each of lines()) each.unnoted()
    try {
      await membership.note()
    } catch (error) {
      line.giveBack(suspect)
      this.#over()
      throw error
    }
    if (!isRunning() || !floor.empty) {
      line.giveBack(suspect)
      return this.#over()
    }
    line.beginAlone(suspect)
    void Promise.allSettled(line.running).then(() => this.#over())
  }

  #over(): void {
    this.#current = undefined
    this.#options.changed()
  }
}

/** For how long they run one after the other, and how long they wait for an empty floor at first. */
const SUSPECTS_MS = 2_000
/** Longer than handlers run, if nobody wants them to run for longer. */
const MAX_CLOSE_MS = 600_000
