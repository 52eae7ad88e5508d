import type { EventHub, Logger, Random } from '../base/index.ts'
import { type Clock, errorFields, type HapaxError, isHapaxError, pause } from '../base/index.ts'

/** Told by whatever hands messages to handlers: whether the store lets their transactions through. */
export interface Throughput {
  /** Something came through, whatever became of it. */
  made(): void
  /** Something did not. */
  failed(error: Error): void
}

/** What the watch over the progress of a worker needs of it. */
export interface ProgressOptions {
  readonly engine: {
    readonly clock: Clock
    readonly random: Random
    readonly events: EventHub
    readonly logger: Logger
  }
  readonly signal: AbortSignal
  consumers(): readonly string[]
  /** Whether a heartbeat came through after this time: if not, it is the database that is away, or the others have taken over. */
  heardSince(time: number): boolean
  /** Resolves when a transaction came through. */
  probe(): Promise<unknown>
  /** It is stuck, or not any more. */
  changed(stuck: boolean): void
}

/**
 * Whether the handlers of a worker can run. Heartbeats have connections of their own, and may go on while no handler gets one: such a
 * worker would keep messages that others could work on.
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
    engine.logger.warn({ consumers: consumers() }, 'handlers can run again: the worker takes part again')
    engine.events.emit('worker-recovered', () => ({ consumers: consumers() }))
    changed(false)
  }

  failed(error: Error): void {
    if (!isHapaxError(error, 'store-unavailable')) return
    const { engine, heardSince } = this.#options
    const now = engine.clock.monotonic()
    this.#failingSince ??= now
    // Of a pool that hands out nothing it is known at once; anything else may be a moment's trouble, or everybody's.
    const exhausted = error.fields['waitedMs'] !== undefined
    const long = now - this.#failingSince >= STUCK_MS && heardSince(this.#failingSince)
    if (!this.#stuck && (exhausted || long)) this.#getsStuck(error)
  }

  #getsStuck(error: HapaxError): void {
    const { engine, changed, consumers } = this.#options
    this.#stuck = true
    const what = 'no handler can run, although heartbeats go on: the worker leaves its messages to others until one can'
    engine.logger.error({ consumers: consumers(), ...errorFields(error) }, what)
    engine.events.emit('worker-stuck', () => ({ consumers: consumers(), error }))
    changed(true)
    void this.#probe()
  }

  /** One transaction at a time tells when handlers can run again. */
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

/** For how long nothing has to come through before a worker leaves its messages to others. */
const STUCK_MS = 10_000
const MAX_PAUSE_MS = 10_000
