/** Milliseconds by unit, the smallest first. */
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** The milliseconds of a text like 30d, 12h, 15m, 90s or 500ms; undefined if it is not one. */
export function durationMs(text: string): number | undefined {
  const [, digits, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? []
  const size = unit === undefined ? undefined : UNITS[unit]
  return size === undefined ? undefined : Number(digits) * size
}

/** A duration as it would be typed, in the largest unit that is exact: for commands to paste. */
export function durationText(ms: number): string {
  const units = Object.entries(UNITS).reverse()
  const [unit, size] = units.find(([, each]) => ms % each === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}
