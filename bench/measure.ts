import { aimText, figureText, type Line, metAim } from './results.ts'

/** One side of a comparison: does a piece of work and returns how many messages it was, or what it took by its own clock. */
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

/** What a comparison found. Rates are medians, ratios are the medians of the ratios of neighbouring rounds. */
export interface Measured {
  readonly hapax: number
  readonly other: number
  /** Hapax to the other side. */
  readonly ratio: number
  /** What is possible to the other side: the bare loop with the round trips of hapax. */
  readonly floor?: number
  readonly rounds: number
}

/**
 * Runs the sides in turn, so that whatever else the machine does hits all of them, after one round that is not counted.
 * Which side begins alternates.
 */
export async function sideBySide(
  rounds: number,
  hapax: Side | Timed,
  other: Side | Timed,
  floor?: Side | Timed,
): Promise<Measured> {
  const sides = floor === undefined ? [hapax, other] : [hapax, other, floor]
  const rates: (readonly number[])[] = []
  for (let round = 0; round <= rounds; round++) {
    const taken: number[] = []
    for (let turn = 0; turn < sides.length; turn++) {
      const index = (round + turn) % sides.length
      taken[index] = await rate(sides[index] as Side | Timed, round)
    }
    if (round > 0) rates.push(taken)
  }
  const over = (part: (round: readonly number[]) => number): number => median(rates.map(part))
  const ratioOf = (side: number): number => over((round) => (round[side] ?? 0) / (round[1] ?? 0))
  return {
    hapax: over(([ours = 0]) => ours),
    other: over(([, theirs = 0]) => theirs),
    ratio: ratioOf(0),
    ...(floor === undefined ? {} : { floor: ratioOf(2) }),
    rounds,
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
  return percentile(values, 0.5)
}

export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
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

/** Where the lines go that the parts report. */
let lines: Line[] = []
let title = ''

/** What a line of rates says beside them. */
interface More {
  /** What is possible to the other side; `sideBySide` measures it where it is given three sides. */
  readonly floor?: number
  readonly note?: string
}

interface Rates {
  readonly hapax: number
  readonly other: number
  readonly ratio: number
  readonly floor?: number
  readonly rounds?: number
}

/** Reports rates per second: what was compared, as `ours / theirs`, and the least ratio that is aimed at. */
export function report(name: string, { hapax, other, ratio, floor, rounds }: Rates, aim?: number, more?: More): void {
  add({
    title,
    name,
    unit: '/s',
    hapax,
    other,
    ratio,
    ...(aim === undefined ? {} : { aim: { of: 'ratio', least: aim } }),
    ...(floor === undefined ? {} : { floor }),
    ...(rounds === undefined ? {} : { rounds }),
    ...more,
  })
}

/** Reports one figure of hapax, beside that of another library where `other` is given. Less is better, unless the aim is `least`. */
export function reportValue(
  name: string,
  hapax: number,
  unit: Line['unit'],
  { other, ...more }: Pick<Line, 'aim' | 'note' | 'rounds'> & { readonly other?: number } = {},
): void {
  add({ title, name, unit, hapax, ...(other === undefined ? {} : { other, ratio: hapax / other }), ...more })
}

function add(line: Line): void {
  lines.push(line)
  const aim = line.aim === undefined ? [] : [aimText(line).padStart(11), (metAim(line) ? 'ok' : 'MISSED').padStart(8)]
  const floor = line.floor === undefined ? '' : `  floor ${line.floor.toFixed(2)}`
  const figures = [
    figureText(line.hapax, line.unit).padStart(13),
    (line.other === undefined ? '' : figureText(line.other, line.unit)).padStart(13),
    (line.ratio?.toFixed(2) ?? '').padStart(8),
  ]
  console.log([line.name.padEnd(60), ...figures, ...aim, floor].join('').trimEnd())
  if (line.note !== undefined) console.log(`  ${line.note}`)
}

/** Begins a table; the lines that follow belong to it. */
export function heading(text: string): void {
  title = text
  const columns = ['hapax'.padStart(13), 'other'.padStart(13), 'ratio'.padStart(8), 'aim'.padStart(11)]
  console.log(`\n${text.padEnd(60)}${columns.join('')}`)
}

/** Says on standard error what takes long. */
export function progress(text: string): void {
  console.error(`  ${new Date().toISOString().slice(11, 19)} ${text}`)
}

/** The lines that were reported since the last call. */
export function takeLines(): readonly Line[] {
  const taken = lines
  lines = []
  return taken
}
