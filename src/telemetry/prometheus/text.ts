import type { Metric } from '../metrics/index.ts'
import type { Family, Sample } from './registry.ts'

/** The text format that everything reads which scrapes, and the standard that grew out of it. */
export type Format = 'prometheus' | 'openmetrics'

/** The content types of the formats. */
export const CONTENT_TYPE: Readonly<Record<Format, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

/** Labels that every series gets. */
export type ConstantLabels = Readonly<Record<string, string>>

/** One number of a family: a suffix of the name, labels, and the number. */
export interface Line {
  readonly suffix: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Writes metrics as text. */
export function written(families: readonly Family[], format: Format, constant: ConstantLabels): string {
  const texts = families.map((family) => familyText(family, format, constant))
  return texts.join('') + (format === 'openmetrics' ? '# EOF\n' : '')
}

function familyText(family: Family, format: Format, constant: ConstantLabels): string {
  const { name, help, kind } = family.metric
  // OpenMetrics names a counter without its suffix.
  const title = format === 'openmetrics' && kind === 'counter' ? name.replace(/_total$/, '') : name
  const lines = linesOf(family, constant).map(
    ({ suffix, labels, value }) => `${name}${suffix}${labelText(labels)} ${numberText(value)}\n`,
  )
  const escaped = help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return `# HELP ${title} ${escaped}\n# TYPE ${title} ${kind}\n${lines.join('')}`
}

/** Every number of a family. */
export function linesOf({ metric, series }: Family, constant: ConstantLabels): readonly Line[] {
  return series.flatMap((sample) => {
    const labels = { ...constant, ...named(metric, sample) }
    if (sample.buckets === undefined) return [{ suffix: '', labels, value: sample.value }]
    return histogramLines(metric.buckets ?? [], sample.buckets, sample.value, labels)
  })
}

function histogramLines(
  bounds: readonly number[],
  counts: readonly number[],
  sum: number,
  labels: Line['labels'],
): readonly Line[] {
  let count = 0
  const buckets = counts.map((each, at) => {
    count += each
    return { suffix: '_bucket', labels: { ...labels, le: boundText(bounds[at]) }, value: count }
  })
  return [...buckets, { suffix: '_sum', labels, value: sum }, { suffix: '_count', labels, value: count }]
}

function named({ labels }: Metric, { values }: Sample): Record<string, string> {
  return Object.fromEntries(labels.map((label, at) => [label, values[at] ?? '']))
}

/** The same text in both formats, so that a bucket keeps its name: OpenMetrics wants a decimal point. */
function boundText(bound: number | undefined): string {
  if (bound === undefined) return '+Inf'
  return Number.isInteger(bound) ? bound.toFixed(1) : String(bound)
}

function labelText(labels: Line['labels']): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapedValue(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escapedValue(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value)
}
