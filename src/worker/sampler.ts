import type { Clock, EventHub, Horizon, Random, State } from '../base/index.ts'
import { asError, HapaxError, Signal, within } from '../base/index.ts'
import type { Engine } from '../transaction/index.ts'
import { type Fed, horizonsOf, type Kept } from './horizons.ts'
import type { Membership } from './membership.ts'
import { stateOf } from './state.ts'

/** What the sampler needs of its worker. */
export interface SamplerOptions {
  readonly engine: { readonly clock: Clock; readonly random: Random; readonly events: EventHub }
  /** Reads what waits, by one bounded statement. */
  look(limitMs: number): Promise<State>
  /** Whether this worker samples for all; undefined: it cannot tell at the moment. */
  isSampler(): boolean | undefined
  /** The consumers of this worker. */
  horizons(): readonly Horizon[]
  /** Looks for what waits and is not served. Undefined: another worker does, or the store cannot tell. */
  watch(): ((state: State) => void) | undefined
  report(error: Error): void
  /** When to look for the first time. @default 1_000, soon, but not in the busy moment of the start */
  readonly firstMs?: number
  /** @default 15_000 */
  readonly everyMs?: number
}

/**
 * Reads what waits in the database, for metrics and status pages, and tells which horizons the consumers have. One worker does it for
 * all, because it is the same for all. If nobody listens, it looks once a minute for what waits and is not served.
 */
export class Sampler {
  readonly #options: SamplerOptions
  readonly #worker: string
  readonly #signal = new Signal()
  #stopping = false
  #loop: Promise<void> = Promise.resolve()
  /** The look under way, which may have been given up: the next one waits for it. */
  #looking = false
  #lookedAt = 0
  /** Listeners were shown a sample of this worker. */
  #shown = false
  #failing = false

  constructor(options: SamplerOptions) {
    this.#options = options
    this.#worker = options.engine.random.token()
  }

  start(): void {
    this.#lookedAt = this.#options.engine.clock.monotonic()
    this.#loop = this.#work()
  }

  /** Resolves when the look under way has ended. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#signal.notify()
    await this.#loop
    this.#withdraw()
    this.#options.engine.events.emit('horizons', () => ({ worker: this.#worker, horizons: [] }))
  }

  async #work(): Promise<void> {
    const { firstMs = 1_000, everyMs = 15_000 } = this.#options
    const { clock, random, events } = this.#options.engine
    await this.#signal.wait(clock, firstMs * (0.5 + random.number() / 2))
    while (!this.#stopping) {
      events.emit('horizons', () => ({ worker: this.#worker, horizons: this.#options.horizons() }))
      await this.#sample()
      // Jittered, so that the statements of many databases on one server do not come together.
      if (!this.#stopping) await this.#signal.wait(clock, everyMs * (0.9 + random.number() / 5))
    }
  }

  async #sample(): Promise<void> {
    const { engine, isSampler, watch } = this.#options
    const heard = engine.events.heard('sampled')
    const mine = heard ? isSampler() : false
    if (mine === false) this.#withdraw()
    const watched = watch()
    const due = watched !== undefined && engine.clock.monotonic() - this.#lookedAt >= WATCH_MS
    if (this.#looking || !(mine || due)) return
    try {
      const state = await this.#look()
      this.#failing = false
      watched?.(state)
      if (mine) this.#show(state)
    } catch (error) {
      // What was shown stays, and its age tells that it is old.
      if (!this.#failing) this.#options.report(asError(error))
      this.#failing = true
    }
  }

  /** One look at a time, also after one was given up. */
  async #look(): Promise<State> {
    const { engine, look } = this.#options
    this.#looking = true
    this.#lookedAt = engine.clock.monotonic()
    const looking = look(LIMIT_MS).finally(() => {
      this.#looking = false
    })
    const late = (): never => {
      looking.catch(() => {})
      const what = `the state of the store was not read within ${LIMIT_MS} ms`
      throw new HapaxError('store-unavailable', what, { fields: { limitMs: LIMIT_MS } })
    }
    return within(engine.clock, LIMIT_MS, looking, late, 'awake')
  }

  #show(state: State): void {
    this.#shown = true
    this.#options.engine.events.emit('sampled', () => ({ worker: this.#worker, state }))
  }

  /** Another worker samples from now on. */
  #withdraw(): void {
    if (!this.#shown) return
    this.#shown = false
    this.#options.engine.events.emit('sampled', () => ({ worker: this.#worker, state: undefined }))
  }
}

/** How often to look if only what is not served is of interest. */
const WATCH_MS = 60_000
/** A sample must never be what makes a slow database slower. */
const LIMIT_MS = 2_000

/** The sampler of a worker on a store with transactions. */
export function storeSampler<Tx>({
  engine,
  membership,
  consumers,
  readers,
  saw,
  report,
}: {
  readonly engine: Engine<Tx>
  readonly membership: Pick<Membership, 'owns' | 'alive'>
  readonly consumers: readonly Kept[]
  readonly readers: readonly Fed[]
  /** Is told what waits, by one worker, once a minute. */
  saw(state: State): void
  report(error: Error): void
}): Sampler {
  const { store, unserved } = engine
  return new Sampler({
    engine,
    look: async (limitMs) => stateOf(await store.admin.status({ limitMs })),
    isSampler: () => (membership.alive ? membership.owns('state', ({ samples }) => samples) : undefined),
    horizons: () => horizonsOf(consumers, readers),
    watch: () =>
      membership.alive && membership.owns('unserved', () => true)
        ? (state) => {
            unserved.watch(state)
            saw(state)
          }
        : undefined,
    report,
  })
}
