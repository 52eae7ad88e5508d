import { asError, type Clock, type Counted, type Random, Signal, type State, type Tally } from '../base/index.ts'
import type { Sample, StoreSamples } from '../contracts/index.ts'
import type { DatabaseClock } from '../transaction/index.ts'

/** What writing samples needs of its worker. */
export interface MinutesOptions {
  readonly store: Pick<StoreSamples, 'add'>
  readonly tally: Pick<Tally, 'take'>
  readonly clock: Clock
  readonly databaseClock: Pick<DatabaseClock, 'now'>
  readonly random: Random
  /** What this process is called. */
  readonly worker: string
  report(error: Error): void
}

/**
 * Writes what this process has counted, and what the one worker that looks for all has seen to wait, once in each minute of the
 * database. Late in the minute, so that no minute gets two and the next one none.
 */
export class Minutes {
  readonly #options: MinutesOptions
  readonly #signal = new Signal()
  #seen: State | undefined
  #stopping = false
  #failing = false
  #loop: Promise<void> = Promise.resolve()

  constructor(options: MinutesOptions) {
    this.#options = options
  }

  /** What waits in the database. */
  saw(state: State): void {
    this.#seen = state
  }

  start(): void {
    this.#loop = this.#work()
  }

  /** Writes what was counted last. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#signal.notify()
    await this.#loop
    await this.#write()
  }

  async #work(): Promise<void> {
    const { clock, databaseClock, random } = this.#options
    let lateMs = MINUTE_MS * (0.85 + random.number() / 10)
    if (databaseClock.now() % MINUTE_MS >= lateMs) lateMs += MINUTE_MS
    await this.#signal.wait(clock, lateMs - (databaseClock.now() % MINUTE_MS))
    while (!this.#stopping) {
      await this.#write()
      const left = MINUTE_MS - (databaseClock.now() % MINUTE_MS)
      await this.#signal.wait(clock, left + (lateMs % MINUTE_MS))
    }
  }

  /** What cannot be written is lost: it is a chart, and not an account. */
  async #write(): Promise<void> {
    const { store, tally, worker, report } = this.#options
    const samples = samplesOf(tally.take(), this.#seen)
    this.#seen = undefined
    if (samples.length === 0) return
    try {
      await store.add(worker, samples, KEEP_MS)
      this.#failing = false
    } catch (error) {
      if (!this.#failing) report(asError(error))
      this.#failing = true
    }
  }
}

/** What was counted, with what was seen to wait. */
export function samplesOf(counted: readonly Counted[], state: State | undefined): readonly Sample[] {
  const seen = new Map(state === undefined ? [] : waitingOf(state).map((each) => [nameOf(each), each]))
  const samples = counted.map((each): Sample => {
    const { waiting = null, oldestMs = null } = seen.get(nameOf(each)) ?? {}
    seen.delete(nameOf(each))
    return { ...each, waiting, oldestMs }
  })
  return [...samples, ...[...seen.values()].map((each) => ({ ...NOTHING, ...each }))]
}

type Waiting = Pick<Sample, 'origin' | 'scope' | 'waiting' | 'oldestMs'>

function waitingOf({ consumers, relays }: State): readonly Waiting[] {
  return [
    ...consumers.map(({ consumer, waiting, retrying, oldestMs }): Waiting => {
      return { origin: 'inbox', scope: consumer, waiting: waiting + retrying, oldestMs: whole(oldestMs) }
    }),
    ...relays.map(({ relay, waiting, oldestMs }): Waiting => {
      return { origin: 'outbox', scope: relay, waiting, oldestMs: whole(oldestMs) }
    }),
  ]
}

/** Nothing waits: then nothing has an age. */
const whole = (ms: number | undefined): number => Math.round(ms ?? 0)

const nameOf = ({ origin, scope }: Pick<Sample, 'origin' | 'scope'>): string => `${origin}:${scope}`

const NOTHING = { done: 0, duplicates: 0, retried: 0, failed: 0, lagMs: 0, aged: 0 }
const MINUTE_MS = 60_000
/** Two hours: charts show one. */
const KEEP_MS = 2 * 3_600_000
