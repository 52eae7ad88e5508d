import type { ConsumerSettings } from './consumer-options.ts'
import { Attempt, type Engine, type Running, type UnitSettings } from './engine.ts'
import { asError } from './errors.ts'
import { type Job, smaller } from './handlers.ts'
import type { StoredMessage } from './message.ts'
import { type Outcome, outcome } from './outcome.ts'
import { type Recorder, ref } from './record.ts'
import type { Receipt, UnitEnd } from './store.ts'
import { isFinal } from './verdict.ts'

/** What was found about a message inside the transaction. */
type Found =
  | { readonly kind: 'fresh' }
  | { readonly kind: 'processed' }
  | { readonly kind: 'duplicate' | 'mismatch' | 'conflict'; readonly receipt: Receipt }

/** Takes deliveries: receipt first, then the handlers, one commit. */
export class Taker<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumer: string
  readonly #settings: ConsumerSettings
  readonly #recorder: Recorder<Tx>

  constructor(engine: Engine<Tx>, consumer: string, settings: ConsumerSettings, recorder: Recorder<Tx>) {
    this.#engine = engine
    this.#consumer = consumer
    this.#settings = settings
    this.#recorder = recorder
  }

  /** Processes messages of distinct keys in one transaction; when one of them fails, in smaller ones. */
  async take(jobs: readonly Job<Tx>[], settings: UnitSettings = this.#settings): Promise<readonly Outcome[]> {
    const started = this.#engine.clock.monotonic()
    const messages = jobs.map((job) => job.stored)
    const consumer = this.#consumer
    const attempt = new Attempt<Tx, readonly Found[]>(this.#engine, settings, {
      opening: (token) => ({ kind: 'take', consumer, token, messages }),
      body: (running) => this.#body(jobs, running),
      onUnknown: () => this.#engine.events.emit('commit-unknown', () => ({ consumer, messages: messages.map(ref) })),
    })
    const attempted = await attempt.run()
    if (attempted.kind === 'done') return this.#finish(jobs, attempted.value, started)
    if (jobs.length > 1 && attempted.kind !== 'lost') return this.#smaller(jobs, attempted.kind)
    if (attempted.kind === 'failed') return [await this.#failed(jobs[0] as Job<Tx>, attempted.error, attempted.tokens)]
    return jobs.map((job) => this.#recorder.putBack(job.stored, attempted.kind, attempted.error))
  }

  async #body(jobs: readonly Job<Tx>[], { unit, earlier, call }: Running<Tx>): Promise<UnitEnd<readonly Found[]>> {
    if (unit.existing.size === 0) return { value: ALL_FRESH, writes: await call(jobs) }
    const found = jobs.map(({ stored }) => this.#found(stored, unit.existing.get(stored.messageKey), earlier))
    const fresh = jobs.filter((_, index) => found[index]?.kind === 'fresh')
    if (fresh.length === 0) return { value: found, writes: undefined }
    return { value: found, writes: await call(fresh) }
  }

  #found(stored: StoredMessage, receipt: Receipt | undefined, earlier: ReadonlySet<string>): Found {
    if (receipt === undefined) return FRESH
    if (earlier.has(receipt.token)) return { kind: 'processed' }
    if (receipt.source !== stored.source || receipt.id !== stored.id) return { kind: 'conflict', receipt }
    if (receipt.fingerprint === stored.fingerprint) return { kind: 'duplicate', receipt }
    return { kind: this.#settings.onMismatch === 'conflict' ? 'conflict' : 'mismatch', receipt }
  }

  async #finish(jobs: readonly Job<Tx>[], found: readonly Found[], started: number): Promise<readonly Outcome[]> {
    const durationMs = this.#engine.clock.monotonic() - started
    if (found === ALL_FRESH && !this.#engine.events.heard('processed')) return jobs.map(() => PROCESSED)
    const outcomes: Outcome[] = []
    for (const [index, job] of jobs.entries()) {
      outcomes.push(await this.#outcomeOf(job, found[index] ?? FRESH, durationMs))
    }
    return outcomes
  }

  #outcomeOf(job: Job<Tx>, found: Found, durationMs: number): Outcome | Promise<Outcome> {
    const { stored, attempt } = job
    const { events } = this.#engine
    const consumer = this.#consumer
    if (found.kind === 'fresh' || found.kind === 'processed') {
      events.emit('processed', () => ({ consumer, message: ref(stored), attempt, durationMs }))
      return PROCESSED
    }
    if (found.kind === 'conflict') return this.#recorder.conflict(stored, found.receipt)
    return this.#recorder.duplicate(stored, found.receipt, found.kind === 'mismatch')
  }

  async #smaller(jobs: readonly Job<Tx>[], why: 'busy' | 'failed'): Promise<readonly Outcome[]> {
    // They have waited already; with one writer everybody waits for everybody, and it means nothing.
    const patient = why === 'failed' || !this.#engine.store.features.parallelWriters
    const settings = patient ? this.#settings : { ...this.#settings, lockTimeoutMs: 1 }
    const outcomes: Outcome[] = []
    for (const part of smaller(jobs)) outcomes.push(...(await this.take(part, settings)))
    return outcomes
  }

  #failed(job: Job<Tx>, thrown: unknown, tokens: ReadonlySet<string>): Promise<Outcome> | Outcome {
    const error = asError(thrown)
    if (this.#settings.onError === 'store' || isFinal(error)) {
      return this.#recorder.firstDelivery(job.stored, error, job.attempt, tokens)
    }
    this.#engine.events.emit('rolled-back', () => ({ consumer: this.#consumer, message: ref(job.stored), error }))
    return outcome('rolled-back', error)
  }
}

const PROCESSED = outcome('processed')
const FRESH: Found = { kind: 'fresh' }
const ALL_FRESH: readonly Found[] = []
