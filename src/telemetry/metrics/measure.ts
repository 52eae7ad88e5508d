import { type Clock, type Events, type HapaxEvents, systemClock, version } from '../../base/index.ts'
import type { OutcomeStatus } from '../../contracts/index.ts'
import { type Cell, MOST_NAMES, Named, Series, type Sink } from './sink.ts'
import { StateGauges } from './state.ts'
import { METRICS } from './table.ts'

/** Options of `measure`. */
export interface MeasureOptions {
  /** Whether to export the state of the database, if a worker of this process is the one that samples it. @default true */
  readonly state?: boolean
  /** Whether to export what this process does. @default true */
  readonly process?: boolean
  readonly clock?: Clock
}

/** Numbers on their way from the events of a hapax to a sink. */
export interface Measuring {
  /** Brings up to date what changes by itself, such as the age of a sample. Call it before the sink is read. */
  collect(): void
  close(): void
}

/** Listens to events and writes what they say to a sink. */
export function measure(events: Events, sink: Sink, options: MeasureOptions = {}): Measuring {
  return new Measures(events, sink, options)
}

class Measures implements Measuring {
  readonly #sink: Sink
  readonly #clock: Clock
  readonly #series: Series
  readonly #state: StateGauges
  /** By the name in the events, so that a message costs one look-up. */
  readonly #consumers = new Named(MOST_NAMES, (label) => this.#consumerCells(label))
  readonly #relays = new Named(MOST_NAMES, (label) => this.#relayCells(label))
  readonly #scopes = new Named(MOST_NAMES, (label) => this.#scopeCells(label))
  readonly #relayUp = new Map<string, number>()
  /** How many workers of this process serve a relay. */
  readonly #serving = new Map<string, number>()
  readonly #ignore: (() => void)[] = []

  constructor(events: Events, sink: Sink, { state = true, process = true, clock = systemClock }: MeasureOptions) {
    this.#sink = sink
    this.#clock = clock
    this.#series = new Series(sink)
    this.#state = new StateGauges(this.#series, clock)
    this.#listenToStore(events)
    if (state) this.#ignore.push(events.on('sampled', (event) => this.#state.sampled(event)))
    if (!process) return
    this.#listenToMessages(events)
    this.#listenToRelays(events)
    this.#listenToWorkers(events)
  }

  collect(): void {
    this.#state.age()
  }

  close(): void {
    for (const ignore of this.#ignore.splice(0)) ignore()
  }

  #listenToStore(events: Events): void {
    const { buildInfo, storeUp } = METRICS
    this.#series.write(buildInfo, [version()], 1)
    this.#series.write(storeUp, [], 1)
    this.#ignore.push(
      events.on('store-down', () => this.#series.write(storeUp, [], 0)),
      events.on('store-up', () => this.#series.write(storeUp, [], 1)),
    )
  }

  #listenToMessages(events: Events): void {
    const published = this.#zero('published', [])
    const { mismatches, effects, leaseLost, commitUnknown, webhooks } = METRICS
    this.#ignore.push(
      events.on('processed', (event) => this.#processed(event)),
      events.on('duplicate', (event) => this.#duplicate(event)),
      events.on('failed', (event) => this.#failed(event)),
      events.on('mismatch', ({ consumer }) => this.#series.write(mismatches, [this.#label(consumer)], 1)),
      events.on('effect', ({ consumer, state }) => this.#series.write(effects, [this.#label(consumer), state], 1)),
      events.on('lease-lost', ({ consumer }) => this.#series.write(leaseLost, [this.#label(consumer)], 1)),
      events.on('commit-resolved', ({ consumer, resolved }) =>
        this.#series.write(commitUnknown, [this.#label(consumer), resolved], 1),
      ),
      events.on('published', () => published.write(1)),
      events.on('webhook', ({ source, outcome }) => this.#series.write(webhooks, [this.#label(source), outcome], 1)),
      events.on('http-request', ({ scope, outcome, durationMs }) => {
        const cells = this.#scopes.of(scope)
        cells.outcomes[outcome].write(1)
        cells.duration.write(durationMs / 1_000)
      }),
    )
    for (const outcome of PLAIN) {
      this.#ignore.push(events.on(outcome, ({ consumer }) => this.#count(consumer, outcome)))
    }
  }

  #listenToRelays(events: Events): void {
    this.#ignore.push(
      events.on('relayed', ({ relay, lagMs }) => {
        const { relayed, lag } = this.#relays.of(relay)
        relayed.write(1)
        if (lagMs !== undefined) lag.write(lagMs / 1_000)
      }),
      events.on('relay-retrying', ({ relay }) => this.#relays.of(relay).failures.retrying.write(1)),
      events.on('relay-failed', ({ relay }) => this.#relays.of(relay).failures.failed.write(1)),
      events.on('relay-dropped', ({ relay }) => this.#relays.of(relay).failures.dropped.write(1)),
      events.on('relay-down', ({ relay }) => {
        this.#relays.of(relay).failures.down.write(1)
        this.#relayIs(relay, 0)
      }),
      events.on('relay-up', ({ relay }) => this.#relayIs(relay, 1)),
    )
  }

  #listenToWorkers(events: Events): void {
    const poolExhausted = this.#zero('poolExhausted', [])
    const workerErrors = this.#zero('workerErrors', [])
    this.#ignore.push(
      events.on('worker-started', ({ consumers, relays }) => {
        for (const consumer of consumers) this.#consumers.of(consumer)
        for (const relay of relays) this.#served(relay)
      }),
      events.on('worker-stopped', ({ relays }) => this.#forgetRelays(relays)),
      events.on('horizons', (event) => this.#state.horizons(event)),
      events.on('cleaned', (event) => this.#cleaned(event)),
      events.on('pool-exhausted', () => poolExhausted.write(1)),
      events.on('worker-error', () => workerErrors.write(1)),
    )
  }

  #processed({ consumer, attempt, durationMs, waitMs, checkMs, lagMs }: HapaxEvents['processed']): void {
    const cells = this.#consumers.of(consumer)
    cells.outcomes.processed.write(1)
    cells.attempts.write(attempt)
    cells.process.write(durationMs / 1_000)
    if (waitMs !== undefined) cells.poolWait.write(waitMs / 1_000)
    if (checkMs !== undefined) cells.check.write(checkMs / 1_000)
    if (lagMs !== undefined) cells.lag.write(lagMs / 1_000)
  }

  #duplicate({ consumer, checkMs }: HapaxEvents['duplicate']): void {
    const cells = this.#consumers.of(consumer)
    cells.outcomes.duplicate.write(1)
    if (checkMs !== undefined) cells.check.write(checkMs / 1_000)
  }

  #failed({ consumer, reason, attempt }: HapaxEvents['failed']): void {
    const cells = this.#consumers.of(consumer)
    cells.outcomes[FAILED[reason] ?? 'failed'].write(1)
    // What no handler was called with took no attempt.
    if (attempt > 0) cells.attempts.write(attempt)
  }

  #count(consumer: string, outcome: MessageOutcome): void {
    this.#consumers.of(consumer).outcomes[outcome].write(1)
  }

  #relayIs(relay: string, up: number): void {
    const { label } = this.#relays.of(relay)
    this.#relayUp.set(label, up)
    this.#series.write(METRICS.relayUp, [label], up)
  }

  #served(relay: string): void {
    const { label } = this.#relays.of(relay)
    this.#serving.set(label, (this.#serving.get(label) ?? 0) + 1)
    this.#relayIs(relay, this.#relayUp.get(label) ?? 1)
  }

  /** Where no worker is left, nobody can tell any more whether the broker is there. */
  #forgetRelays(relays: readonly string[]): void {
    for (const relay of relays) {
      const { label } = this.#relays.of(relay)
      const left = (this.#serving.get(label) ?? 1) - 1
      this.#serving.set(label, left)
      if (left <= 0) this.#relayUp.delete(label)
    }
    this.#series.clear(METRICS.relayUp)
    for (const [label, up] of this.#relayUp) this.#series.write(METRICS.relayUp, [label], up)
  }

  #cleaned({ what, of, deleted, durationMs, oldestMs }: HapaxEvents['cleaned']): void {
    this.#series.write(METRICS.cleaned, [what], deleted)
    this.#series.write(METRICS.cleanupLast, [what], this.#clock.now() / 1_000)
    if (durationMs !== undefined) this.#series.write(METRICS.cleanupPass, [what], durationMs / 1_000)
    if (what === 'receipts' && oldestMs !== undefined) {
      this.#series.write(METRICS.receiptsOldest, [this.#label(of)], oldestMs / 1_000)
    }
  }

  #label(consumer: string): string {
    return this.#consumers.of(consumer).label
  }

  /** Its series exist from now on, at zero: otherwise the first failure would not show as an increase. */
  #consumerCells(label: string): ConsumerCells {
    const outcome = (name: MessageOutcome): Cell => this.#zero('messages', [label, name])
    const { attempts, process, check, poolWait, lag, mismatches, commitUnknown, effects, leaseLost } = METRICS
    this.#series.write(mismatches, [label], 0)
    for (const resolved of RESOLVED) this.#series.write(commitUnknown, [label, resolved], 0)
    for (const state of EFFECT_STATES) this.#series.write(effects, [label, state], 0)
    this.#series.write(leaseLost, [label], 0)
    return {
      label,
      outcomes: {
        processed: outcome('processed'),
        duplicate: outcome('duplicate'),
        stored: outcome('stored'),
        retrying: outcome('retrying'),
        held: outcome('held'),
        failed: outcome('failed'),
        conflict: outcome('conflict'),
        expired: outcome('expired'),
        busy: outcome('busy'),
        'rolled-back': outcome('rolled-back'),
        ignored: outcome('ignored'),
        unavailable: outcome('unavailable'),
      },
      attempts: this.#sink.cell(attempts, [label]),
      process: this.#sink.cell(process, [label]),
      check: this.#sink.cell(check, [label]),
      poolWait: this.#sink.cell(poolWait, [label]),
      lag: this.#sink.cell(lag, [label]),
    }
  }

  #relayCells(label: string): RelayCells {
    const failure = (kind: RelayFailure): Cell => this.#zero('relayFailures', [label, kind])
    return {
      label,
      relayed: this.#zero('relayed', [label]),
      lag: this.#sink.cell(METRICS.relayLag, [label]),
      failures: {
        retrying: failure('retrying'),
        failed: failure('failed'),
        dropped: failure('dropped'),
        down: failure('down'),
      },
    }
  }

  #scopeCells(label: string): ScopeCells {
    const outcome = (name: RequestOutcome): Cell => this.#zero('httpRequests', [label, name])
    return {
      outcomes: {
        first: outcome('first'),
        replayed: outcome('replayed'),
        unprotected: outcome('unprotected'),
        'in-progress': outcome('in-progress'),
        mismatch: outcome('mismatch'),
        rejected: outcome('rejected'),
        'rolled-back': outcome('rolled-back'),
        failed: outcome('failed'),
        unavailable: outcome('unavailable'),
      },
      duration: this.#sink.cell(METRICS.httpRequest, [label]),
    }
  }

  #zero(name: keyof typeof METRICS, values: readonly string[]): Cell {
    const cell = this.#sink.cell(METRICS[name], values)
    cell.write(0)
    return cell
  }
}

type RelayFailure = 'retrying' | 'failed' | 'dropped' | 'down'

/** Outcomes whose event has the same name and nothing else to measure. */
const PLAIN = ['stored', 'retrying', 'busy', 'rolled-back', 'ignored', 'unavailable'] as const

/** What becomes of a commit whose outcome was unknown. */
const RESOLVED = ['committed', 'not-committed', 'unresolved'] as const

/** How outside calls end. */
const EFFECT_STATES = ['done', 'not-done', 'unknown'] as const

/** Reasons of failures that are outcomes of their own. */
const FAILED: Readonly<Record<string, OutcomeStatus>> = {
  expired: 'expired',
  conflict: 'conflict',
  'unknown-effect': 'held',
}

/** What becomes of a delivery: what `handle` resolves with, or that it rejects. */
type MessageOutcome = OutcomeStatus | 'unavailable'

/** The series of a consumer, which every message needs. */
interface ConsumerCells {
  readonly label: string
  readonly outcomes: Readonly<Record<MessageOutcome, Cell>>
  readonly attempts: Cell
  readonly process: Cell
  readonly check: Cell
  readonly poolWait: Cell
  readonly lag: Cell
}

/** The series of a relay, which every message needs. */
interface RelayCells {
  readonly label: string
  readonly relayed: Cell
  readonly lag: Cell
  readonly failures: Readonly<Record<RelayFailure, Cell>>
}

type RequestOutcome = HapaxEvents['http-request']['outcome']

/** The series of a scope, which every request needs. */
interface ScopeCells {
  readonly outcomes: Readonly<Record<RequestOutcome, Cell>>
  readonly duration: Cell
}
