/** A number as Grafana would show it, in the unit of a panel. */
export function inUnit(value: number, unit: string | undefined, decimals?: number): string {
  if (!Number.isFinite(value)) return '∞'
  if (unit === 's' || unit === 'dtdurations') return span(value)
  if (unit === 'percentunit') return `${plain(value * 100)} %`
  if (unit === 'ops') return `${plain(value)}/s`
  return decimals === 0 ? String(Math.round(value)) : plain(value)
}

function plain(value: number): string {
  if (value === 0) return '0'
  if (Math.abs(value) >= 10_000) return `${Number((value / 1_000).toPrecision(3))} k`
  return String(Number(value.toPrecision(Math.abs(value) < 100 ? 2 : 4)))
}

const SPANS: readonly (readonly [seconds: number, name: string])[] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
  [0.001, 'ms'],
]

function span(seconds: number): string {
  if (seconds === 0) return '0 s'
  const [length, name] = SPANS.find(([least]) => Math.abs(seconds) >= least) ?? [0.001, 'ms']
  return `${Number((seconds / length).toPrecision(seconds / length < 100 ? 2 : 3))} ${name}`
}

/** A round number at or above this one, for the top of an axis. */
export function roundUp(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= value) ?? 10) * power
}
