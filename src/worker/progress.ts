import type { Detached, EventHub, Logger, Random } from '../base/index.ts'
import { type Clock, errorFields, type HapaxError, isHapaxError, pause } from '../base/index.ts'

/** Learns from each delivery whether the store let its transaction through. */
export interface Throughput {
  /** A transaction came through, whatever its outcome. */
  made(): void
  /** A transaction could not begin or end. */
  failed(error: Error): void
}

/** What watching the progress of a worker needs. */
export interface ProgressOptions {
  readonly engine: {
    readonly clock: Clock
    readonly detached: Detached
    readonly random: Random
    readonly events: EventHub
    readonly logger: Logger
  }
  readonly signal: AbortSignal
  consumers(): readonly string[]
  /** Whether a heartbeat came through after this time. If not, the database is away, or other workers have taken over anyway. */
  heardSince(time: number): boolean
  /** Runs an empty transaction; rejects if it does not come through. */
  probe(): Promise<unknown>
  /** The worker is stuck, or no longer is. */
  changed(stuck: boolean): void
}

/**
 * Detects a worker whose handlers cannot run. Heartbeats have connections of their own and continue while handlers get none; without
 * this, such a worker would keep its lanes and its messages would wait for ever.
 */
export class Progress implements Throughput {
  readonly #options: ProgressOptions
  #failingSince: number | undefined
  #stuck = false

  constructor(options: ProgressOptions) {
    this.#options = options
  }

  get stuck(): boolean {
    return this.#stuck
  }

  made(): void {
    this.#failingSince = undefined
    if (!this.#stuck) return
    const { engine, changed, consumers } = this.#options
    this.#stuck = false
    engine.logger.warn({ consumers: consumers() }, 'handlers can run again; the worker takes messages again')
    engine.events.emit('worker-recovered', () => ({ consumers: consumers() }))
    changed(false)
  }

  failed(error: Error): void {
    if (!isHapaxError(error, 'store-unavailable')) return
    const { engine, heardSince } = this.#options
    const now = engine.clock.monotonic()
    this.#failingSince ??= now
    // An exhausted pool is certain at once. Any other error may be short, or affect all workers alike.
    const exhausted = error.fields['waitedMs'] !== undefined
    const long = now - this.#failingSince >= STUCK_MS && heardSince(this.#failingSince)
    if (!this.#stuck && (exhausted || long)) this.#getsStuck(error)
  }

  #getsStuck(error: HapaxError): void {
    const { engine, changed, consumers } = this.#options
    this.#stuck = true
    const what =
      'handlers get no connection although heartbeats do; the worker leaves its messages to others until they can run'
    engine.logger.error({ consumers: consumers(), ...errorFields(error) }, what)
    engine.events.emit('worker-stuck', () => ({ consumers: consumers(), error }))
    changed(true)
    void engine.detached(() => this.#probe())
  }

  /** Tries an empty transaction from time to time, until one shows that handlers can run again. */
  async #probe(): Promise<void> {
    const { engine, signal, probe } = this.#options
    for (let times = 1; this.#stuck && !signal.aborted; times++) {
      const through = await probe().then(
        () => true,
        () => false,
      )
      if (through) return this.made()
      await pause(engine.clock, Math.min(MAX_PAUSE_MS, 100 * 2 ** times) * (0.5 + engine.random.number() / 2), signal)
    }
  }
}

/** How long no transaction may come through before the worker leaves its messages to others. */
const STUCK_MS = 10_000
const MAX_PAUSE_MS = 10_000
