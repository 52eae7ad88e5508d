import type { Metric } from '../metrics/index.ts'
import type { Registry } from './registry.ts'
import { type ConstantLabels, linesOf } from './text.ts'

/** A metric of prom-client, as far as its registry needs it. */
interface PromMetric {
  get(): Promise<unknown>
  reset(): void
}

/** A registry of prom-client, as far as hapax needs it. */
export interface PromClientRegistry {
  registerMetric(metric: PromMetric): void
  removeSingleMetric(name: string): void
}

/** A metric of hapax in a registry of prom-client, which reads it at every scrape. */
export class ForeignMetric implements PromMetric {
  /** prom-client changes it for OpenMetrics, where a counter is named without its suffix. */
  name: string
  readonly help: string
  readonly type: Metric['kind']
  /** How workers of node:cluster are put together: what describes the database must not be added up. */
  readonly aggregator: 'sum' | 'max'
  readonly #metric: Metric
  readonly #registry: Registry
  readonly #constant: ConstantLabels
  readonly #collect: () => void

  constructor(metric: Metric, registry: Registry, constant: ConstantLabels, collect: () => void) {
    this.name = metric.name
    this.help = metric.help
    this.type = metric.kind
    this.aggregator = metric.kind === 'gauge' ? 'max' : 'sum'
    this.#metric = metric
    this.#registry = registry
    this.#constant = constant
    this.#collect = collect
  }

  async get(): Promise<object> {
    this.#collect()
    const { name, help, type, aggregator } = this
    const values = linesOf(this.#registry.family(this.#metric), this.#constant).map(({ suffix, labels, value }) => ({
      value,
      labels,
      ...(suffix !== '' && { metricName: `${name}${suffix}` }),
    }))
    return { name, help, type, aggregator, values }
  }

  /** Counters of hapax go on: nothing else knows what happened. */
  reset(): void {}
}
