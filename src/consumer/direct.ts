import { asError, type Counts, faultFields, type HapaxEvents, isHapaxError, present } from '../base/index.ts'
import type { Outcome, Receipt } from '../contracts/index.ts'
import {
  Attempt,
  type Attempted,
  type Engine,
  type Opened,
  type Timing,
  type UnitSettings,
  type Work,
} from '../transaction/index.ts'
import type { OutcomeListener } from './batch.ts'
import type { Recorder } from './failures.ts'
import { type GroupSize, sharing } from './group-size.ts'
import { type Job, smaller } from './handlers.ts'
import type { ConsumerSettings } from './options.ts'
import { aboutOf, ref } from './reporter.ts'
import { isFinal, outcome } from './verdict.ts'
import { callWatched, factsOfJobs, type WatchedAttempt, watched } from './watched.ts'

/**
 * What the transaction found out about a message: nothing was known of it; our own earlier commit, whose outcome was unknown; the commit
 * of a handler that committed by itself; or the receipt of another delivery.
 */
type Found = 'fresh' | 'processed' | 'broken' | Receipt

/** A larger group that failed. A receipt under one of its tokens was committed by a handler, because hapax rolled back. */
interface FailedGroup {
  readonly error: unknown
  readonly tokens: ReadonlySet<string>
}

/** What a call says about all of its messages. */
interface TakeCall {
  readonly signal: AbortSignal | undefined
  readonly listener: OutcomeListener | undefined
}

/** A part of a group that failed. */
interface Part {
  readonly settings: UnitSettings
  readonly group: FailedGroup | undefined
}

/** How long a transaction took. */
type Took = Pick<HapaxEvents['processed'], 'durationMs'> & Pick<Timing, 'waitMs' | 'checkMs'>

/** What a taker needs of its consumer. */
interface TakerParts<Tx> {
  readonly engine: Engine<Tx>
  readonly consumer: string
  readonly settings: ConsumerSettings
  readonly recorder: Recorder<Tx>
  readonly groups: GroupSize
}

/**
 * Takes deliveries directly: inserts the receipts, calls the handlers, and commits both together. The receipts come first, because a
 * second delivery of the same message then waits at the unique key until this one has committed or rolled back.
 */
export class Taker<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumer: string
  readonly #settings: ConsumerSettings
  readonly #recorder: Recorder<Tx>

  readonly #groups: GroupSize
  readonly #counts: Counts

  constructor({ engine, consumer, settings, recorder, groups }: TakerParts<Tx>) {
    this.#engine = engine
    this.#consumer = consumer
    this.#settings = settings
    this.#recorder = recorder
    this.#groups = groups
    this.#counts = engine.tally.of('inbox', consumer)
  }

  /** Processes distinct messages in one transaction, apart from those whose handlers may not share one yet. */
  take(jobs: readonly Job<Tx>[], call: TakeCall): Promise<readonly Outcome[]> {
    const together = jobs.length === 1 || jobs.every(({ handler }) => this.#groups.mayShare(handler))
    return together ? this.#take(jobs, call) : this.#inParts(jobs, call)
  }

  async #inParts(jobs: readonly Job<Tx>[], call: TakeCall): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = []
    for (const part of sharing(jobs, ({ handler }) => this.#groups.mayShare(handler))) {
      outcomes.push(...(await this.#take(part, call)))
    }
    return outcomes
  }

  /** Processes messages in one transaction. When one of them fails, the group is tried again in smaller ones. */
  #take(jobs: readonly Job<Tx>[], call: TakeCall, part?: Part): Promise<readonly Outcome[]> {
    const { instrument } = this.#engine
    const taken =
      instrument === undefined
        ? this.#attempt(jobs, call, part)
        : watched({ instrument, consumer: this.#consumer }, factsOfJobs(jobs), (watch) =>
            this.#attempt(jobs, call, part, watch),
          )
    return call.listener === undefined ? taken : this.#telling(jobs, taken, call.listener)
  }

  async #telling(
    jobs: readonly Job<Tx>[],
    taken: Promise<readonly Outcome[]>,
    listener: OutcomeListener,
  ): Promise<readonly Outcome[]> {
    const outcomes = await taken
    for (const [index, { stored }] of jobs.entries())
      listener(stored, present(outcomes[index], 'the outcome of a message'))
    return outcomes
  }

  async #attempt(
    jobs: readonly Job<Tx>[],
    call: TakeCall,
    part: Part | undefined,
    watch?: WatchedAttempt,
  ): Promise<readonly Outcome[]> {
    const { signal } = call
    const started = this.#engine.clock.monotonic()
    const messages = jobs.map((job) => job.stored)
    const consumer = this.#consumer
    const group = part?.group
    const attempt = new Attempt<Tx, readonly Found[]>(this.#engine, part?.settings ?? this.#settings, {
      consumer,
      messages: () => messages.map(ref),
      opening: (token) => ({ kind: 'take', consumer, token, messages }),
      body: (opened) => this.#body(jobs, opened, group, watch),
      mostConflicts: this.#groups.mostConflicts(jobs.length),
      signal,
    })
    let attempted: Attempted<readonly Found[]> | undefined
    try {
      attempted = await attempt.run()
    } finally {
      if (part === undefined) this.#learn(jobs, attempt, attempted)
    }
    if (attempted.kind === 'done') {
      // The usual case, without a listener: nothing has to be done for each message.
      const quiet = attempted.value === ALL_FRESH && !this.#engine.events.heard('processed')
      if (quiet) this.#count(jobs)
      return quiet ? jobs.map(processed) : this.#finish(jobs, attempted.value, this.#took(started, attempt), group)
    }
    if (jobs.length > 1 && !isGone(attempted)) {
      watch?.splits(attempted.error)
      return this.#smaller(jobs, call, attempted, group)
    }
    const only = present(jobs[0], 'a message to take')
    if (attempted.kind === 'failed') return [await this.#failed(only, attempted, signal)]
    if (attempted.kind === 'refused') return [await this.#recorder.unstorable(only.stored, attempted.error)]
    return jobs.map((job) => this.#recorder.putBack(job.stored, attempted.kind, attempted.error))
  }

  /** The size of the next groups follows from how this one ended. */
  #learn<T>(jobs: readonly Job<Tx>[], attempt: Attempt<Tx, T>, attempted: Attempted<T> | undefined): void {
    if (attempted?.kind === 'done') this.#groups.committed(jobs, attempt)
    else this.#groups.failed()
  }

  /** Calls the handlers of messages that have no receipt yet. Runs again, from the beginning, if the transaction is repeated. */
  #body(
    jobs: readonly Job<Tx>[],
    { unit, earlier }: Opened<Tx>,
    group: FailedGroup | undefined,
    watch: WatchedAttempt | undefined,
  ): Work<Tx, readonly Found[]> {
    if (unit.existing.size === 0) return { value: ALL_FRESH, call: (scope) => callWatched(jobs, scope, watch) }
    const found = jobs.map(({ stored }): Found => {
      const receipt = unit.existing.get(stored.messageKey)
      if (receipt === undefined) return 'fresh'
      // An earlier try of this attempt, whose commit was unknown, did commit: the handler must not run again.
      if (earlier.has(receipt.token)) return 'processed'
      return group?.tokens.has(receipt.token) ? 'broken' : receipt
    })
    const fresh = jobs.filter((_, index) => found[index] === 'fresh')
    const committed = found.includes('processed')
    if (fresh.length === 0) return { value: found, committed }
    return { value: found, committed, call: (scope) => callWatched(fresh, scope, watch) }
  }

  #count(jobs: readonly Job<Tx>[]): void {
    const [first] = jobs
    this.#counts.done += jobs.length
    if (first !== undefined && this.#counts.wantsLag) {
      this.#counts.lag(this.#engine.databaseClock.lagMs(first.stored))
    }
  }

  #took(started: number, { timing: { waitMs, checkMs } }: Attempt<Tx, unknown>): Took {
    return { durationMs: this.#engine.clock.monotonic() - started - waitMs, waitMs, checkMs }
  }

  /** Turns what was found into outcomes, after the commit. */
  async #finish(
    jobs: readonly Job<Tx>[],
    found: readonly Found[],
    took: Took,
    group: FailedGroup | undefined,
  ): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = []
    for (let index = 0; index < jobs.length; index++) {
      const job = present(jobs[index], 'a message that was taken')
      const ending = this.#outcomeOf(job, found[index] ?? 'fresh', took, group)
      // An await costs more than the rest, and most outcomes need none.
      outcomes.push(ending instanceof Promise ? await ending : ending)
    }
    return outcomes
  }

  #outcomeOf(
    { stored, attempt }: Job<Tx>,
    found: Found,
    took: Took,
    group: FailedGroup | undefined,
  ): Outcome | Promise<Outcome> {
    if (found === 'broken') return this.#recorder.broken(stored, asError(group?.error), attempt)
    if (found !== 'fresh' && found !== 'processed') return this.#recorder.taken(stored, found, took.checkMs)
    this.#counts.done += 1
    if (this.#counts.wantsLag) this.#counts.lag(this.#engine.databaseClock.lagMs(stored))
    const { events, databaseClock } = this.#engine
    const { durationMs, waitMs, checkMs } = took
    events.emit('processed', () => {
      const lagMs = databaseClock.lagMs(stored)
      return { consumer: this.#consumer, message: ref(stored), attempt, durationMs, waitMs, checkMs, lagMs }
    })
    return PROCESSED
  }

  /** Tries the parts of a group that failed, so that one bad message does not fail the others. */
  async #smaller(
    jobs: readonly Job<Tx>[],
    call: TakeCall,
    attempted: { kind: 'busy' | 'refused' | 'lost' } | ({ kind: 'failed' } & FailedGroup),
    outer: FailedGroup | undefined,
  ): Promise<readonly Outcome[]> {
    const failed = attempted.kind === 'failed'
    // The whole group has waited for a lock already, so its parts do not wait again. With a single writer every transaction waits,
    // and a timeout says nothing about these messages.
    const patient = attempted.kind !== 'busy' || !this.#engine.store.features.parallelWriters
    const settings = patient ? this.#settings : { ...this.#settings, lockTimeoutMs: 1 }
    const group = failed ? { ...attempted, tokens: new Set([...attempted.tokens, ...(outer?.tokens ?? [])]) } : outer
    const outcomes: Outcome[] = []
    for (const part of smaller(jobs)) outcomes.push(...(await this.#take(part, call, { settings, group })))
    return outcomes
  }

  /** Records a failure, unless retries are left to the broker and another attempt makes sense. */
  #failed(
    job: Job<Tx>,
    { error: thrown, tokens }: FailedGroup,
    signal: AbortSignal | undefined,
  ): Promise<Outcome> | Outcome {
    const error = asError(thrown)
    if (this.#settings.onError === 'store' || isFinal(error)) {
      return this.#recorder.firstDelivery(job.stored, error, job.attempt, tokens, signal)
    }
    const { events, logger } = this.#engine
    const event = { consumer: this.#consumer, message: ref(job.stored) }
    logger.warn(
      { ...aboutOf(event), ...faultFields(error) },
      `the handler of ${job.stored.type} failed; nothing was kept, and the message is to be delivered again`,
    )
    events.emit('rolled-back', () => ({ ...event, error }))
    return outcome('rolled-back', error)
  }
}

/** Whether a transaction is gone for a reason that smaller ones would meet as well. */
export function isGone({
  kind,
  error,
}: {
  readonly kind: 'failed' | 'busy' | 'lost' | 'refused'
  readonly error: unknown
}): boolean {
  return kind === 'lost' && !isHapaxError(error, 'transaction-conflict')
}

const PROCESSED = outcome('processed')
const processed = (): Outcome => PROCESSED
/** Stands for 'fresh' for every message; compared by identity, to save an array per transaction. */
const ALL_FRESH: readonly Found[] = []
