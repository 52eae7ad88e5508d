import { METRICS, type Metric } from '../../src/telemetry/metrics/index.ts'

const known = new Map(Object.values<Metric>(METRICS).map((metric) => [metric.name, metric]))

/** A metric of hapax by its name; a histogram also by those of its series. */
export function metricNamed(name: string): Metric {
  const metric = known.get(name) ?? known.get(name.replace(/_(?:bucket|sum|count)$/, ''))
  if (metric === undefined) throw new Error(`expected the name of a metric of hapax, got '${name}'`)
  return metric
}
