import type { Clock, HapaxEvents, Horizon, State } from '../../base/index.ts'
import { MOST_NAMES, MOST_REASONS, Named, type Series } from './sink.ts'
import { METRICS, type Metric } from './table.ts'

/** After this time a sample says nothing about the present, and only its age is exported. */
const STALE_MS = 300_000

/** Gauges that are replaced as a whole: what a sample of the database says, and the horizons of the workers of this process. */
export class StateGauges {
  readonly #series: Series
  readonly #clock: Clock
  /** The worker whose sample is shown, and when it came. */
  #shown: { readonly worker: string; readonly at: number } | undefined
  readonly #horizons = new Map<string, readonly Horizon[]>()

  constructor(series: Series, clock: Clock) {
    this.#series = series
    this.#clock = clock
  }

  /** A worker has sampled the database, or, without `state`, has left it to another one. */
  sampled({ worker, state }: HapaxEvents['sampled']): void {
    if (state === undefined) {
      if (this.#shown?.worker === worker) this.#forget()
      return
    }
    this.#shown = { worker, at: this.#clock.monotonic() }
    this.#clear()
    for (const [metric, values, value] of Totals.of(state)) this.#series.write(metric, values, value)
    this.age()
  }

  /** How old the sample is. */
  age(): void {
    if (this.#shown === undefined) return
    const ageMs = this.#clock.monotonic() - this.#shown.at
    if (ageMs > STALE_MS) this.#clear()
    this.#series.write(METRICS.stateAge, [], ageMs / 1_000)
  }

  /** The horizons of the consumers of a worker; none once it has stopped. */
  horizons({ worker, horizons }: HapaxEvents['horizons']): void {
    if (horizons.length === 0) this.#horizons.delete(worker)
    else this.#horizons.set(worker, horizons)
    const { dedupHorizon, redeliveryHorizon } = METRICS
    this.#series.clear(dedupHorizon)
    this.#series.clear(redeliveryHorizon)
    const names = new Named(MOST_NAMES, (label) => label)
    for (const { consumer, retentionMs, redeliveryMs } of [...this.#horizons.values()].flat()) {
      const label = names.of(consumer)
      this.#series.write(dedupHorizon, [label], retentionMs / 1_000)
      if (redeliveryMs !== undefined) this.#series.write(redeliveryHorizon, [label], redeliveryMs / 1_000)
    }
  }

  #forget(): void {
    this.#shown = undefined
    this.#clear()
  }

  #clear(): void {
    for (const metric of STATE) this.#series.clear(metric)
  }
}

const STATE = Object.values<Metric>(METRICS).filter((metric) => metric.state)

type Total = readonly [metric: Metric, values: readonly string[], value: number]

/** The gauges of a sample. Names beyond the most that are told apart are added up; of their ages, the oldest counts. */
class Totals {
  readonly #totals = new Map<string, Total>()
  readonly #consumers = new Named(MOST_NAMES, (label) => label)
  readonly #relays = new Named(MOST_NAMES, (label) => label)
  readonly #reasons = new Named(MOST_REASONS, (label) => label)

  static of(state: State): Iterable<Total> {
    const totals = new Totals()
    for (const consumer of state.consumers) totals.#consumer(consumer)
    for (const relay of state.relays) totals.#relay(relay)
    for (const { origin, scope, reason, count } of state.failed) {
      const names = origin === 'inbox' ? totals.#consumers : totals.#relays
      totals.#add(METRICS.failedMessages, [origin, names.of(scope), totals.#reasons.of(reason)], count)
    }
    for (const [name, count] of Object.entries(state.workers ?? {})) totals.#add(METRICS.workers, [name], count)
    for (const { table, rows } of state.rows) {
      if (table === 'receipts') totals.#add(METRICS.receiptsEstimate, [], rows)
      else totals.#add(METRICS.rowsEstimate, [table], rows)
    }
    return totals.#totals.values()
  }

  #consumer({
    consumer,
    waiting,
    retrying,
    held,
    unknownEffects,
    oldestMs,
    workers,
  }: State['consumers'][number]): void {
    const label = this.#consumers.of(consumer)
    this.#add(METRICS.inboxMessages, [label, 'waiting'], waiting)
    this.#add(METRICS.inboxMessages, [label, 'retrying'], retrying)
    this.#add(METRICS.inboxMessages, [label, 'held'], held)
    if (oldestMs !== undefined || waiting + retrying === 0) {
      this.#most(METRICS.inboxOldest, [label], (oldestMs ?? 0) / 1_000)
    }
    this.#add(METRICS.heldKeys, ['inbox', label], held)
    if (unknownEffects !== undefined) this.#add(METRICS.effectsUnknown, [label], unknownEffects)
    if (workers !== undefined) this.#add(METRICS.consumerWorkers, [label], workers)
  }

  #relay({ relay, waiting, held, oldestMs, workers }: State['relays'][number]): void {
    const label = this.#relays.of(relay)
    this.#add(METRICS.outboxMessages, [label, 'waiting'], waiting)
    this.#add(METRICS.outboxMessages, [label, 'held'], held)
    this.#most(METRICS.outboxOldest, [label], (oldestMs ?? 0) / 1_000)
    this.#add(METRICS.heldKeys, ['outbox', label], held)
    this.#add(METRICS.relayWorkers, [label], workers)
  }

  #add(metric: Metric, values: readonly string[], value: number): void {
    this.#merge(metric, values, (before) => before + value)
  }

  #most(metric: Metric, values: readonly string[], value: number): void {
    this.#merge(metric, values, (before) => Math.max(before, value))
  }

  #merge(metric: Metric, values: readonly string[], next: (before: number) => number): void {
    const key = [metric.name, ...values].join('\n')
    const before = this.#totals.get(key)?.[2] ?? 0
    this.#totals.set(key, [metric, values, next(before)])
  }
}
