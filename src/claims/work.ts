import {
  type Activity,
  asError,
  collected,
  type Detached,
  detachedClock,
  errorFields,
  type HapaxError,
  isHapaxError,
  type LimitedLogger,
  type Outages,
  present,
  Semaphore,
} from '../base/index.ts'
import type { ConsumerSettings, OutcomeListener, Registered, Registry } from '../consumer/index.ts'
import {
  aboutOf,
  asFarAsStorable,
  compare,
  conflictWith,
  isLost,
  judge,
  MAX_CRASHES,
  outcome,
  placeOf,
  Reporter,
  ref,
  type TakenBefore,
  type Verdict,
  type WatchedAttempt,
  watched,
} from '../consumer/index.ts'
import type {
  Claimed,
  ClaimHistory,
  ClaimStore,
  Failure,
  Lease,
  Outcome,
  Release,
  StoredClaim,
} from '../contracts/index.ts'
import {
  type EffectEngine,
  type HeldLease,
  type LeaseSettings,
  Leases,
  TimeLimit,
  underLease,
} from '../leased/index.ts'
import { factsOfStored, type Received, recordFailure, type StoredMessage } from '../message/index.ts'
import type { DatabaseClock, Floor } from '../transaction/index.ts'
import { Call } from './call.ts'
import { crashLoop, elsewhere, halfLost, notDue, notItsTurn, Quarantine } from './quarantine.ts'

/** What every part of a hapax on a claim store shares. */
export interface ClaimEngine extends EffectEngine {
  readonly store: ClaimStore
  readonly logger: LimitedLogger
  readonly activity: Activity
  /** Learns nothing here: there are no heartbeats. */
  readonly databaseClock: DatabaseClock
  readonly outages: Outages
  readonly detached: Detached
  readonly maxBytes: number
  /** What this process is called in histories. */
  readonly worker: string
  /** Where the deliveries of this process run. */
  readonly floor: Floor
}

/** Settings of a consumer on a claim store. */
export interface ClaimSettings
  extends LeaseSettings,
    Pick<
      ConsumerSettings,
      | 'enabled'
      | 'receive'
      | 'timeoutMs'
      | 'missingId'
      | 'onMismatch'
      | 'retry'
      | 'unknown'
      | 'maxAgeMs'
      | 'retentionMs'
    > {
  /** How many handlers run at once. */
  readonly concurrency: number
}

/**
 * Requests of one turn of the event loop are sent as one. Not in pieces, although the store could begin earlier: a store that syncs to
 * disk before it replies would do so for each piece.
 */
const TOGETHER = { gather: 'turn', overlap: true } as const

type Write<T> = (failure: Failure) => Promise<T>

/** How long a claim took, if somebody listens. */
interface Checked {
  readonly checkMs?: number
}

/** A claimed message. */
type Work = ClaimHistory & Checked & { readonly message: StoredMessage; readonly lease: Lease }

/**
 * Claims messages, calls their handlers under the claim, and settles them. The store keeps claims, receipts and failed messages; the
 * payload of a message that is to be retried stays with the broker.
 */
export class ClaimedWork {
  readonly #engine: ClaimEngine
  readonly #consumer: string
  readonly #settings: ClaimSettings
  readonly #registry: Registry<never>
  readonly #reporter: Reporter
  readonly #leases: Leases
  readonly #limit: TimeLimit
  readonly #claimOne: (message: StoredMessage) => Promise<Claimed & Checked>
  readonly #settle: (lease: Lease) => Promise<boolean>
  readonly #places: Semaphore
  readonly #quarantine: Quarantine

  constructor(engine: ClaimEngine, consumer: string, settings: ClaimSettings, registry: Registry<never>) {
    const { store, detached } = engine
    const clock = detachedClock(engine.clock, detached)
    const { leaseMs, retentionMs } = settings
    this.#engine = engine
    this.#consumer = consumer
    this.#settings = settings
    this.#registry = registry
    this.#reporter = new Reporter(engine, consumer)
    this.#places = new Semaphore(settings.concurrency)
    this.#quarantine = new Quarantine(clock, settings.concurrency)
    this.#limit = new TimeLimit(clock, settings.maxDurationMs)
    this.#claimOne = collected({ ...TOGETHER, detached }, (messages) => this.#claim(messages, false))
    this.#settle = collected({ ...TOGETHER, detached }, async (leases: readonly Lease[]) => {
      const settled = await store.claims.settle(leases, retentionMs)
      return leases.map(({ seq }) => settled.has(seq))
    })
    const report = (error: Error): void =>
      engine.logger[engine.outages.levelOf(error)]({ consumer, ...errorFields(error) }, 'leases could not be renewed')
    this.#leases = new Leases({ store: store.claims, clock, leaseMs, report })
  }

  /** Takes distinct deliveries: claims them together, and works on those whose claim was granted. */
  async take(
    entries: readonly Received[],
    signal: AbortSignal | undefined,
    listener?: OutcomeListener,
  ): Promise<readonly Outcome[]> {
    const claims = await this.#claimed(entries)
    const outcomes = entries.map(async (entry, index) => {
      const outcome = await this.#taken(entry, present(claims[index], 'a claim of each message'), signal)
      listener?.(entry.stored, outcome)
      return outcome
    })
    try {
      return await Promise.all(outcomes)
    } catch (error) {
      // The caller must not see the error while handlers of the same call still run.
      await Promise.allSettled(outcomes)
      throw error
    }
  }

  /** Whether another process of this consumer handles the type by name, as during a rolling deployment. */
  async isElsewhere(type: string): Promise<boolean> {
    const known = await this.#engine.store.subscriptions.list()
    return known.some((each) => each.consumer === this.#consumer && each.type === type)
  }

  /** Begins with up to `limit` messages that wait in the store. Returns what it began, and when to look again. */
  async workStored(
    limit: number,
    signal: AbortSignal,
  ): Promise<{ readonly running: readonly Promise<Outcome>[]; readonly nextMs: number | undefined }> {
    const { store, random, outages } = this.#engine
    const claiming = { token: random.token(), leaseMs: this.#settings.leaseMs, limit }
    const { claims, nextMs } = await outages.during(() => store.claims.claimStored(this.#consumer, claiming))
    const running = claims.map((claim) => this.#stored(claim, signal))
    return { running, nextMs }
  }

  /** The outcome of a message whose receipt is there already: a duplicate, or a conflict. */
  takenBefore(stored: StoredMessage, before: TakenBefore, checkMs?: number): Outcome | Promise<Outcome> {
    const found = compare(stored, before, this.#settings.onMismatch)
    if (found === 'conflict') return this.#conflict(stored, conflictWith(before))
    return this.#reporter.duplicate(stored, { receipt: before, mismatch: found === 'mismatch', checkMs })
  }

  /** A delivery that came alone is claimed together with others that came alone in the same moment. */
  async #claimed(entries: readonly Received[]): Promise<readonly (Claimed & Checked)[]> {
    const [first] = entries
    if (entries.length === 1 && first !== undefined) return [await this.#claimOne(first.stored)]
    return this.#claim(
      entries.map(({ stored }) => stored),
      false,
    )
  }

  /** One token for all messages of a request; each still has a fence of its own. */
  async #claim(messages: readonly StoredMessage[], alone: boolean): Promise<readonly (Claimed & Checked)[]> {
    const { store, random, clock, events } = this.#engine
    const { leaseMs } = this.#settings
    const began = events.heard('processed') || events.heard('duplicate') ? clock.monotonic() : undefined
    const claims = await store.claims.claim(this.#consumer, messages, { token: random.token(), leaseMs, alone })
    if (began === undefined) return claims
    const checkMs = clock.monotonic() - began
    return claims.map((claimed) => ({ ...claimed, checkMs }))
  }

  /** What follows from the store's reply to a claim. */
  #taken(entry: Received, claimed: Claimed & Checked, signal: AbortSignal | undefined): Outcome | Promise<Outcome> {
    const { stored, refused } = entry
    switch (claimed.kind) {
      case 'ours':
        return this.#work({ ...claimed, message: stored }, refused, signal)
      case 'taken':
        return this.takenBefore(stored, claimed.receipt, claimed.checkMs)
      case 'suspect':
        return this.#suspect(entry, claimed.crashes, signal)
      case 'waiting':
        return { ...this.#reporter.busy(stored, notDue()), retryAfterMs: claimed.leftMs }
      case 'busy':
        return this.#reporter.busy(stored, elsewhere())
      case 'torn':
        return this.#reporter.busy(stored, halfLost())
    }
  }

  /** The process that had the message crashed or hung. It runs beside few other suspects, or none; if it may not run now, it is sent back. */
  async #suspect(entry: Received, crashes: number, signal: AbortSignal | undefined): Promise<Outcome> {
    if (!this.#quarantine.enter(crashes)) {
      return { ...this.#reporter.busy(entry.stored, notItsTurn()), retryAfterMs: SUSPECT_MS }
    }
    try {
      const [again] = await this.#claim([entry.stored], true)
      return await this.#taken(entry, present(again, 'the claim of a message'), signal)
    } finally {
      this.#quarantine.leave(crashes)
    }
  }

  /** A message that a person wants to be tried again. A type that this process does not handle is left to others. */
  async #stored(claim: StoredClaim, signal: AbortSignal): Promise<Outcome> {
    const { type } = claim.message
    if (!(await this.#isOurs(type))) return this.#putBack(claim, this.#registry.unknownType(type), ELSEWHERE_MS)
    if (claim.crashes === 0) return this.#work(claim, undefined, signal)
    // Keeping the claim while it waits would count another crash against it, if the running suspect ends the process.
    if (!this.#quarantine.enter(claim.crashes)) return this.#toLine(claim)
    try {
      return await this.#work(claim, undefined, signal)
    } finally {
      this.#quarantine.leave(claim.crashes)
    }
  }

  async #isOurs(type: string): Promise<boolean> {
    if (this.#registry.handlers.has(type)) return true
    return this.#registry.unknown !== undefined && !(await this.isElsewhere(type))
  }

  /** Another suspect runs. This one waits in the store, with its count of crashes unchanged. */
  async #toLine({ lease, attempts, crashes }: StoredClaim): Promise<Outcome> {
    const error = elsewhere()
    const { error: record } = recordFailure(this.#engine, error)
    await this.#engine.store.claims.release(lease, { attempts, crashes, delayMs: SUSPECT_MS, error: record })
    return outcome('rolled-back', error)
  }

  /** Works a claimed message, or records at once why it cannot be worked. The claim is renewed until it is settled. */
  async #work(work: Work, refused: HapaxError | undefined, signal: AbortSignal | undefined): Promise<Outcome> {
    const { message, attempts, crashes } = work
    const held = this.#leases.hold(work.lease)
    try {
      if (refused !== undefined) return await this.#verdict(work, refused, attempts)
      if (crashes >= MAX_CRASHES) return await this.#fail(work, crashLoop(crashes), attempts)
      return await this.#run(work, held, this.#registry.handlerOf(message.type), signal)
    } catch (error) {
      if (!isHapaxError(error, 'unknown-type')) throw error
      return await this.#verdict(work, error, attempts)
    } finally {
      held.end()
    }
  }

  /** Calls the handler when there is a place for it, and settles the message. */
  async #run(
    work: Work,
    held: HeldLease,
    handler: Registered<never>,
    signal: AbortSignal | undefined,
  ): Promise<Outcome> {
    const waiting = this.#places.enter()
    if (waiting !== undefined) await waiting
    const { instrument } = this.#engine
    if (instrument === undefined) return this.#attempt(work, held, handler, signal)
    const watching = { instrument, consumer: this.#consumer }
    const messages = factsOfStored([work.message], () => work.attempts + 1)
    return watched(watching, messages, (watch) => this.#attempt(work, held, handler, signal, watch))
  }

  async #attempt(
    work: Work,
    held: HeldLease,
    handler: Registered<never>,
    signal: AbortSignal | undefined,
    watch?: WatchedAttempt,
  ): Promise<Outcome> {
    const { clock, databaseClock, events } = this.#engine
    const started = clock.monotonic()
    const call = new Call({
      engine: this.#engine,
      consumer: this.#consumer,
      message: work.message,
      attempt: work.attempts + 1,
      held,
      leaseMs: this.#settings.leaseMs,
    })
    try {
      await underLease(held, this.#limit, signal, () => watch?.enter(() => call.run(handler)) ?? call.run(handler))
    } catch (error) {
      call.close()
      return this.#failed(work, asError(error), signal)
    } finally {
      // Settling needs no place: the next handler may run meanwhile.
      this.#places.give()
    }
    held.end()
    if (!(await (this.#watchedSettle(work) ?? this.#settle(work.lease)))) return this.#lost(work)
    if (events.heard('processed')) {
      const { message, attempts, checkMs } = work
      const times = { durationMs: clock.monotonic() - started, checkMs, lagMs: databaseClock.lagMs(message) }
      const event = { consumer: this.#consumer, message: ref(message), attempt: attempts + 1, ...times }
      events.emit('processed', () => event)
    }
    return PROCESSED
  }

  /** Settles in the sight of the instrument; undefined if there is none. */
  #watchedSettle({ message, lease }: Work): Promise<boolean> | undefined {
    const { instrument } = this.#engine
    if (instrument === undefined) return undefined
    const facts = { ...placeOf(this.#consumer), messages: factsOfStored([message]) }
    return instrument.around('settle', facts, () => this.#settle(lease))
  }

  #failed(work: Work, error: Error, signal: AbortSignal | undefined): Promise<Outcome> | Outcome {
    if (isHapaxError(error, 'lease-lost')) return this.#lost(work)
    // Not the handler's failure: the worker is stopping, or the store was not available.
    if (signal?.aborted || isHapaxError(error, 'store-unavailable')) return this.#putBack(work, error)
    return this.#verdict(work, error, work.attempts + 1)
  }

  /** Records a failed attempt: another one after a delay, or the failed store. */
  async #verdict(work: Work, error: Error, attempts: number): Promise<Outcome> {
    const { store, random } = this.#engine
    const { message, lease } = work
    const verdict = judge(error, attempts, this.#registry.retryOf(message.type), random)
    if (verdict.kind === 'fail') return this.#fail(work, verdict, attempts)
    const { delayMs } = verdict
    const end = { attempts, delayMs, ...recordFailure(this.#engine, error) }
    if (!(await store.claims.release(lease, end))) return this.#lost(work)
    this.#reporter.verdict(message, verdict, attempts)
    // Only the broker has the payload, so it has to deliver the message again.
    return { ...outcome('rolled-back', error), retryAfterMs: delayMs }
  }

  async #fail(
    { message, lease, ...work }: Work,
    verdict: Verdict & { kind: 'fail' },
    attempts: number,
  ): Promise<Outcome> {
    const there = await this.#kept(message, verdict, attempts, (failure) =>
      this.#engine.store.claims.fail(this.#consumer, lease, failure),
    )
    return there ? this.#reporter.verdict(message, verdict, attempts) : this.#lost({ message, lease, ...work })
  }

  /** Keeps a message whose identity belongs to another one; no claim is involved. */
  async #conflict(message: StoredMessage, error: HapaxError): Promise<Outcome> {
    const verdict = { kind: 'fail', reason: 'conflict', error } as const
    await this.#kept(message, verdict, 0, (failure) => this.#engine.store.claims.keep(this.#consumer, failure))
    this.#reporter.verdict(message, verdict, 0)
    return outcome('conflict', error)
  }

  /** Writes a message to the failed store, as far as the store accepts it. */
  #kept<T>(message: StoredMessage, verdict: Verdict & { kind: 'fail' }, attempts: number, write: Write<T>): Promise<T> {
    const { retentionMs } = this.#settings
    const failure = {
      attempts,
      reason: verdict.reason,
      ...recordFailure(this.#engine, verdict.error, { kind: isLost(verdict.reason) ? 'lost' : undefined }),
      retentionMs,
    }
    return asFarAsStorable({ message, verdict }, (kept) => write({ ...failure, message: kept.message }))
  }

  /** Releases the claim without using up an attempt; a suspect stays a suspect. If the store is away, the claim runs out by itself. */
  async #putBack(
    { message, lease, attempts, crashes }: Work,
    error: Error,
    delayMs: number = PUT_BACK_MS,
  ): Promise<Outcome> {
    const { store, logger, events } = this.#engine
    const event = { consumer: this.#consumer, message: ref(message) }
    await store.claims
      .release(lease, { attempts, crashes, delayMs, ...this.#notItsFault(error) })
      .catch((thrown: unknown) =>
        logger.warn(
          { ...aboutOf(event), ...errorFields(asError(thrown)) },
          'the claim could not be released; it has to run out',
        ),
      )
    logger.warn({ ...aboutOf(event), ...errorFields(error) }, 'the message is put back')
    events.emit('rolled-back', () => ({ ...event, error }))
    return outcome('rolled-back', error)
  }

  /** Only what went wrong belongs into the history, and not that another process has to work it. */
  #notItsFault(error: Error): Pick<Release, 'error' | 'entry'> {
    const failure = recordFailure(this.#engine, error, { kind: 'lost' })
    return isHapaxError(error, 'unknown-type') ? { error: failure.error } : failure
  }

  /** A type of another process. Nothing is claimed, and the broker delivers it again, in time to the right process. */
  notHere({ stored }: Received): Outcome {
    const error = this.#registry.unknownType(stored.type)
    this.#engine.events.emit('rolled-back', () => ({ consumer: this.#consumer, message: ref(stored), error }))
    return outcome('rolled-back', error)
  }

  /** The claim was lost. Another process has the message or has settled it; the next delivery finds out which. */
  #lost({ message, lease }: Work): Outcome {
    this.#reporter.leaseLost(message, lease.fence)
    return outcome('busy', elsewhere())
  }
}

const PROCESSED = outcome('processed')
/** How long a message that was put back waits before it is tried again. */
export const PUT_BACK_MS = 100
/** How long a suspect waits before it asks again whether it may run. */
export const SUSPECT_MS = 1_000
/** How long a message is left to the process that handles its type. */
const ELSEWHERE_MS = 5_000
