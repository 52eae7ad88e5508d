/** One side of a comparison: does a piece of work and answers how many messages it was, or what it took by its own clock. */
export type Side = (round: number) => Promise<number | Taken>

/** How many messages took how long. */
export interface Taken {
  readonly messages: number
  readonly ms: number
}

/** A side of which only `run` is timed. */
export interface Timed {
  before(round: number): Promise<void>
  run: Side
  after(round: number): Promise<void>
}

/** What a comparison found. Rates are medians, the ratio is the median of the ratios of neighbouring rounds. */
export interface Measured {
  readonly hapax: number
  readonly other: number
  readonly ratio: number
}

/**
 * Runs both sides in turn, so that whatever else the machine does hits both, after one round that is not counted.
 * Which side begins alternates.
 */
export async function sideBySide(rounds: number, hapax: Side | Timed, other: Side | Timed): Promise<Measured> {
  const rates: { hapax: number; other: number }[] = []
  for (let round = 0; round <= rounds; round++) {
    const first = round % 2 === 0
    const a = await rate(first ? hapax : other, round)
    const b = await rate(first ? other : hapax, round)
    if (round > 0) rates.push(first ? { hapax: a, other: b } : { hapax: b, other: a })
  }
  return {
    hapax: median(rates.map((each) => each.hapax)),
    other: median(rates.map((each) => each.other)),
    ratio: median(rates.map((each) => each.hapax / each.other)),
  }
}

async function rate(side: Side | Timed, round: number): Promise<number> {
  const { before, run, after } = typeof side === 'function' ? { before: nothing, run: side, after: nothing } : side
  await before(round)
  const started = performance.now()
  const done = await run(round)
  const taken = typeof done === 'number' ? { messages: done, ms: performance.now() - started } : done
  await after(round)
  return (taken.messages / taken.ms) * 1000
}

async function nothing(): Promise<void> {}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** Runs `count` loops at the same time until the items are used up. */
export async function loops<T>(
  count: number,
  items: readonly T[],
  work: (item: T, loop: number) => Promise<unknown>,
): Promise<void> {
  let next = 0
  const loop = async (_: unknown, index: number): Promise<void> => {
    while (next < items.length) await work(items[next++] as T, index)
  }
  await Promise.all(Array.from({ length: count }, loop))
}

export function chunks<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  )
}

/** A line of the report: what was compared, both rates, the ratio and the aim, if there is one. */
export function report(name: string, { hapax, other, ratio }: Measured, aim?: number): void {
  const columns = [
    name.padEnd(52),
    `${Math.round(hapax).toLocaleString('en')}/s`.padStart(12),
    `${Math.round(other).toLocaleString('en')}/s`.padStart(12),
    ratio.toFixed(2).padStart(8),
    ...(aim === undefined ? [] : [`>= ${aim}`.padStart(8), (ratio >= aim ? 'ok' : 'BELOW').padStart(6)]),
  ]
  console.log(columns.join(''))
}

/** A line of the report with one figure. */
export function reportValue(name: string, value: string, ok: boolean, aim: string): void {
  console.log(`${name.padEnd(52)}${value.padStart(12)}${aim.padStart(28)}${(ok ? 'ok' : 'MISSED').padStart(7)}`)
}

export function heading(title: string): void {
  console.log(
    `\n${title.padEnd(52)}${'hapax'.padStart(12)}${'other'.padStart(12)}${'ratio'.padStart(8)}${'aim'.padStart(8)}`,
  )
}
