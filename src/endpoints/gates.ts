import type { Clock, Random } from '../base/index.ts'
import type { DeliverySettings } from '../contracts/index.ts'

/** What is known of one endpoint in this process. */
interface Gate {
  running: number
  /** Failures in a row. */
  failures: number
  /** Until when it is left alone. */
  until: number
  /** When the next delivery that is put off should come again: they come one after the other, not all at once. */
  nextAt: number
  /** When the last one of those that are put off comes again, if there are so many that they would take the time of other endpoints. */
  lastAt: number
  /** How long deliveries take, on average. */
  averageMs: number
  /** When the last delivery ended, or the first one began. */
  movedAt: number
}

/** What gates need. */
interface GatesOptions {
  readonly clock: Clock
  readonly random: Random
  readonly settings: Pick<DeliverySettings, 'perEndpoint' | 'breaker'>
}

/**
 * Lets deliveries to an endpoint pass, or tells how long to put them off: it has enough of them, or it has failed too often in a row. A slow
 * or dead endpoint so takes neither the places nor the time of the others.
 */
export class Gates {
  readonly #options: GatesOptions
  readonly #gates = new Map<string, Gate>()

  constructor(options: GatesOptions) {
    this.#options = options
  }

  /** Undefined: the delivery may begin, and `leave` has to follow. Otherwise: put it off by so many milliseconds. */
  enter(endpoint: string): number | undefined {
    const { perEndpoint, breaker } = this.#options.settings
    const gate = this.#gateOf(endpoint)
    const now = this.#options.clock.monotonic()
    // The more often it has failed in a row, the less is tried at once. After a pause one delivery finds out whether it is back.
    const most = gate.failures >= breaker.failures ? 1 : Math.max(1, perEndpoint - gate.failures)
    if (now >= gate.until && gate.running < most) {
      if (gate.running === 0) gate.movedAt = now
      gate.running += 1
      return undefined
    }
    return this.#putOff(gate, now)
  }

  /** The delivery has ended, whatever became of it. */
  leave(endpoint: string): void {
    const gate = this.#gateOf(endpoint)
    gate.running -= 1
    const waits = gate.lastAt > this.#options.clock.monotonic()
    if (gate.running === 0 && gate.failures === 0 && !waits) this.#gates.delete(endpoint)
  }

  succeeded(endpoint: string, ms: number): void {
    const gate = this.#gateOf(endpoint)
    this.#took(gate, ms)
    gate.failures = 0
    gate.until = 0
  }

  /** `retryAfterMs`: the receiver asked for so much time. Returns whether the endpoint is left alone from now on. */
  failed(endpoint: string, ms: number, retryAfterMs: number | undefined): boolean {
    const { breaker } = this.#options.settings
    const gate = this.#gateOf(endpoint)
    this.#took(gate, ms)
    gate.failures += 1
    const asked = Math.min(retryAfterMs ?? 0, MAX_ASKED_MS)
    const pauseMs = Math.max(asked, gate.failures >= breaker.failures ? breaker.pauseMs : 0)
    gate.until = Math.max(gate.until, this.#options.clock.monotonic() + pauseMs)
    return gate.failures === breaker.failures
  }

  #putOff(gate: Gate, now: number): number {
    const { random, settings } = this.#options
    const from = Math.max(now + MIN_MS, gate.until)
    const soon = Math.min(Math.max(from, gate.nextAt), from + MAX_QUEUE_MS * (0.5 + random.number() / 2))
    // An endpoint that does not answer says nothing of how long its deliveries take; the wait does.
    const takesMs = gate.running === 0 ? gate.averageMs : Math.max(gate.averageMs, now - gate.movedAt)
    const stepMs = Math.max(1, takesMs / settings.perEndpoint)
    gate.nextAt = soon + stepMs
    const last = Math.max(from, gate.lastAt)
    gate.lastAt = last + Math.min(stepMs, RETURN_MS * this.#crowded(now))
    return Math.ceil(Math.max(soon, last) - now)
  }

  /** How many endpoints have so much waiting that it comes back as often as it may. */
  #crowded(now: number): number {
    let crowded = 0
    for (const { lastAt } of this.#gates.values()) if (lastAt > now + MAX_QUEUE_MS) crowded += 1
    return Math.max(1, crowded)
  }

  #took(gate: Gate, ms: number): void {
    gate.averageMs += (ms - gate.averageMs) / 8
    gate.movedAt = this.#options.clock.monotonic()
  }

  #gateOf(endpoint: string): Gate {
    const known = this.#gates.get(endpoint)
    if (known !== undefined) return known
    const gate = { running: 0, failures: 0, until: 0, nextAt: 0, lastAt: 0, averageMs: USUAL_MS, movedAt: 0 }
    this.#gates.set(endpoint, gate)
    return gate
  }
}

/** The shortest time that a delivery is put off: coming back costs more than a look. */
const MIN_MS = 100
/** How long those who are put off may wait for their turn, beyond the pause: the endpoint may have become faster. */
const MAX_QUEUE_MS = 20_000
/** All that wait for endpoints that are slow or dead come back at most once in this time: each return costs two statements. */
const RETURN_MS = 20
/** What a receiver may ask for. The message that it answered waits for as long as it says; the others, no longer than this. */
const MAX_ASKED_MS = 600_000
/** How long deliveries take, until it is known. */
const USUAL_MS = 100
