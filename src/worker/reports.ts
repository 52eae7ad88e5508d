import { type EventHub, errorFields, faultFields, isHapaxError, type Logger, type Outages } from '../base/index.ts'

/** What a worker reports with. */
interface ReportsOptions {
  readonly engine: { readonly events: EventHub; readonly logger: Logger; readonly outages: Outages }
  readonly consumers: readonly string[]
  readonly relays: readonly string[]
}

/** Reports the life of a worker, to the log and as events. */
export class Reports {
  readonly #options: ReportsOptions
  #started = false
  /** An error was logged that was no outage: those are logged by themselves. */
  #logged = false

  constructor(options: ReportsOptions) {
    this.#options = options
  }

  started(): void {
    const { engine } = this.#options
    this.#started = true
    engine.logger.info(this.#served, 'the worker has started')
    engine.events.emit('worker-started', () => this.#served)
  }

  /** Says nothing of a worker that has never started. */
  stopped(): void {
    if (!this.#started) return
    const { engine } = this.#options
    this.#started = false
    engine.logger.info(this.#served, 'the worker has stopped')
    engine.events.emit('worker-stopped', () => this.#served)
  }

  /** A part of the worker failed. An outage is logged once, for all that it stops. */
  error(error: Error): void {
    const { engine, consumers } = this.#options
    const outage = engine.outages.failed(error)
    this.#logged ||= !outage
    const fields = isHapaxError(error) ? errorFields(error) : faultFields(error)
    engine.logger[outage ? 'debug' : 'error']({ ...this.#served, ...fields }, 'the worker continues after an error')
    engine.events.emit('worker-error', () => ({ consumers, error }))
  }

  /** A warning if the log has an error that it answers: the default logger writes nothing below. */
  recovered(): void {
    const { engine, consumers } = this.#options
    engine.logger[this.#logged ? 'warn' : 'info'](this.#served, 'the worker has recovered')
    this.#logged = false
    engine.events.emit('worker-recovered', () => ({ consumers }))
  }

  get #served(): Pick<ReportsOptions, 'consumers' | 'relays'> {
    const { consumers, relays } = this.#options
    return { consumers, relays }
  }
}
