import { asError, type Counts, isHapaxError, isRefusal } from '../base/index.ts'
import type { InboxRow, Outcome } from '../contracts/index.ts'
import { Attempt, type Attempted, type Engine, type Opened, type Timing, type Work } from '../transaction/index.ts'
import { isGone } from './direct.ts'
import { isFeared, type Recorder } from './failures.ts'
import { type GroupSize, sharing } from './group-size.ts'
import type { Registry } from './handlers.ts'
import { type Job, prepareJob, smaller } from './handlers.ts'
import type { Keys } from './keys.ts'
import type { ConsumerSettings } from './options.ts'
import { ref } from './reporter.ts'
import { outcome } from './verdict.ts'
import { callWatched, enter, type WatchedAttempt, watched } from './watched.ts'

/** After this many crashes while nothing else ran in the process, a message is presumed to be their cause. */
export const MAX_CRASHES = 3

/** The rows of one call of `work`. */
interface Ours {
  /** Claimed by the last transaction. */
  claimed: ReadonlyMap<string, InboxRow>
  /** Settled by an earlier transaction whose commit was unknown at first, and turned out to have happened. */
  readonly settled: Map<string, InboxRow>
  /** What the last transaction has called. */
  jobs: readonly Job<unknown>[]
}

/** How the transaction of some rows ended, if it did not fail. */
type Ended =
  | { readonly kind: 'processed' }
  /** A row cannot become a job; nothing was kept. */
  | { readonly kind: 'undecodable'; readonly error: unknown }
  /** Rows that have ended their process too often; nothing was kept. */
  | { readonly kind: 'crash-loop'; readonly rows: readonly InboxRow[] }
  /** Rows that have a key and are still unordered; nothing was committed. */
  | { readonly kind: 'loose'; readonly rows: readonly InboxRow[]; readonly keys: ReadonlyMap<string, string> }
  /** Some of the rows have to run by themselves; nothing was kept. */
  | { readonly kind: 'apart'; readonly rows: readonly InboxRow[] }

/** A transaction that has ended. */
interface Run {
  readonly started: number
  readonly attempt: { readonly timing: Timing }
}

/** Asked right before handlers: whether their rows are noted as about to run, and nobody has paused the consumer meanwhile. */
export type Noted = () => boolean | Promise<boolean>

const yes: Noted = () => true

/** Works the stored rows of a consumer, in a transaction or under a lease. No handler is called before its row is noted. */
export interface StoredWork {
  work(seqs: readonly string[], signal?: AbortSignal, noted?: Noted): Promise<ReadonlyMap<string, Outcome>>
}

/** The parts of a consumer that work on stored rows needs. */
export interface StoredWorkParts<Tx> {
  readonly engine: Engine<Tx>
  readonly consumer: string
  readonly settings: ConsumerSettings
  readonly recorder: Recorder<Tx>
  readonly registry: Pick<Registry<Tx>, 'handlerOf'>
  readonly groups: GroupSize
  readonly keys: Keys<Tx>
}

/**
 * Works messages that wait in the inbox. A row is locked in the transaction in which its handler runs, and is deleted by its commit: so
 * a message takes effect once, whatever workers believe about each other.
 */
export class InboxWork<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumer: string
  readonly #settings: ConsumerSettings
  readonly #recorder: Recorder<Tx>
  readonly #registry: Pick<Registry<Tx>, 'handlerOf'>
  readonly #groups: GroupSize
  readonly #keys: Keys<Tx>
  readonly #counts: Counts

  constructor({ engine, consumer, settings, recorder, registry, groups, keys }: StoredWorkParts<Tx>) {
    this.#engine = engine
    this.#consumer = consumer
    this.#settings = settings
    this.#recorder = recorder
    this.#registry = registry
    this.#groups = groups
    this.#keys = keys
    this.#counts = engine.tally.of('inbox', consumer)
  }

  /**
   * Runs the handlers of these rows in one transaction; when one of them fails, in smaller ones. A row without an outcome was
   * settled or locked by another worker, or stands behind another message of its key.
   */
  work(seqs: readonly string[], signal?: AbortSignal, noted: Noted = yes): Promise<ReadonlyMap<string, Outcome>> {
    return this.#work(seqs, signal, 'whole', noted)
  }

  /** `part`: the rows belong to a group that failed, from which the size of groups was learnt already. */
  #work(
    seqs: readonly string[],
    signal: AbortSignal | undefined,
    group: 'whole' | 'part',
    noted: Noted = yes,
  ): Promise<ReadonlyMap<string, Outcome>> {
    const { instrument } = this.#engine
    if (instrument === undefined) return this.#attempt(seqs, signal, group, noted)
    const watching = { instrument, consumer: this.#consumer, stored: true }
    return watched(watching, undefined, (watch) => this.#attempt(seqs, signal, group, noted, watch))
  }

  async #attempt(
    seqs: readonly string[],
    signal: AbortSignal | undefined,
    group: 'whole' | 'part',
    noted: Noted,
    watch?: WatchedAttempt,
  ): Promise<ReadonlyMap<string, Outcome>> {
    const started = this.#engine.clock.monotonic()
    const ours: Ours = { claimed: new Map(), settled: new Map(), jobs: [] }
    const attempt = new Attempt<Tx, Ended>(this.#engine, this.#settings, {
      consumer: this.#consumer,
      messages: () => [...ours.claimed.values()].map(({ message }) => ref(message)),
      // After an unknown commit the old transaction may still hold the row. When it has ended, the row shows how.
      opening: (_token, resolving) => ({
        kind: 'claim',
        seqs,
        locked: resolving ? 'wait' : 'skip',
        aged: this.#engine.events.heard('processed') || this.#counts.wantsLag,
      }),
      body: (opened) => this.#body(opened, ours, noted, watch),
      mostConflicts: this.#groups.mostConflicts(seqs.length),
      signal,
    })
    const attempted = await (group === 'part' ? attempt.run() : this.#watched(attempt, ours))
    if (attempted.kind === 'refused') {
      watch?.splits(attempted.error)
      return this.#oneByOne(seqs, attempted.error, signal)
    }
    const claimed = [...ours.claimed.values()]
    const outcomes =
      attempted.kind === 'done'
        ? await this.#ended(attempted.value, claimed, { started, attempt }, signal, watch)
        : await this.#failed(claimed, attempted, signal, watch)
    if (ours.settled.size === 0) return outcomes
    return new Map([...outcomes, ...this.#processed([...ours.settled.values()], { started, attempt })])
  }

  /** Learns from a group how large groups may be. */
  async #watched(attempt: Attempt<Tx, Ended>, ours: Ours): Promise<Attempted<Ended>> {
    let failed = true
    try {
      const attempted = await attempt.run()
      failed = attempted.kind !== 'done' || attempted.value.kind === 'undecodable'
      if (!failed && ours.jobs.length > 0) this.#groups.committed(ours.jobs, attempt)
      return attempted
    } finally {
      if (failed) this.#groups.failed()
    }
  }

  /** One row cannot be read, for example because it exceeds the largest packet of the server. It must not stop the others. */
  async #oneByOne(
    seqs: readonly string[],
    error: Error,
    signal: AbortSignal | undefined,
  ): Promise<ReadonlyMap<string, Outcome>> {
    if (seqs.length === 1) throw error
    const outcomes = new Map<string, Outcome>()
    let unread: unknown
    for (const each of seqs) {
      try {
        for (const [seq, result] of await this.#work([each], signal, 'part')) outcomes.set(seq, result)
      } catch (thrown) {
        if (!isRefusal(thrown)) throw thrown
        unread = thrown
      }
    }
    if (outcomes.size === 0) throw unread
    return outcomes
  }

  /** Runs the handlers of the claimed rows. Rows that cannot run end the transaction without writes, and are recorded after it. */
  async #body(
    { unit, resolving }: Opened<Tx>,
    ours: Ours,
    noted: Noted,
    watch: WatchedAttempt | undefined,
  ): Promise<Work<Tx, Ended>> {
    // Gone: our unknown commit did settle it. Still there but not claimed: it did not, and another worker has the row now.
    for (const [seq, row] of ours.claimed) if (resolving && !unit.present.has(seq)) ours.settled.set(seq, row)
    const committed = ours.settled.size > 0
    ours.claimed = unit.claimed
    if (unit.claimed.size === 0) return { value: { kind: 'processed' }, committed }
    ours.jobs = []
    // Claimed while they are being noted: if a handler ends the process, others must know the suspects.
    const may = noted()
    if (may !== true && !(await may)) {
      ours.claimed = new Map()
      return { value: { kind: 'processed' }, committed }
    }
    const rows = [...unit.claimed.values()]
    watch?.claimed(rows)
    const looping = rows.filter((row) => row.crashes >= MAX_CRASHES)
    if (looping.length > 0) return { value: { kind: 'crash-loop', rows: looping } }
    const jobs: Job<Tx>[] = []
    let keys: Map<string, string> | undefined
    try {
      for (const row of rows) {
        const key = this.#keys.missingIn(row)
        if (key !== undefined) keys = (keys ?? new Map()).set(row.seq, key)
        const preparing = this.#job(row)
        jobs.push(preparing instanceof Promise ? await preparing : preparing)
      }
    } catch (error) {
      return { value: { kind: 'undecodable', error } }
    }
    if (keys !== undefined) return { value: { kind: 'loose', rows, keys } }
    if (jobs.length > 1 && !rows.every((row) => this.#mayShare(row))) return { value: { kind: 'apart', rows } }
    ours.jobs = jobs
    return { value: { kind: 'processed' }, call: (scope) => callWatched(jobs, scope, watch) }
  }

  /** A message that has failed before may fail again, and would make the others run once more. */
  #mayShare({ message, attempts }: InboxRow): boolean {
    if (!this.#groups.automatic) return true
    return attempts === 0 && this.#groups.mayShare(this.#registry.handlerOf(message.type))
  }

  #job(row: InboxRow): Job<Tx> | Promise<Job<Tx>> {
    return prepareJob(this.#registry.handlerOf(row.message.type), row.message, row.attempts + 1)
  }

  /** What follows from a transaction that ended without an error. */
  async #ended(
    ended: Ended,
    rows: readonly InboxRow[],
    run: Run,
    signal: AbortSignal | undefined,
    watch: WatchedAttempt | undefined,
  ): Promise<ReadonlyMap<string, Outcome>> {
    if (ended.kind === 'processed') return enter(watch, () => this.#processed(rows, run))
    if (ended.kind === 'undecodable') return this.#failed(rows, { kind: 'failed', error: ended.error }, signal, watch)
    if (ended.kind === 'loose') return this.#addKeys(ended, signal)
    const outcomes = new Map<string, Outcome>()
    if (ended.kind === 'apart') {
      watch?.splits(undefined)
      for (const part of sharing(ended.rows, (row) => this.#mayShare(row))) {
        const seqs = part.map(({ seq }) => seq)
        for (const [seq, result] of await this.work(seqs, signal)) outcomes.set(seq, result)
      }
      return outcomes
    }
    for (const row of ended.rows) {
      outcomes.set(row.seq, await enter(watch, () => this.#recorder.crashed(row, signal)))
    }
    return outcomes
  }

  /** Makes these rows ordered; only a new look tells which are first of their keys. The other rows run. */
  async #addKeys(
    { rows, keys }: Ended & { kind: 'loose' },
    signal: AbortSignal | undefined,
  ): Promise<ReadonlyMap<string, Outcome>> {
    for (const [seq, key] of keys) await this.#keys.add(seq, key)
    const others = rows.filter(({ seq }) => !keys.has(seq)).map(({ seq }) => seq)
    const outcomes = others.length === 0 ? [] : await this.work(others, signal)
    return new Map([...[...keys.keys()].map((seq) => [seq, STORED] as const), ...outcomes])
  }

  #processed(rows: readonly InboxRow[], run: Run): ReadonlyMap<string, Outcome> {
    this.#count(rows, run)
    if (this.#engine.events.heard('processed')) this.#report(rows, run)
    return new Map(rows.map((row) => [row.seq, PROCESSED]))
  }

  #count(rows: readonly InboxRow[], { attempt }: Run): void {
    const [first] = rows
    this.#counts.done += rows.length
    if (first === undefined || !this.#counts.wantsLag) return
    const { message, ageMs = null } = first
    this.#counts.lag(this.#engine.databaseClock.lagMs(message, { ageMs, readAt: attempt.timing.openedAt }))
  }

  #report(rows: readonly InboxRow[], { started, attempt: { timing } }: Run): void {
    const { events, clock, databaseClock } = this.#engine
    const { waitMs, checkMs, openedAt: readAt } = timing
    const times = { durationMs: clock.monotonic() - started - waitMs, waitMs, checkMs }
    const consumer = this.#consumer
    for (const { message, attempts, ageMs = null } of rows) {
      const lagMs = databaseClock.lagMs(message, { ageMs, readAt })
      events.emit('processed', () => ({ consumer, message: ref(message), attempt: attempts + 1, ...times, lagMs }))
    }
  }

  /** What follows from one that failed. After a broken atomicity the rows are not tried again: the handler's work may be committed. */
  async #failed(
    rows: readonly InboxRow[],
    { kind, error }: { kind: 'failed' | 'busy' | 'lost'; error: unknown },
    signal: AbortSignal | undefined,
    watch: WatchedAttempt | undefined,
  ): Promise<ReadonlyMap<string, Outcome>> {
    const broken = kind === 'failed' && isHapaxError(error, 'broken-atomicity')
    if (rows.length > 1 && !isGone({ kind, error }) && !broken) {
      watch?.splits(error)
      return this.#smaller(rows, asError(error), signal)
    }
    const outcomes = new Map<string, Outcome>()
    for (const row of rows) {
      const record = () => this.#record(row, { kind, error: asError(error) }, signal)
      outcomes.set(row.seq, await enter(watch, record))
    }
    return outcomes
  }

  #record(
    row: InboxRow,
    { kind, error }: { kind: 'failed' | 'busy' | 'lost'; error: Error },
    signal: AbortSignal | undefined,
  ): Outcome | Promise<Outcome> {
    if (kind === 'busy') return this.#recorder.putBack(row.message, 'busy', error)
    return kind === 'lost' ? this.#recorder.lost(row, error, signal) : this.#recorder.fromInbox(row, error, signal)
  }

  /** Works the parts of a group that failed, so that one bad message does not fail the others. */
  async #smaller(
    rows: readonly InboxRow[],
    error: Error,
    signal: AbortSignal | undefined,
  ): Promise<ReadonlyMap<string, Outcome>> {
    const outcomes = new Map<string, Outcome>()
    const jobs = rows.map((row) => ({ row, handler: this.#registry.handlerOf(row.message.type) }))
    for (const part of smaller(jobs)) {
      const seqs = part.map(({ row }) => row.seq)
      for (const [seq, result] of await this.#work(seqs, signal, 'part')) outcomes.set(seq, result)
    }
    // One of the handlers may have committed the whole group. Its rows would then be gone without a trace of the failure.
    for (const row of isFeared(error) ? rows.filter(({ seq }) => !outcomes.has(seq)) : []) {
      const result = await this.#recorder.ifGone(row, error)
      if (result !== undefined) outcomes.set(row.seq, result)
    }
    return outcomes
  }
}

const PROCESSED = outcome('processed')
const STORED = outcome('stored')
