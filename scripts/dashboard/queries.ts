// The queries of the board. Counters and histograms are summed over processes. State comes from one process for the whole database, and
// `max` takes care of the moment in which two report it.
import { metricNamed } from './metrics.ts'

/** Further matchers: `outcome="processed"`. */
type Matchers = readonly string[]

/** A metric with the matchers of the board's variables. State has none for the instance: it is the same whoever reports it. */
export function of(metric: string, ...matchers: Matchers): string {
  const { labels, state } = metricNamed(metric)
  const all = [
    'job=~"$job"',
    ...(state ? [] : ['instance=~"$instance"']),
    ...(labels.includes('consumer') ? ['consumer=~"$consumer"'] : []),
    ...(labels.includes('relay') ? ['relay=~"$relay"'] : []),
    ...matchers,
  ]
  return `${metric}{${all.join(', ')}}`
}

/** Per second, as a sum by these labels. */
export function rate(by: string, metric: string, ...matchers: Matchers): string {
  return `sum${grouping(by)} (rate(${of(metric, ...matchers)}[$__rate_interval]))`
}

/** How many in the range that the board shows. */
export function total(metric: string, ...matchers: Matchers): string {
  return `sum(increase(${of(metric, ...matchers)}[$__range]))`
}

/** The value below which this share of the observations lies. */
export function quantile(share: number, by: string, metric: string): string {
  const labels = by === '' ? 'le' : `le, ${by}`
  return `histogram_quantile(${share}, ${rate(labels, `${metric}_bucket`)})`
}

/** A gauge of the database, whoever reports it. */
export function state(by: string, metric: string, ...matchers: Matchers): string {
  return `max${grouping(by)} (${of(metric, ...matchers)})`
}

/** Zero where there is nothing to count, but only if the database was looked at: what nobody has seen is not zero. */
export function orNone(expr: string): string {
  return `${expr} or 0 * max(${of('hapax_state_age_seconds')})`
}

/** Zero where nothing was counted, but only if a process is there to count. */
export function orNoneCounted(expr: string): string {
  return `${expr} or 0 * max(${of('hapax_build_info')})`
}

function grouping(by: string): string {
  return by === '' ? '' : ` by (${by})`
}
