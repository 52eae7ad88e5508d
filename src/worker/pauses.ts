import { asError, type Clock, type EventHub, type Logger, type Random, Signal } from '../base/index.ts'
import type { Origin, Pause, StorePauses } from '../contracts/index.ts'

/** What watching pauses needs of its worker. */
export interface PausesOptions {
  readonly store: Pick<StorePauses, 'list'>
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly events: EventHub
  /** Whether the worker serves it. */
  serves(origin: Origin, scope: string): boolean
  /** Something that the worker serves was paused or resumed. */
  changed(): void
  report(error: Error): void
}

/**
 * What people have paused, of what this worker serves. It is read often, so that a pause is obeyed within a second. While it cannot be
 * read, what was known last stays.
 */
export class Pauses {
  readonly #options: PausesOptions
  readonly #signal = new Signal()
  #paused: ReadonlyMap<string, Pause> = new Map()
  #stopping = false
  #failing = false
  #loop: Promise<void> = Promise.resolve()

  constructor(options: PausesOptions) {
    this.#options = options
  }

  has(origin: Origin, scope: string): boolean {
    return this.#paused.size > 0 && this.#paused.has(nameOf(origin, scope))
  }

  start(): void {
    this.#loop = this.#work()
  }

  async stop(): Promise<void> {
    this.#stopping = true
    this.#signal.notify()
    await this.#loop
  }

  /** Reads what is paused now. */
  async look(): Promise<void> {
    const { store, serves, changed, report } = this.#options
    try {
      const found = (await store.list()).filter(({ origin, scope }) => serves(origin, scope))
      this.#failing = false
      if (this.#stopping) return
      const before = this.#paused
      this.#paused = new Map(found.map((pause) => [nameOf(pause.origin, pause.scope), pause]))
      if (this.#tell(before)) changed()
    } catch (error) {
      if (!this.#failing) report(asError(error))
      this.#failing = true
    }
  }

  async #work(): Promise<void> {
    const { clock, random } = this.#options
    while (!this.#stopping) {
      // Jittered, so that the statements of many workers do not come together.
      await this.#signal.wait(clock, EVERY_MS * (0.75 + random.number() / 4))
      if (!this.#stopping) await this.look()
    }
  }

  /** Returns whether anything has changed. */
  #tell(before: ReadonlyMap<string, Pause>): boolean {
    const { logger, events } = this.#options
    let changed = false
    for (const [name, { origin, scope, actor, note }] of this.#paused) {
      if (before.has(name)) continue
      changed = true
      const event = { origin, scope, actor, note }
      logger.warn(event, 'paused by a person; the worker takes nothing more until it is resumed')
      events.emit('paused', () => event)
    }
    for (const [name, { origin, scope }] of before) {
      if (this.#paused.has(name)) continue
      changed = true
      // A warning, because the default logger writes nothing below: the log must not end with the pause.
      logger.warn({ origin, scope }, 'resumed by a person; the worker goes on')
      events.emit('resumed', () => ({ origin, scope }))
    }
    return changed
  }
}

function nameOf(origin: Origin, scope: string): string {
  return `${origin}:${scope}`
}

const EVERY_MS = 500
