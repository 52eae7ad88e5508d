import type { Clock } from '../../../base/index.ts'

/** The session of a worker, as its row records it. */
export interface Attended {
  readonly id: string
  /** Null: it has no session whose end can be seen. */
  readonly session: string | null
  /** Whether the session exists. */
  readonly there: boolean
}

/** The state of a worker's session: doubtful while it is missing and not yet presumed ended. */
export type SessionState = 'there' | 'doubtful' | 'ended'

/**
 * Detects dead workers by their sessions, which end with the process, long before heartbeats are missed. A session may also end alone; its
 * process then updates its row immediately to another session or none. So a worker is presumed dead only if its row still names a session
 * that was seen before and has been missing for a while, and if this process's own session has lasted meanwhile: otherwise the server, or
 * the route to it, may have changed.
 */
export class Sessions {
  readonly #clock: Pick<Clock, 'monotonic'>
  #own: string | undefined
  #changed: () => void = () => {}
  readonly #seen = new Map<string, string>()
  /** Since when each missing session has been missing. */
  readonly #missing = new Map<string, number>()

  constructor(clock: Pick<Clock, 'monotonic'>, own: string | undefined) {
    this.#clock = clock
    this.#own = own
  }

  /** The session of this process; undefined: there is none. */
  get own(): string | undefined {
    return this.#own
  }

  /** The session of this process has ended or was replaced. */
  change(own: string | undefined): void {
    this.#own = own
    this.#seen.clear()
    this.#missing.clear()
    this.#changed()
  }

  onChange(changed: () => void): void {
    this.#changed = changed
  }

  /** The states of the sessions of all workers, by worker id. */
  judge(workers: readonly Attended[]): ReadonlyMap<string, SessionState> {
    const ids = new Set(workers.map(({ id }) => id))
    for (const id of this.#seen.keys()) if (!ids.has(id)) this.#forget(id)
    return new Map(workers.map((worker) => [worker.id, this.#stateOf(worker)]))
  }

  #stateOf({ id, session, there }: Attended): SessionState {
    if (this.#own === undefined || session === null || there) {
      this.#forget(id)
      if (this.#own !== undefined && session !== null) this.#seen.set(id, session)
      return 'there'
    }
    if (this.#seen.get(id) !== session) return 'there'
    const now = this.#clock.monotonic()
    const since = this.#missing.get(id) ?? now
    this.#missing.set(id, since)
    return now - since >= SURE_MS ? 'ended' : 'doubtful'
  }

  #forget(id: string): void {
    this.#seen.delete(id)
    this.#missing.delete(id)
  }
}

/** A live process that lost its session records that within this time. */
const SURE_MS = 500
