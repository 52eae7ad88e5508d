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
  readonly #meters: Meters
  readonly #cells = new Map<Metric, Kept[]>()

  /** `collect` brings up to date what changes by itself. */
  constructor(meters: Meters, collect: () => void) {
    this.#meters = meters
    meters.whenFound((meter) => {
      for (const metric of Object.values<Metric>(METRICS)) {
        if (metric.kind !== 'histogram') this.#observe(meter, metric, collect)
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

  #observe(meter: Meter, metric: Metric, collect: () => void): void {
    const observable =
      metric.kind === 'counter'
        ? meter.createObservableCounter(otelName(metric), optionsOf(metric))
        : meter.createObservableGauge(otelName(metric), optionsOf(metric))
    observable.addCallback((result: ObservableResult) => {
      if (metric === METRICS.stateAge) collect()
      for (const { value, attributes } of this.#cells.get(metric) ?? []) {
        // JSON of OTLP has no infinity: a horizon without an end is left out.
        if (Number.isFinite(value)) result.observe(value, attributes)
      }
    })
  }
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

/** `hapax_process_seconds` is `hapax.process` in seconds: exporters for Prometheus make the first of the second. */
export function otelName({ name, kind, unit }: Metric): string {
  const [total, seconds] = [kind === 'counter' ? /_total$/ : /$/, unit === 'seconds' ? /_seconds$/ : /$/]
  return name.replace(total, '').replace(seconds, '').replaceAll('_', '.')
}

function optionsOf({ help, unit, buckets }: Metric): Parameters<Meter['createHistogram']>[1] {
  const shownUnit = unit === 'seconds' ? 's' : unit === 'none' ? '' : `{${unit.replace(/s$/, '')}}`
  const advice = buckets && { advice: { explicitBucketBoundaries: [...buckets] } }
  return { description: help, unit: shownUnit, ...advice }
}

function attributesOf({ labels }: Metric, values: readonly string[]): Attributes {
  return Object.fromEntries(labels.map((label, index) => [label, values[index] ?? '']))
}
