import type { Clock } from './clock.ts'
import type { Floor } from './floor.ts'
import type { InboxLine } from './inbox-line.ts'
import type { Membership } from './membership.ts'
import type { Entry } from './store.ts'

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

/** Messages that may have ended a process, as one worker runs them: one after the other, each alone on the floor. */
export class Suspects {
  readonly #options: SuspectsOptions
  #current: string | undefined
  /** Since when they run, one after the other. */
  #since: number | undefined
  #clearing = false
  #patience = 1

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
    const { clock, floor, lines } = this.#options
    const line = lines().find((each) => each.suspects.length > 0)
    if (line === undefined || clock.monotonic() - (this.#since ?? clock.monotonic()) > SUSPECTS_MS) {
      this.#since = undefined
      floor.reopen(this)
      return undefined
    }
    if (!this.#clear()) return undefined
    this.#since ??= clock.monotonic()
    const suspect = line.takeSuspect()
    return suspect && { line, suspect }
  }

  /** Whether the floor is empty. One that does not become empty in time is left to the others for longer and longer. */
  #clear(): boolean {
    const { floor } = this.#options
    const cleared = floor.clear(this, SUSPECTS_MS * this.#patience, SUSPECTS_MS)
    if (!floor.empty) {
      if (this.#clearing && !cleared) this.#patience = Math.min(30, 2 * this.#patience)
      this.#clearing = cleared
      return false
    }
    this.#clearing = false
    this.#patience = 1
    return true
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

/** For how long they run one after the other, and how long they wait for an empty floor. */
const SUSPECTS_MS = 2_000
