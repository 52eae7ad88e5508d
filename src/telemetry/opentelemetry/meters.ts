import {
  type Attributes,
  createNoopMeter,
  type Histogram,
  type Meter,
  type MeterProvider,
  metrics,
  type ObservableResult,
  ROOT_CONTEXT,
} from '@opentelemetry/api'
import { version } from '../../base/index.ts'
import { type Cell, METRICS, type Metric, type Sink } from '../metrics/index.ts'

/**
 * The meter, as soon as there is one. The API gives a meter that never does anything to those who ask before the SDK is there, so it
 * is asked again until it has another one.
 */
export class Meters {
  readonly #given: MeterProvider | undefined
  #found: Meter | undefined
  #waiting: ((meter: Meter) => void)[] = []

  constructor(given: MeterProvider | undefined) {
    this.#given = given
  }

  /** Looks for a meter that was registered late. Called for every operation. */
  look(): void {
    if (this.#found !== undefined) return
    const meter = (this.#given ?? metrics.getMeterProvider()).getMeter('hapax', VERSION)
    if (meter === createNoopMeter()) return
    this.#found = meter
    for (const call of this.#waiting.splice(0)) call(meter)
  }

  /** Calls back once there is one. */
  whenFound(call: (meter: Meter) => void): void {
    this.look()
    if (this.#found === undefined) this.#waiting.push(call)
    else call(this.#found)
  }
}

const VERSION = version()

/** One number, or one line of a histogram. */
interface Kept extends Cell {
  readonly attributes: Attributes
  readonly value: number
}

/**
 * Metrics of hapax for OpenTelemetry. Counters and gauges are kept here and are read when they are exported, so that messages pay for
 * an addition only, and a provider that comes late is told all of it.
 */
export class MeterSink implements Sink {
  readonly #cells = new Map<Metric, Kept[]>()
  readonly #meters: Meters
  readonly #collect: () => void

  /** `collect` brings up to date what changes by itself. */
  constructor(meters: Meters, collect: () => void) {
    this.#meters = meters
    this.#collect = collect
    meters.whenFound((meter) => {
      const others = SINKS.get(meter)
      if (others !== undefined) return void others.push(this)
      const sinks = [this]
      SINKS.set(meter, sinks)
      for (const metric of Object.values<Metric>(METRICS)) {
        if (metric.kind !== 'histogram') observe(meter, metric, sinks)
      }
    })
  }

  cell(metric: Metric, values: readonly string[]): Cell {
    const attributes = attributesOf(metric, values)
    if (metric.kind === 'histogram') return new HistogramCell(this.#meters, metric, attributes)
    const cell = metric.kind === 'counter' ? new CounterCell(attributes) : new GaugeCell(attributes)
    const cells = this.#cells.get(metric)
    if (cells === undefined) this.#cells.set(metric, [cell])
    else cells.push(cell)
    return cell
  }

  clear(metric: Metric): void {
    this.#cells.delete(metric)
  }

  read(metric: Metric): readonly Kept[] {
    if (metric === METRICS.stateAge) this.#collect()
    // JSON of OTLP has no infinity: a horizon without an end is left out.
    return (this.#cells.get(metric) ?? []).filter(({ value }) => Number.isFinite(value))
  }
}

/** The sinks of all hapaxes of this process that share a meter. If each observed for itself, the SDK would keep the last of equal series. */
const SINKS = new WeakMap<Meter, MeterSink[]>()

function observe(meter: Meter, metric: Metric, sinks: readonly MeterSink[]): void {
  const observable =
    metric.kind === 'counter'
      ? meter.createObservableCounter(otelName(metric), optionsOf(metric))
      : meter.createObservableGauge(otelName(metric), optionsOf(metric))
  observable.addCallback((result: ObservableResult) => {
    const totals = new Map<string, { readonly attributes: Attributes; value: number }>()
    for (const { value, attributes } of sinks.flatMap((sink) => sink.read(metric))) {
      const key = Object.values(attributes).join('\n')
      const total = totals.get(key)
      if (total === undefined) totals.set(key, { attributes, value })
      else total.value = together(metric, total.value, value)
    }
    for (const { value, attributes } of totals.values()) result.observe(value, attributes)
  })
}

/** One number for the equal series of two hapaxes: counts are added up; of gauges, the worst one counts. */
function together(metric: Metric, one: number, other: number): number {
  if (metric.kind === 'counter') return one + other
  return metric === METRICS.storeUp || metric === METRICS.relayUp ? Math.min(one, other) : Math.max(one, other)
}

class CounterCell implements Kept {
  readonly attributes: Attributes
  value = 0

  constructor(attributes: Attributes) {
    this.attributes = attributes
  }

  write(by: number): void {
    this.value += by
  }
}

class GaugeCell implements Kept {
  readonly attributes: Attributes
  value = 0

  constructor(attributes: Attributes) {
    this.attributes = attributes
  }

  write(value: number): void {
    this.value = value
  }
}

/** A histogram cannot be read later, so that it is written as it comes. */
class HistogramCell implements Cell {
  readonly #attributes: Attributes
  #histogram: Histogram | undefined

  constructor(meters: Meters, metric: Metric, attributes: Attributes) {
    this.#attributes = attributes
    meters.whenFound((meter) => {
      this.#histogram = meter.createHistogram(otelName(metric), optionsOf(metric))
    })
  }

  write(value: number): void {
    this.#histogram?.record(value, this.#attributes, ROOT_CONTEXT)
  }
}

/**
 * `hapax_process_seconds` is `hapax.process.seconds`. The name includes the unit, because only some Prometheus exporters append it, and those
 * that do leave a name that already ends with it unchanged. All of them append `_total` to counters.
 */
export function otelName({ name }: Metric): string {
  return name.replace(/_total$/, '').replaceAll('_', '.')
}

function optionsOf({ help, unit, buckets }: Metric): Parameters<Meter['createHistogram']>[1] {
  const shownUnit = unit === 'seconds' ? 's' : unit === 'none' ? '' : `{${unit.replace(/s$/, '')}}`
  const advice = buckets && { advice: { explicitBucketBoundaries: [...buckets] } }
  return { description: help, unit: shownUnit, ...advice }
}

function attributesOf({ labels }: Metric, values: readonly string[]): Attributes {
  return Object.fromEntries(labels.map((label, index) => [label, values[index] ?? '']))
}
