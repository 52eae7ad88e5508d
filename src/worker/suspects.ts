import type { Clock } from '../base/index.ts'
import type { Entry } from '../contracts/index.ts'
import type { Floor } from '../transaction/index.ts'
import type { InboxLine } from './lines/inbox.ts'
import type { Membership } from './membership.ts'

/** The part of an inbox line that deals with its suspects. */
export type SuspectLine = Pick<
  InboxLine<never>,
  'suspects' | 'takeSuspect' | 'giveBack' | 'unnoted' | 'beginAlone' | 'running'
>

/** What running suspects needs of the worker. */
export interface SuspectsOptions {
  readonly clock: Clock
  readonly floor: Floor
  readonly membership: Pick<Membership, 'note'>
  /** The inboxes of the worker. */
  lines(): readonly SuspectLine[]
  /** Whether the worker is running. */
  isRunning(): boolean
  /** A suspect has ended. */
  changed(): void
}

/**
 * Runs suspects: messages that were in hand when a process died, and again when they ran apart. Each runs alone on the floor (nothing
 * else runs in this process), so that another crash shows which message caused it.
 */
export class Suspects {
  readonly #options: SuspectsOptions
  #current: string | undefined
  /** When the current series of suspects began. */
  #since: number | undefined
  #clearing = false
  /** How long the floor is closed for suspects, and then left to other messages. */
  #closeMs = SUSPECTS_MS
  /** Counts up, so that the lines take turns. */
  #turn = 0

  constructor(options: SuspectsOptions) {
    this.#options = options
  }

  /** The seq of the suspect that runs, or is about to. */
  get current(): string | undefined {
    return this.#current
  }

  /** Begins with the next suspect. Undefined: there is none, or the floor is not empty yet. */
  begin(): Promise<void> | undefined {
    const next = this.#next()
    return next && this.#beginAlone(next.line, next.suspect)
  }

  /** Opens the floor for other messages. */
  stop(): void {
    this.#options.floor.reopen(this)
  }

  /** Suspects have the floor for a while, and then other messages have it: many suspects must not stop everything else. */
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
   * Whether the floor is empty. If it does not become empty in time, it is closed for longer the next time, until that suffices for the
   * longest handler. In between it is open for as long as it was closed.
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

/** How long a series of suspects lasts, and how long they wait for an empty floor at first. */
const SUSPECTS_MS = 2_000
/** Ten minutes: longer than handlers run with the usual settings. */
const MAX_CLOSE_MS = 600_000
