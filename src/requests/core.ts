import {
  type Activity,
  asError,
  type Clock,
  type EventHub,
  faultFields,
  type HapaxEvents,
  isHapaxError,
  type LimitedLogger,
  type Outages,
  pause,
  type Random,
  type SafeInstrument,
  within,
} from '../base/index.ts'
import type { HttpHandler, RequestHandler } from '../contracts/index.ts'
import { type Accepted, accept, isKeyed, type Keyed } from './accept.ts'
import { asResponse, replayed } from './capture.ts'
import { Gate, type Landed, type Settled } from './gate.ts'
import { type HttpSettings, handlerOption, requestOption } from './options.ts'
import { databaseUnavailable, handlerFailed, inProgress, keyReused, outcomeUnknown } from './problems.ts'

/** What became of a request. */
type HttpOutcome = HapaxEvents['http-request']['outcome']

/** What a request gets. */
export interface Answer {
  readonly outcome: HttpOutcome
  readonly response: Response
  /** The response as it was kept, so that copies of the request that wait in this process get it as well. */
  readonly settled?: Settled | undefined
  /** What is still to be done for it after the response was sent. Never rejects. */
  readonly rest?: Promise<unknown> | undefined
}

/** How requests run on a kind of store. */
export interface Way<Context> {
  /** Runs a request without a key: nothing is known of it before, and nothing is kept. */
  plain(request: Accepted, handle: HttpHandler<Context>): Promise<Answer>
  /** Runs a request with a key, or finds out that it ran. `busy`: another process has it. */
  keyed(request: Keyed, handle: HttpHandler<Context>): Promise<Answer | 'busy'>
}

/** What requests need of a hapax. */
export interface RequestEngine {
  readonly clock: Clock
  readonly random: Random
  readonly events: EventHub
  readonly logger: LimitedLogger
  readonly activity: Activity
  readonly outages: Outages
  readonly instrument: SafeInstrument | undefined
}

/** Takes requests of a scope: what does not depend on the store. */
export class Requests<Context> {
  readonly settings: HttpSettings
  readonly #engine: RequestEngine
  readonly #way: Way<Context>
  readonly #gate: Gate

  constructor(engine: RequestEngine, settings: HttpSettings, way: Way<Context>, gate: Gate = new Gate(settings.scope)) {
    this.#engine = engine
    this.settings = settings
    this.#way = way
    this.#gate = gate
  }

  /** A function to mount. */
  handler(handle: HttpHandler<Context>): RequestHandler {
    handlerOption(handle)
    return (request) => this.take(request, handle)
  }

  /** Takes one request. Rejects only where the application made a mistake that no client should see as a response. */
  async take(request: Request, handle: HttpHandler<Context>): Promise<Response> {
    requestOption(request)
    handlerOption(handle)
    const { activity, clock, events, instrument } = this.#engine
    const { scope, consumer } = this.settings
    if (activity.closed) return databaseUnavailable()
    const started = clock.monotonic()
    let begun = false
    const begin = (): void => {
      activity.begin()
      begun = true
    }
    let answer: Answer | undefined
    try {
      if (instrument === undefined) answer = await this.#answer(request, handle, begin)
      else {
        answer = await instrument.around('http', { system: 'hapax', consumer, scope }, async (running) => {
          const inside: HttpHandler<Context> = (each, ctx) => running.enter(() => handle(each, ctx))
          const { outcome, ...others } = await this.#answer(request, inside, begin)
          running.add({ outcomes: [outcome] })
          return { outcome, ...others }
        })
      }
      const { outcome, response } = answer
      const { status } = response
      events.emit('http-request', () => ({ scope, outcome, status, durationMs: clock.monotonic() - started }))
      return response
    } finally {
      if (begun && answer?.rest === undefined) activity.end()
      else void answer?.rest?.finally(() => activity.end())
    }
  }

  async #answer(request: Request, handle: HttpHandler<Context>, begin: () => void): Promise<Answer> {
    const accepted = await this.#accept(request)
    if ('outcome' in accepted) return accepted
    // Closing does not wait for what a client has still to send: it may take its time.
    if (this.#engine.activity.closed) return { outcome: 'unavailable', response: databaseUnavailable() }
    begin()
    if (isKeyed(accepted)) this.#gate.refuseNested(accepted.message)
    const { outages } = this.#engine
    const { noticed } = outages
    try {
      const answer = isKeyed(accepted) ? await this.#keyed(accepted, handle) : await this.#way.plain(accepted, handle)
      if (answer.outcome !== 'unavailable') outages.over(noticed)
      return answer
    } catch (error) {
      outages.failed(error)
      return this.#unavailable(asError(error), isKeyed(accepted))
    }
  }

  async #accept(request: Request): Promise<Accepted | Answer> {
    try {
      const accepted = await accept(request, this.settings)
      return accepted instanceof Response ? { outcome: 'rejected', response: accepted } : accepted
    } catch (thrown) {
      const response = asResponse(thrown)
      if (response !== undefined) return { outcome: 'rejected', response }
      const fields = { consumer: this.settings.consumer, ...faultFields(asError(thrown)) }
      this.#engine.logger.error(fields, 'a request was refused, because what tells its sender or route failed')
      return { outcome: 'failed', response: handlerFailed() }
    }
  }

  /** Waits while another request with the key runs, here or elsewhere, for as long as the settings say. */
  async #keyed(request: Keyed, handle: HttpHandler<Context>): Promise<Answer> {
    const { clock } = this.#engine
    const until = clock.monotonic() + this.settings.waitMs
    for (let tries = 0; ; tries++) {
      const flight = this.#gate.flight(request.message)
      let landed: Landed
      if (flight === undefined) {
        const answer = await this.#run(request, handle)
        if (answer !== 'busy') return answer
        landed = 'busy'
      } else {
        await flight.known
        const leftMs = until - clock.monotonic()
        if (flight.landed === undefined && leftMs <= 0) return IN_PROGRESS()
        landed = flight.landed ?? (await within<Landed>(clock, leftMs, flight.done, () => 'free'))
      }
      if (typeof landed === 'object') return again(landed, request)
      if (landed === 'busy') {
        const leftMs = until - clock.monotonic()
        if (leftMs <= 0) return IN_PROGRESS()
        await pause(clock, Math.min(leftMs, this.#backoffMs(tries)))
      }
    }
  }

  #run(request: Keyed, handle: HttpHandler<Context>): Promise<Answer | 'busy'> {
    return this.#gate.run(
      request.message,
      (begins) =>
        this.#way.keyed(request, (each, ctx) => {
          begins()
          return handle(each, ctx)
        }),
      (answer): Landed => (answer === 'busy' ? 'busy' : (answer.settled ?? 'free')),
    )
  }

  /** Between looks at what another process does; no connection is held meanwhile. */
  #backoffMs(tries: number): number {
    const most = Math.min(MOST_PAUSE_MS, LEAST_PAUSE_MS * 2 ** Math.min(tries, 4))
    return LEAST_PAUSE_MS + (most - LEAST_PAUSE_MS) * this.#engine.random.number()
  }

  /** The database could not be reached, or could not tell. Its own words are for the log only. */
  #unavailable(error: Error, keyed: boolean): Answer {
    const { logger, outages } = this.#engine
    const fields = { consumer: this.settings.consumer, ...faultFields(error) }
    const unknown = isHapaxError(error, 'commit-unknown')
    const what = unknown ? 'the outcome of a request could not be learnt' : 'a request could not be taken'
    logger[outages.levelOf(error)](fields, what)
    return { outcome: 'unavailable', response: unknown ? outcomeUnknown(keyed) : databaseUnavailable() }
  }
}

const LEAST_PAUSE_MS = 25
const MOST_PAUSE_MS = 250

const IN_PROGRESS = (): Answer => ({ outcome: 'in-progress', response: inProgress() })

/** What a request gets that came before with this response. */
export function again(settled: Settled, { message }: Keyed): Answer {
  if (settled.fingerprint !== message.fingerprint) return { outcome: 'mismatch', response: keyReused() }
  return { outcome: 'replayed', response: replayed(settled.response), settled }
}
