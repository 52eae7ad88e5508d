import type { ConsumerSettings } from './consumer-options.ts'
import { Attempt, type Engine, type Running } from './engine.ts'
import { asError, isHapaxError } from './errors.ts'
import { type Job, smaller } from './handlers.ts'
import { type Outcome, outcome } from './outcome.ts'
import { type Recorder, ref } from './record.ts'
import type { InboxRow, UnitEnd } from './store.ts'

/** After this many starts without an end, a message is held to be what ends the process. */
export const MAX_STARTS = 5

/** A row of the inbox with its decoded message. */
export interface InboxJob<Tx> extends Job<Tx> {
  readonly row: InboxRow
}

/** Works messages that wait in the inbox: the row that could be locked is the right to run. */
export class InboxWork<Tx> {
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

  /** Runs handlers for rows in one transaction; when one of them fails, in smaller ones. */
  async work(jobs: readonly InboxJob<Tx>[], signal?: AbortSignal): Promise<readonly Outcome[]> {
    const started = this.#engine.clock.monotonic()
    const seqs = jobs.map(({ row }) => row.seq)
    const ours = new Set<string>()
    const attempt = new Attempt<Tx, undefined>(this.#engine, this.#settings, {
      opening: (_token, resolving) => {
        if (!resolving) ours.clear()
        // After an unknown commit the old transaction may still hold the row: wait for it, then its row tells.
        return { kind: 'claim', seqs, locked: resolving ? 'wait' : 'skip' }
      },
      body: (running) => this.#body(jobs, running, ours),
      onUnknown: () => this.#unknown(jobs),
      signal,
    })
    const attempted = await attempt.run()
    if (attempted.kind === 'done') return this.#finish(jobs, ours, started)
    const broken = attempted.kind === 'failed' && isHapaxError(attempted.error, 'broken-atomicity')
    if (jobs.length > 1 && attempted.kind !== 'lost' && !broken) return this.#smaller(jobs, signal)
    const { kind, error } = attempted
    const outcomes: Outcome[] = []
    for (const { row } of jobs) {
      if (broken && !ours.has(row.seq)) outcomes.push(this.#recorder.duplicate(row.message))
      else if (kind === 'busy') outcomes.push(this.#recorder.putBack(row.message, 'busy', error))
      else if (kind === 'lost') outcomes.push(await this.#recorder.lost(row, error))
      else outcomes.push(await this.#recorder.fromInbox(row, asError(error)))
    }
    return outcomes
  }

  async #body(
    jobs: readonly InboxJob<Tx>[],
    { unit, call }: Running<Tx>,
    ours: Set<string>,
  ): Promise<UnitEnd<undefined>> {
    const claimed = jobs.filter(({ row }) => unit.claimed.has(row.seq))
    if (claimed.length === 0) return { value: undefined, writes: undefined }
    for (const { row } of claimed) ours.add(row.seq)
    return { value: undefined, writes: await call(claimed) }
  }

  /** A row that was never ours is somebody else's; one that was and is gone was settled by our commit of unknown outcome. */
  #finish(jobs: readonly InboxJob<Tx>[], ours: ReadonlySet<string>, started: number): readonly Outcome[] {
    const { events, clock } = this.#engine
    const durationMs = clock.monotonic() - started
    return jobs.map(({ row, stored, attempt }) => {
      if (!ours.has(row.seq)) return this.#recorder.duplicate(stored)
      events.emit('processed', () => ({ consumer: this.#consumer, message: ref(stored), attempt, durationMs }))
      return PROCESSED
    })
  }

  #unknown(jobs: readonly InboxJob<Tx>[]): void {
    const messages = jobs.map((job) => ref(job.stored))
    this.#engine.events.emit('commit-unknown', () => ({ consumer: this.#consumer, messages }))
  }

  async #smaller(jobs: readonly InboxJob<Tx>[], signal: AbortSignal | undefined): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = []
    for (const part of smaller(jobs)) outcomes.push(...(await this.work(part, signal)))
    return outcomes
  }
}

const PROCESSED = outcome('processed')
