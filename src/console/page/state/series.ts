import type { HistoryView, SeriesView } from '../../api.ts'

type Field = 'done' | 'retried' | 'failed' | 'duplicates' | 'waiting' | 'lagMs' | 'oldestMs'
type Values = readonly (number | null)[]

/** Adds up a field of several series, minute by minute; null where none has a number. */
export function sum(series: readonly SeriesView[], field: Field): Values {
  return merged(series, field, (a, b) => a + b)
}

/** The largest of several series, minute by minute. */
export function most(series: readonly SeriesView[], field: Field): Values {
  return merged(series, field, (a, b) => Math.max(a, b))
}

function merged(series: readonly SeriesView[], field: Field, join: (a: number, b: number) => number): Values {
  const length = Math.max(0, ...series.map((each) => each[field].length))
  return Array.from({ length }, (_, index) => {
    const known = series.map((each) => each[field][index] ?? null).filter((value) => value !== null)
    return known.length === 0 ? null : known.reduce(join)
  })
}

/** Those of consumers, or of relays; of one of them with `scope`. */
export function seriesOf({ series }: HistoryView, origin: 'inbox' | 'outbox', scope?: string): readonly SeriesView[] {
  return series.filter((each) => each.origin === origin && (scope === undefined || each.scope === scope))
}
