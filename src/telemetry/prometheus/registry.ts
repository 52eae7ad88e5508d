import type { Cell, Metric, Sink } from '../metrics/index.ts'

/** The numbers of a metric, with one line of labels each. */
export interface Family {
  readonly metric: Metric
  readonly series: readonly Sample[]
}

/** One series: its labels in their order, and its number, or the numbers of its buckets. */
export interface Sample {
  readonly values: readonly string[]
  readonly value: number
  /** For histograms: how many values are in each bucket, the last one being unbounded. */
  readonly buckets?: readonly number[]
}

/** Keeps the numbers in memory. Reading them costs the process nothing but time. */
export class Registry implements Sink {
  readonly #families = new Map<Metric, Map<string, Cell & Sample>>()

  /** In this order they are shown. */
  constructor(metrics: Iterable<Metric>) {
    for (const metric of metrics) this.#families.set(metric, new Map())
  }

  cell(metric: Metric, values: readonly string[]): Cell {
    const series = this.#of(metric)
    const key = values.join('\n')
    const cell = series.get(key) ?? made(metric, values)
    series.set(key, cell)
    return cell
  }

  clear(metric: Metric): void {
    this.#of(metric).clear()
  }

  /** The series of a metric. */
  family(metric: Metric): Family {
    return { metric, series: [...this.#of(metric).values()] }
  }

  /** The metrics that have series. */
  families(): readonly Family[] {
    return [...this.#families.keys()].map((metric) => this.family(metric)).filter(({ series }) => series.length > 0)
  }

  #of(metric: Metric): Map<string, Cell & Sample> {
    const series = this.#families.get(metric) ?? new Map<string, Cell & Sample>()
    this.#families.set(metric, series)
    return series
  }
}

function made(metric: Metric, values: readonly string[]): Cell & Sample {
  if (metric.buckets !== undefined) return new HistogramCell(values, metric.buckets)
  return metric.kind === 'counter' ? new CounterCell(values) : new GaugeCell(values)
}

class CounterCell implements Cell, Sample {
  readonly values: readonly string[]
  value = 0

  constructor(values: readonly string[]) {
    this.values = values
  }

  write(by: number): void {
    this.value += by
  }
}

class GaugeCell implements Cell, Sample {
  readonly values: readonly string[]
  value = 0

  constructor(values: readonly string[]) {
    this.values = values
  }

  write(value: number): void {
    this.value = value
  }
}

/** A bound is a part of its bucket. There are few, and most values are in the first ones. */
function bucketOf(bounds: readonly number[], value: number): number {
  let at = 0
  while (at < bounds.length && value > (bounds[at] ?? 0)) at += 1
  return at
}

class HistogramCell implements Cell, Sample {
  readonly values: readonly string[]
  readonly buckets: number[]
  readonly #bounds: readonly number[]
  /** The sum. */
  value = 0
  /** The last value and its bucket: the messages of a group have the same duration. */
  #last = Number.NaN
  #at = 0

  constructor(values: readonly string[], bounds: readonly number[]) {
    this.values = values
    this.#bounds = bounds
    this.buckets = new Array<number>(bounds.length + 1).fill(0)
  }

  write(value: number): void {
    this.value += value
    if (value !== this.#last) {
      this.#last = value
      this.#at = bucketOf(this.#bounds, value)
    }
    this.buckets[this.#at] = (this.buckets[this.#at] ?? 0) + 1
  }
}
