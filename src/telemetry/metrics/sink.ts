import type { Metric } from './table.ts'

/** One series of a metric. */
export interface Cell {
  /** Adds to a counter, records a value in a histogram, sets a gauge. */
  write(value: number): void
}

/** Where numbers go: a registry of ours, or the meters of OpenTelemetry. */
export interface Sink {
  /** The series with these values of the labels, in the order of `metric.labels`. Asked for once; then only its cell is used. */
  cell(metric: Metric, values: readonly string[]): Cell
  /** Forgets all series of a gauge; their cells are not used again. */
  clear(metric: Metric): void
}

/** The series of a sink, by metric and labels. Messages keep their cells instead; this is for what happens less often. */
export class Series {
  readonly #sink: Sink
  readonly #cells = new Map<Metric, Map<string, Cell>>()

  constructor(sink: Sink) {
    this.#sink = sink
  }

  write(metric: Metric, values: readonly string[], value: number): void {
    const cells = this.#cells.get(metric) ?? new Map<string, Cell>()
    this.#cells.set(metric, cells)
    // Values of labels are names, which have no control characters.
    const key = values.join('\n')
    const cell = cells.get(key) ?? this.#sink.cell(metric, values)
    cells.set(key, cell)
    cell.write(value)
  }

  clear(metric: Metric): void {
    if (this.#cells.delete(metric)) this.#sink.clear(metric)
  }
}

/** Stands for every name beyond the most that are told apart. */
const OTHER = 'other'

/** Keeps the number of series bounded, whatever a process calls its consumers: names beyond the most share what `other` has. */
export class Named<T> {
  readonly #most: number
  readonly #make: (label: string) => T
  readonly #known = new Map<string, T>()

  constructor(most: number, make: (label: string) => T) {
    this.#most = most
    this.#make = make
  }

  of(name: string): T {
    const known = this.#known.get(name)
    if (known !== undefined) return known
    const label = this.#known.size < this.#most ? name : OTHER
    const made = this.#known.get(label) ?? this.#make(label)
    this.#known.set(label, made)
    return made
  }
}

/** How many consumers, and how many relays, are told apart. */
export const MOST_NAMES = 500
/** How many reasons of failures are told apart. */
export const MOST_REASONS = 100
