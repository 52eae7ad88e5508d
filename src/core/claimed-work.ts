import type { Activity } from './activity.ts'
import type { ConsumerSettings } from './consumer-options.ts'
import { type EffectEngine, Effects } from './effect.ts'
import { asError, HapaxError, isHapaxError, messageOf, recordError } from './errors.ts'
import type { Floor } from './floor.ts'
import type { Content, LeaseContext, LeasedContext, Registered } from './handlers.ts'
import { MAX_CRASHES } from './inbox.ts'
import type { Entry } from './intake.ts'
import { type HeldLease, Leases, underLease } from './lease.ts'
import type { Claimed, ClaimHistory, LeaseStore, StoredClaim } from './lease-store.ts'
import { callLeased, type LeaseSettings } from './leased-work.ts'
import type { StoredMessage } from './message.ts'
import { type Outcome, outcome } from './outcome.ts'
import { compare, conflictWith } from './record.ts'
import type { Registry } from './registry.ts'
import { Reporter, ref, type TakenBefore } from './reporter.ts'
import type { Lease } from './store.ts'
import { Together } from './together.ts'
import { judge, type Verdict } from './verdict.ts'

/** What every part of a hapax on a lease store shares. */
export interface LeaseEngine extends EffectEngine {
  readonly store: LeaseStore
  readonly activity: Activity
  readonly maxBytes: number
  /** Where the deliveries of this process run. */
  readonly floor: Floor
}

/** Settings of a consumer on a lease store. */
export interface ClaimSettings
  extends LeaseSettings,
    Pick<
      ConsumerSettings,
      'receive' | 'timeoutMs' | 'missingId' | 'onMismatch' | 'retry' | 'maxAgeMs' | 'retentionMs'
    > {
  /** How many handlers run at once. */
  readonly concurrency: number
}

/** A claimed message. */
interface Work extends ClaimHistory {
  readonly message: StoredMessage
  readonly lease: Lease
}

/** Claims messages, calls their handlers under the lease, and writes down what became of them. Nothing else is kept of a message. */
export class ClaimedWork {
  readonly #engine: LeaseEngine
  readonly #consumer: string
  readonly #settings: ClaimSettings
  readonly #registry: Registry<never>
  readonly #reporter: Reporter
  readonly #leases: Leases
  readonly #claims: Together<StoredMessage, Claimed>
  readonly #settling: Together<Lease, boolean>
  readonly #places: Turnstile
  /** Suspects are called one after the other. */
  readonly #alone = new Turnstile(1)

  constructor(engine: LeaseEngine, consumer: string, settings: ClaimSettings, registry: Registry<never>) {
    const { store, clock } = engine
    const { leaseMs, retentionMs } = settings
    this.#engine = engine
    this.#consumer = consumer
    this.#settings = settings
    this.#registry = registry
    this.#reporter = new Reporter(engine, consumer)
    this.#places = new Turnstile(settings.concurrency)
    this.#claims = new Together((messages) => this.#claim(messages, false), AT_ONCE)
    this.#settling = new Together(async (leases) => {
      const settled = await store.settle(leases, retentionMs)
      return leases.map(({ seq }) => settled.has(seq))
    }, AT_ONCE)
    const report = (error: Error): void =>
      engine.logger.warn({ consumer, error: messageOf(error) }, 'leases could not be prolonged')
    this.#leases = new Leases({ store, clock, leaseMs, report })
  }

  /** Takes a delivery: claims it, and works on it if it is ours. */
  async take({ stored, refused }: Entry, signal: AbortSignal | undefined): Promise<Outcome> {
    if (refused === undefined && !this.#registry.handlers.has(stored.type)) {
      // Another process of this consumer handles it (a rolling deploy): the broker finds that one.
      if (await this.#engine.store.isSubscribed(this.#consumer, stored.type)) return this.#notHere(stored)
    }
    const claimed = await this.#claims.ask(stored)
    if (claimed.kind !== 'suspect') return this.#taken(stored, claimed, refused, signal)
    return this.#alone.pass(async () => {
      const [again] = await this.#claim([stored], true)
      return this.#taken(stored, again as Claimed, refused, signal)
    })
  }

  /** Works messages that the store had, as many as it may; answers those that it began with, and when to look again. */
  async workStored(
    limit: number,
    signal: AbortSignal,
  ): Promise<{ readonly running: readonly Promise<Outcome>[]; readonly nextMs: number | undefined }> {
    const { store, random } = this.#engine
    const { leaseMs } = this.#settings
    const token = random.token()
    const { claims, nextMs } = await store.claimStored(this.#consumer, { token, leaseMs, limit })
    const running = claims.map((claim) => this.#stored(claim, signal))
    return { running, nextMs }
  }

  /** Says what a message is to one that was taken before it. */
  takenBefore(stored: StoredMessage, before: TakenBefore): Outcome | Promise<Outcome> {
    const found = compare(stored, before, this.#settings.onMismatch)
    if (found === 'conflict') return this.#conflict(stored, conflictWith(before))
    return this.#reporter.duplicate(stored, before, found === 'mismatch')
  }

  #claim(messages: readonly StoredMessage[], alone: boolean): Promise<readonly Claimed[]> {
    const { store, random } = this.#engine
    const { leaseMs } = this.#settings
    return store.claim(this.#consumer, messages, { token: random.token(), leaseMs, alone })
  }

  #taken(
    stored: StoredMessage,
    claimed: Claimed,
    refused: HapaxError | undefined,
    signal: AbortSignal | undefined,
  ): Outcome | Promise<Outcome> {
    switch (claimed.kind) {
      case 'ours':
        return this.#work({ ...claimed, message: stored }, refused, signal)
      case 'taken':
        return this.takenBefore(stored, claimed.receipt)
      case 'waiting':
        return { ...this.#reporter.busy(stored, notDue()), retryAfterMs: claimed.leftMs }
      default:
        return this.#reporter.busy(stored, elsewhere())
    }
  }

  /** One that a person wants to be tried again. A type that this process does not handle is left to others. */
  async #stored(claim: StoredClaim, signal: AbortSignal): Promise<Outcome> {
    if (!this.#registry.handlers.has(claim.message.type))
      return this.#putBack(claim, unknownType(claim.message.type), ELSEWHERE_MS)
    if (claim.crashes === 0) return this.#work(claim, undefined, signal)
    return this.#alone.pass(() => this.#work(claim, undefined, signal))
  }

  async #work(work: Work, refused: HapaxError | undefined, signal: AbortSignal | undefined): Promise<Outcome> {
    const { message, attempts, crashes } = work
    const handler = this.#registry.handlers.get(message.type)
    const held = this.#leases.hold(work.lease)
    try {
      if (refused !== undefined) return await this.#verdict(work, refused, attempts)
      if (crashes >= MAX_CRASHES) return await this.#fail(work, crashLoop(crashes), attempts)
      if (handler === undefined) return await this.#verdict(work, unknownType(message.type), attempts)
      return await this.#places.pass(() => this.#run(work, held, handler, signal))
    } finally {
      held.end()
    }
  }

  async #run(
    work: Work,
    held: HeldLease,
    handler: Registered<never>,
    signal: AbortSignal | undefined,
  ): Promise<Outcome> {
    const { clock } = this.#engine
    const started = clock.monotonic()
    try {
      const limits = { clock, maxDurationMs: this.#settings.maxDurationMs, stop: signal }
      await underLease(held, limits, () => this.#call(work, held, handler))
    } catch (error) {
      return this.#failed(work, asError(error), signal)
    }
    held.end()
    if (!(await this.#settling.ask(work.lease))) return this.#lost(work)
    const durationMs = clock.monotonic() - started
    const event = { consumer: this.#consumer, message: ref(work.message), attempt: work.attempts + 1, durationMs }
    this.#engine.events.emit('processed', () => event)
    return PROCESSED
  }

  #call({ message, attempts }: Work, held: HeldLease, handler: Registered<never>): Promise<void> {
    const engine = this.#engine
    const { leaseMs } = this.#settings
    const effects = new Effects({ engine, consumer: this.#consumer, message, held, leaseMs })
    const contextOf = (content: Content): LeaseContext => ({
      message: content.message,
      signal: held.signal,
      attempt: attempts + 1,
      fence: held.fence,
      logger: engine.logger,
      effect: (name, call, options) => effects.effect(name, call, options),
      note: (fields) => effects.note(fields),
    })
    // There is no transaction to complete, and the types of the handler know it.
    return callLeased(handler, message, attempts + 1, effects, contextOf as (content: Content) => LeasedContext<never>)
  }

  #failed(work: Work, error: Error, signal: AbortSignal | undefined): Promise<Outcome> | Outcome {
    if (isHapaxError(error, 'lease-lost')) return this.#lost(work)
    // Nobody's fault: the worker was told to stop, or the store let it down.
    if (signal?.aborted || isHapaxError(error, 'store-unavailable')) return this.#putBack(work, error)
    return this.#verdict(work, error, work.attempts + 1)
  }

  async #verdict(work: Work, error: Error, attempts: number): Promise<Outcome> {
    const { store, random } = this.#engine
    const { message, lease } = work
    const verdict = judge(error, attempts, this.#registry.retryOf(message.type), random)
    if (verdict.kind === 'fail') return this.#fail(work, verdict, attempts)
    const { delayMs } = verdict
    if (!(await store.release(lease, { attempts, delayMs, error: recordError(error) }))) return this.#lost(work)
    this.#reporter.verdict(message, verdict, attempts)
    // Only the broker has it: it has to deliver it again.
    return { ...outcome('rolled-back', error), retryAfterMs: delayMs }
  }

  async #fail(
    { message, lease, ...work }: Work,
    verdict: Verdict & { kind: 'fail' },
    attempts: number,
  ): Promise<Outcome> {
    const { reason, error } = verdict
    const { retentionMs } = this.#settings
    const failure = { message, attempts, reason, error: recordError(error), retentionMs }
    if (!(await this.#engine.store.fail(this.#consumer, lease, failure))) return this.#lost({ message, lease, ...work })
    return this.#reporter.verdict(message, verdict, attempts)
  }

  async #conflict(message: StoredMessage, error: HapaxError): Promise<Outcome> {
    const { retentionMs } = this.#settings
    const failure = { message, attempts: 0, reason: 'conflict', error: recordError(error), retentionMs }
    await this.#engine.store.keep(this.#consumer, failure)
    this.#reporter.verdict(message, { kind: 'fail', reason: 'conflict', error }, 0)
    return outcome('conflict', error)
  }

  /** Lets go of it without using up an attempt. If the store is away the lease ends by itself. */
  async #putBack({ message, lease, attempts }: Work, error: Error, delayMs: number = PUT_BACK_MS): Promise<Outcome> {
    const { store, logger, events } = this.#engine
    const event = { consumer: this.#consumer, message: ref(message) }
    await store
      .release(lease, { attempts, delayMs, error: recordError(error) })
      .catch((thrown: unknown) =>
        logger.warn({ ...event, error: messageOf(asError(thrown)) }, 'its lease has to run out'),
      )
    logger.warn({ ...event, error: messageOf(error) }, 'the message is put back')
    events.emit('rolled-back', () => ({ ...event, error }))
    return outcome('rolled-back', error)
  }

  #notHere(stored: StoredMessage): Outcome {
    const error = unknownType(stored.type)
    this.#engine.events.emit('rolled-back', () => ({ consumer: this.#consumer, message: ref(stored), error }))
    return outcome('rolled-back', error)
  }

  /** Another process has it now, or has settled it: who it is, the next delivery finds out. */
  #lost({ message, lease }: Work): Outcome {
    this.#reporter.leaseLost(message, lease.fence)
    return outcome('busy', elsewhere())
  }
}

/** Lets so many through at a time. */
class Turnstile {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }
}

const PROCESSED = outcome('processed')
/** How many messages one question to the store is about. */
const AT_ONCE = 200
/** What was put back is not tried again at once. */
const PUT_BACK_MS = 100
/** What another process has to handle is left to it for so long. */
const ELSEWHERE_MS = 5_000

function elsewhere(): HapaxError {
  return new HapaxError('busy', 'another process is working on this message')
}

function notDue(): HapaxError {
  return new HapaxError('busy', 'the next attempt at this message is not due yet')
}

function crashLoop(crashes: number): Verdict & { kind: 'fail' } {
  const what = `${crashes} times in a row, whoever worked on this message was not heard of again`
  return { kind: 'fail', reason: 'crash-loop', error: new HapaxError('crash-loop', what) }
}

function unknownType(type: string): HapaxError {
  return new HapaxError('unknown-type', `expected a type that this consumer handles, got ${type}`)
}
