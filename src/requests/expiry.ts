import { asError, errorFields } from '../base/index.ts'
import type { Engine } from '../transaction/index.ts'

/** What expiry needs of its hapax. */
type ExpiryEngine = Pick<Engine<never>, 'clock' | 'activity' | 'events' | 'logger' | 'outages' | 'detached'> & {
  readonly store: Pick<Engine<never>['store'], 'responses'>
}

/** Deletes expired responses in the background, because an application that only takes requests has no worker that does it. */
export class Expiry {
  readonly #engine: ExpiryEngine
  #nextAt = 0
  #running = false

  constructor(engine: ExpiryEngine) {
    this.#engine = engine
  }

  /** A request has left a response. Looks for expired ones, if that is due. */
  soon(): void {
    const { clock, activity, detached } = this.#engine
    const now = clock.monotonic()
    if (this.#running || now < this.#nextAt || activity.closed) return
    this.#nextAt = now + EVERY_MS
    this.#running = true
    activity.begin()
    void detached(() => this.#expire())
  }

  /** Never rejects. */
  async #expire(): Promise<void> {
    const { clock, activity, events, logger, outages, store } = this.#engine
    const started = clock.monotonic()
    try {
      let deleted = 0
      for (let last = LIMIT; last === LIMIT && !activity.closed; deleted += last)
        last = await store.responses.expire(LIMIT)
      const durationMs = clock.monotonic() - started
      events.emit('cleaned', () => ({ what: 'responses', of: 'http', deleted, durationMs }))
    } catch (thrown) {
      const error = asError(thrown)
      logger[outages.levelOf(error)](errorFields(error), 'expired responses could not be deleted')
    } finally {
      this.#running = false
      activity.end()
    }
  }
}

/** How often a process looks for expired responses. */
const EVERY_MS = 60_000
/** How many are deleted by one transaction. */
const LIMIT = 500
