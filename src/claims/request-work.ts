import {
  asError,
  detachedClock,
  errorFields,
  faultFields,
  HapaxError,
  isHapaxError,
  type RetryPolicy,
} from '../base/index.ts'
import {
  asFarAsStorable,
  CONCURRENCY,
  howToSee,
  isLost,
  judge,
  MAX_CRASHES,
  outcome,
  placeOf,
  Reporter,
  ref,
  type Verdict,
  watched,
} from '../consumer/index.ts'
import type {
  ClaimContext,
  Claimed,
  ClaimHistory,
  FinishedLease,
  Lease,
  Outcome,
  StoredClaim,
} from '../contracts/index.ts'
import { type HeldLease, type LeaseSettings, Leases, TimeLimit, underLease } from '../leased/index.ts'
import { defineMessage, factsOfStored, recordFailure, type StoredMessage } from '../message/index.ts'
import { type Captured, type HttpSettings, REQUEST_TYPE } from '../requests/index.ts'
import { Call } from './call.ts'
import type { ClaimServed } from './line.ts'
import { crashLoop, elsewhere, halfLost, Quarantine } from './quarantine.ts'
import { type ClaimEngine, PUT_BACK_MS, SUSPECT_MS } from './work.ts'

/** A claimed request. */
export type RequestClaim = ClaimHistory & { readonly message: StoredMessage; readonly lease: Lease }

/** Calls the handler of a request. Throws `Unkept` for a response that is not to be kept. */
export type RequestCall = (ctx: ClaimContext) => Promise<Captured>

/** What became of an attempt. */
export type Ran =
  /** The response is kept with the receipt. */
  | { readonly kind: 'kept'; readonly captured: Captured }
  /** It is free for the next attempt. */
  | { readonly kind: 'released'; readonly error: Error }
  /** It is in the failed store. */
  | { readonly kind: 'failed'; readonly reason: string; readonly error: Error }
  /** Another process has it, or has settled it. */
  | { readonly kind: 'lost' }

/** A response that is sent and not kept: the attempt has failed. */
export class Unkept extends Error {
  readonly response: Response

  constructor(response: Response) {
    super(`the handler returned a response of status ${response.status}, which is not kept`)
    this.response = response
  }
}

/** Every request, as a message. */
const RequestMessage = defineMessage<unknown>(REQUEST_TYPE)

/** Nothing tries a request again but its client, as often as it likes, and whoever retries it from the failed store. */
const RETRY: RetryPolicy = { attempts: 2, minDelayMs: 0, maxDelayMs: 0, factor: 1 }

/** Claims requests of a scope, calls their handlers under the claim, and settles them with their responses. */
export class RequestWork implements ClaimServed {
  readonly name: string
  readonly types: readonly string[] = [REQUEST_TYPE]
  readonly resendsForMs = 0
  readonly settings: ClaimServed['settings']
  readonly #engine: ClaimEngine
  readonly #http: HttpSettings
  readonly #lease: LeaseSettings
  readonly #reporter: Reporter
  readonly #leases: Leases
  readonly #limit: TimeLimit
  readonly #quarantine: Quarantine
  readonly #rebuilt: (message: StoredMessage) => RequestCall

  /** `rebuilt` calls the handler for a request that only the store knows any more. */
  constructor(
    engine: ClaimEngine,
    http: HttpSettings,
    lease: LeaseSettings,
    rebuilt: (message: StoredMessage) => RequestCall,
  ) {
    const { consumer } = http
    const clock = detachedClock(engine.clock, engine.detached)
    this.name = consumer
    this.settings = { enabled: true, concurrency: CONCURRENCY, retentionMs: http.keepMs, retry: RETRY }
    this.#engine = engine
    this.#http = http
    this.#lease = lease
    this.#rebuilt = rebuilt
    this.#reporter = new Reporter(engine, consumer)
    this.#quarantine = new Quarantine(clock, CONCURRENCY)
    this.#limit = new TimeLimit(clock, lease.maxDurationMs)
    const report = (error: Error): void =>
      engine.logger[engine.outages.levelOf(error)]({ consumer, ...errorFields(error) }, 'leases could not be renewed')
    this.#leases = new Leases({ store: engine.store.claims, clock, leaseMs: lease.leaseMs, report })
  }

  isOf(engine: ClaimEngine): boolean {
    return this.#engine === engine
  }

  start(): void {}

  /** Claims a request and runs it, if nobody else has it. A suspect runs beside few others, or none; it is `busy` until it may. */
  async take(
    message: StoredMessage,
    call: RequestCall,
  ): Promise<Ran | Exclude<Claimed, { readonly kind: 'ours' | 'torn' }>> {
    const claimed = await this.#claim(message, false)
    if (claimed.kind === 'ours') return this.#run({ ...claimed, message }, call)
    if (claimed.kind !== 'suspect') return claimed
    const { crashes } = claimed
    if (!this.#quarantine.enter(crashes)) return { kind: 'busy' }
    try {
      const again = await this.#claim(message, true)
      return again.kind === 'ours' ? await this.#run({ ...again, message }, call) : again
    } finally {
      this.#quarantine.leave(crashes)
    }
  }

  /** Begins with up to `limit` requests that a person retried. */
  async workStored(
    limit: number,
    signal: AbortSignal,
  ): Promise<{ readonly running: readonly Promise<Outcome>[]; readonly nextMs: number | undefined }> {
    const { store, random, outages } = this.#engine
    const claiming = { token: random.token(), leaseMs: this.#lease.leaseMs, limit }
    const { claims, nextMs } = await outages.during(() => store.claims.claimStored(this.name, claiming))
    return { running: claims.map((claim) => this.#stored(claim, signal)), nextMs }
  }

  async #claim(message: StoredMessage, alone: boolean): Promise<Exclude<Claimed, { readonly kind: 'torn' }>> {
    const { store, random } = this.#engine
    const { leaseMs, maxDurationMs } = this.#lease
    const findableMs = this.#http.keepMs + maxDurationMs
    const options = { token: random.token(), leaseMs, alone, strict: true, findableMs }
    const [claimed] = await store.claims.claim(this.name, [message], options)
    if (claimed?.kind === 'torn') throw halfLost()
    return claimed ?? { kind: 'busy' }
  }

  async #stored(claim: StoredClaim, signal: AbortSignal): Promise<Outcome> {
    const { crashes } = claim
    if (crashes > 0 && !this.#quarantine.enter(crashes)) {
      await this.#putBack(claim, elsewhere(), SUSPECT_MS)
      return outcome('busy')
    }
    try {
      return await this.#watched(claim, signal)
    } finally {
      if (crashes > 0) this.#quarantine.leave(crashes)
    }
  }

  async #watched(claim: StoredClaim, signal: AbortSignal): Promise<Outcome> {
    const { instrument, clock, events } = this.#engine
    const started = clock.monotonic()
    const run = async (enter: <T>(work: () => T) => T): Promise<Outcome> => {
      const call = this.#rebuilt(claim.message)
      const ran = await this.#run(claim, (ctx) => enter(() => call(ctx)), signal)
      if (ran.kind !== 'kept') return outcomeOf(ran)
      const message = ref(claim.message)
      const attempt = claim.attempts + 1
      events.emit('processed', () => ({
        consumer: this.name,
        message,
        attempt,
        durationMs: clock.monotonic() - started,
      }))
      return outcome('processed')
    }
    if (instrument === undefined) return run((work) => work())
    const messages = factsOfStored([claim.message], () => claim.attempts + 1)
    return watched({ instrument, consumer: this.name, stored: true }, messages, (watch) =>
      run((work) => watch.enter(work)),
    )
  }

  async #run(claim: RequestClaim, call: RequestCall, signal?: AbortSignal): Promise<Ran> {
    const held = this.#leases.hold(claim.lease)
    try {
      if (claim.crashes >= MAX_CRASHES) return await this.#fail(claim, crashLoop(claim.crashes), claim.attempts)
      return await this.#attempt(claim, held, call, signal)
    } finally {
      held.end()
    }
  }

  async #attempt(claim: RequestClaim, held: HeldLease, answer: RequestCall, signal?: AbortSignal): Promise<Ran> {
    const { message, attempts } = claim
    const { leaseMs } = this.#lease
    const attempt = attempts + 1
    const call = new Call({ engine: this.#engine, consumer: this.name, message, attempt, held, leaseMs })
    let captured: Captured | undefined
    const handler = {
      kind: 'claimed',
      retry: undefined,
      type: RequestMessage,
      call: async (_: unknown, ctx: ClaimContext) => {
        captured = await answer(ctx)
      },
    } as const
    try {
      await underLease(held, this.#limit, signal, () => call.run(handler))
    } catch (error) {
      call.close()
      return this.#failed(claim, asError(error), signal)
    }
    held.end()
    if (captured === undefined) throw new HapaxError('unrecognised-result', 'a request ended without a response')
    return this.#settle(claim, captured)
  }

  /** Writes the receipt with the response. If that fails, nobody knows whether it is written: the next request with the key finds out. */
  async #settle(claim: RequestClaim, captured: Captured): Promise<Ran> {
    const { store, instrument } = this.#engine
    const { keepMs } = this.#http
    const finished: FinishedLease = { ...claim.lease, response: captured.stored }
    const write = (): Promise<ReadonlySet<string>> => store.claims.settle([finished], keepMs)
    const facts = { ...placeOf(this.name), messages: factsOfStored([claim.message]) }
    try {
      const settled = await (instrument === undefined ? write() : instrument.around('settle', facts, write))
      return settled.has(claim.lease.seq) ? { kind: 'kept', captured } : this.#lost(claim)
    } catch (cause) {
      throw new HapaxError('commit-unknown', 'it is not known whether the response to a request was written', { cause })
    }
  }

  async #failed(claim: RequestClaim, error: Error, signal: AbortSignal | undefined): Promise<Ran> {
    if (isHapaxError(error, 'lease-lost')) return this.#lost(claim)
    // Not the handler's failure: the worker is stopping, or the store was not available.
    const away = isHapaxError(error, 'store-unavailable')
    if (away || signal?.aborted) {
      await this.#putBack(claim, error, PUT_BACK_MS)
      if (away) throw error
      return { kind: 'released', error }
    }
    const attempts = claim.attempts + 1
    // As if it were the first one each time: a client may come again as often as it likes.
    const verdict = judge(error, 1, RETRY, this.#engine.random)
    if (verdict.kind === 'fail') return this.#fail(claim, verdict, attempts)
    return this.#release(claim, verdict.delayMs, error, attempts)
  }

  /** The claim is open for the client's next request, with the journal of this one; it is forgotten if none comes. */
  async #release(
    { message, lease, ...claim }: RequestClaim,
    delayMs: number,
    error: Error,
    attempts: number,
  ): Promise<Ran> {
    const { store, logger } = this.#engine
    const end = { attempts, delayMs, ...recordFailure(this.#engine, error), forgetMs: this.#http.keepMs }
    if (!(await store.claims.release(lease, end))) return this.#lost({ message, lease, ...claim })
    const about = { consumer: this.name, about: ref(message), attempt: attempts }
    if (error instanceof Unkept)
      logger.debug({ ...about, ...errorFields(error) }, 'the response to a request is not kept')
    else logger.error({ ...about, ...faultFields(error), ...howToSee(message) }, 'the handler of a request failed')
    return { kind: 'released', error }
  }

  async #fail(claim: RequestClaim, verdict: Verdict & { kind: 'fail' }, attempts: number): Promise<Ran> {
    const { message, lease } = claim
    const { reason, error } = verdict
    const failure = {
      attempts,
      reason,
      ...recordFailure(this.#engine, error, { kind: isLost(reason) ? 'lost' : undefined }),
      retentionMs: this.#http.keepMs,
    }
    const { claims } = this.#engine.store
    const there = await asFarAsStorable({ message, verdict }, (kept) =>
      claims.fail(this.name, lease, { ...failure, message: kept.message }),
    )
    if (!there) return this.#lost(claim)
    this.#reporter.verdict(message, verdict, attempts)
    return { kind: 'failed', reason, error }
  }

  /** Releases the claim without using up an attempt. If the store is away, the claim runs out by itself. */
  async #putBack({ message, lease, attempts, crashes }: RequestClaim, error: Error, delayMs: number): Promise<void> {
    const { store, logger } = this.#engine
    const about = { consumer: this.name, about: ref(message) }
    const end = { attempts, crashes, delayMs, ...recordFailure(this.#engine, error, { kind: 'lost' }) }
    await store.claims
      .release(lease, { ...end, forgetMs: this.#http.keepMs })
      .catch((thrown: unknown) =>
        logger.warn(
          { ...about, ...errorFields(asError(thrown)) },
          'the claim could not be released; it has to run out',
        ),
      )
  }

  #lost({ message, lease }: RequestClaim): Ran {
    this.#reporter.leaseLost(message, lease.fence)
    return { kind: 'lost' }
  }
}

function outcomeOf(ran: Exclude<Ran, { readonly kind: 'kept' }>): Outcome {
  if (ran.kind === 'lost') return outcome('busy', elsewhere())
  if (ran.kind === 'released') return outcome('rolled-back', ran.error)
  return outcome(ran.reason === 'unknown-effect' ? 'held' : 'failed', ran.error)
}
