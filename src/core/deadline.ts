import type { Clock } from './clock.ts'
import { HapaxError } from './errors.ts'

/** How long each phase of a transaction may take. */
export interface Phases {
  readonly openingMs: number
  readonly handlerMs: number
  readonly commitMs: number
}

/** The time limits of one transaction: an abort ends it by force, whatever it waits for. */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #clock: Clock
  readonly #phases: Phases
  #cancel: (() => void) | undefined

  constructor(clock: Clock, phases: Phases) {
    this.#clock = clock
    this.#phases = phases
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  opening(): void {
    const { openingMs } = this.#phases
    this.#arm(openingMs, () => late('store-unavailable', 'the database did not answer', openingMs))
  }

  handler(): void {
    const { handlerMs } = this.#phases
    this.#arm(handlerMs, () => late('handler-timeout', 'the handler did not finish', handlerMs))
  }

  commit(): void {
    const { commitMs } = this.#phases
    this.#arm(commitMs, () => late('commit-unknown', 'the database did not answer COMMIT', commitMs))
  }

  done(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #arm(ms: number, reason: () => HapaxError): void {
    this.#cancel?.()
    this.#cancel = this.#clock.after(ms, () => this.#controller.abort(reason()))
  }
}

function late(code: 'store-unavailable' | 'handler-timeout' | 'commit-unknown', what: string, ms: number): HapaxError {
  return new HapaxError(code, `${what} within ${ms} ms`)
}
