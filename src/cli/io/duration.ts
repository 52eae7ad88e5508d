const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** The milliseconds of a text like 30d, 12h, 15m, 90s or 500ms; undefined if it is not one. */
export function durationMs(text: string): number | undefined {
  const [, digits, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? []
  return digits === undefined || unit === undefined ? undefined : Number(digits) * (UNITS[unit] as number)
}

/** The same, the other way round, in the largest unit that says it exactly: for commands to paste. */
export function durationText(ms: number): string {
  const [unit, size] = Object.entries(UNITS)
    .reverse()
    .find(([, each]) => ms % each === 0) as [string, number]
  return `${ms / size}${unit}`
}
