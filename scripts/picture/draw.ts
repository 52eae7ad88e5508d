// Draws panels of the board as SVG, from what a Prometheus returned for their queries.
import { inUnit, roundUp } from './units.ts'

export interface Line {
  readonly name: string
  readonly points: readonly (readonly [seconds: number, value: number])[]
}

export interface Drawn {
  readonly type: string
  readonly title: string
  readonly unit: string | undefined
  readonly decimals: number | undefined
  readonly stacked: boolean
  /** Colours from a value on. */
  readonly steps: readonly { readonly value: number | null; readonly color: string }[]
  /** Words for values. */
  readonly words: Readonly<Record<string, { readonly text: string; readonly color?: string }>>
  readonly noValue: string
  readonly lines: readonly Line[]
}

export interface Box {
  readonly x: number
  readonly y: number
  readonly w: number
  readonly h: number
}

const COLORS = [
  '#73bf69',
  '#f2cc0c',
  '#5794f2',
  '#ff9830',
  '#b877d9',
  '#8ab8ff',
  '#f2495c',
  '#96d98d',
  '#ffcb7d',
  '#ca95e5',
]
const NAMED: Readonly<Record<string, string>> = { green: '#73bf69', orange: '#ff9830', red: '#f2495c' }
export const STYLE = `text { font: 11px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #ccccdc }
.title { font-size: 12px; font-weight: 600 } .small { font-size: 10px; fill: #8e8e9c } .row { font-size: 13px; font-weight: 600 }
.panel { fill: #181b1f; stroke: #2c2f36 } .grid { stroke: #2c2f36 }`

export function panel(drawn: Drawn, box: Box, from: number, to: number): string {
  const inner: Box = { x: box.x + 8, y: box.y + 24, w: box.w - 16, h: box.h - 30 }
  const body = bodies[drawn.type] ?? chart
  return [
    `<rect class="panel" x="${box.x}" y="${box.y}" width="${box.w}" height="${box.h}" rx="2"/>`,
    text(box.x + 8, box.y + 16, clip(drawn.title, box.w - 16), 'title'),
    drawn.lines.every(({ points }) => points.length === 0)
      ? text(box.x + box.w / 2, box.y + box.h / 2 + 6, drawn.noValue, '', 'middle')
      : body(drawn, inner, from, to),
  ].join('\n')
}

const bodies: Readonly<Record<string, (drawn: Drawn, box: Box, from: number, to: number) => string>> = {
  stat,
  heatmap,
  'state-timeline': timeline,
  table,
}

/** The last value of each line, large, above a shadow of its past. */
function stat(drawn: Drawn, box: Box, from: number, to: number): string {
  const shown = drawn.lines.filter(({ points }) => points.length > 0)
  const width = box.w / shown.length
  return shown
    .map(({ name, points }, index) => {
      const value = points.at(-1)?.[1] ?? 0
      const word = drawn.words[String(value)]
      const color = NAMED[word?.color ?? colorAt(drawn, value)] ?? '#73bf69'
      const own: Box = { ...box, x: box.x + index * width, w: width }
      const top = Math.max(...points.map(([, each]) => each), 1e-9)
      const line = path(points, { ...own, y: own.y + own.h * 0.55, h: own.h * 0.45 }, from, to, top)
      const past =
        word === undefined && points.length > 2
          ? `<path d="${line} L${end(points, own, from, to)} Z" fill="${color}" opacity="0.18"/>`
          : ''
      const label = shown.length > 1 ? text(own.x + own.w / 2, own.y + 14, name, 'small', 'middle') : ''
      const size = shown.length > 1 ? 18 : 26
      const large = `<text x="${round(own.x + own.w / 2)}" y="${round(own.y + own.h * 0.62)}" text-anchor="middle" style="font-size:${size}px;font-weight:600;fill:${color}">${word?.text ?? inUnit(value, drawn.unit, drawn.decimals)}</text>`
      return past + label + large
    })
    .join('\n')
}

function end(points: Line['points'], box: Box, from: number, to: number): string {
  const x = (seconds: number): number => box.x + ((seconds - from) / (to - from)) * box.w
  const bottom = box.y + box.h
  return `${round(x(points.at(-1)?.[0] ?? to))},${round(bottom)} L${round(x(points[0]?.[0] ?? from))},${round(bottom)}`
}

/** Lines over time, with an axis, times and a legend. */
function chart(drawn: Drawn, box: Box, from: number, to: number): string {
  const named = drawn.lines.filter(({ points }) => points.length > 0)
  const busiest = named.toSorted((a, b) => most(b) - most(a)).slice(0, COLORS.length)
  const layers = drawn.stacked ? stacked(busiest) : busiest
  const top = roundUp(Math.max(...layers.map(most), 0))
  const legend = legendOf(busiest, box)
  const plot: Box = { x: box.x + 44, y: box.y + 4, w: box.w - 48, h: box.h - 22 - legend.height }
  const area = drawn.stacked ? 0.35 : 0
  const shapes = layers.map(({ points }, index) => {
    const color = COLORS[index] ?? '#ccccdc'
    return segments(points, to - from)
      .map((segment) => {
        const line = path(segment, plot, from, to, top)
        const fill =
          area === 0 ? '' : `<path d="${line} L${end(segment, plot, from, to)} Z" fill="${color}" opacity="${area}"/>`
        return `${fill}<path d="${line}" fill="none" stroke="${color}" stroke-width="1.2"/>`
      })
      .join('')
  })
  return [axes(drawn, plot, from, to, top), ...(drawn.stacked ? shapes.toReversed() : shapes), legend.text].join('\n')
}

function axes(
  { unit, decimals }: Pick<Drawn, 'unit' | 'decimals'>,
  plot: Box,
  from: number,
  to: number,
  top: number,
): string {
  const levels = [0, 0.5, 1].map((share) => {
    const y = round(plot.y + plot.h * (1 - share))
    const label = text(
      plot.x - 5,
      y + 3,
      inUnit(top * share, unit, share === 0.5 ? undefined : decimals),
      'small',
      'end',
    )
    return `<path class="grid" d="M${plot.x},${y} h${plot.w}"/>${label}`
  })
  return levels.join('') + times(plot, from, to)
}

function times(plot: Box, from: number, to: number): string {
  return [0, 0.25, 0.5, 0.75, 1]
    .map((share) => {
      const at = new Date((from + share * (to - from)) * 1_000).toISOString().slice(14, 19)
      const anchor = share === 0 ? 'start' : share === 1 ? 'end' : 'middle'
      return text(plot.x + share * plot.w, plot.y + plot.h + 13, at, 'small', anchor)
    })
    .join('')
}

/** As many names as fit into two lines below the plot. */
function legendOf(lines: readonly Line[], box: Box): { readonly height: number; readonly text: string } {
  let [x, row] = [0, 0]
  const placed: { x: number; row: number; name: string; color: string }[] = []
  for (const [index, { name }] of lines.entries()) {
    const width = 22 + name.length * 5.6
    if (x + width > box.w && x > 0) [x, row] = [0, row + 1]
    if (row > 1) break
    placed.push({ x, row, name, color: COLORS[index] ?? '#ccccdc' })
    x += width
  }
  const rows = (placed.at(-1)?.row ?? 0) + 1
  const top = box.y + box.h - rows * 14 + 10
  const shapes = placed.map(({ x, row, name, color }) => {
    const y = top + row * 14
    return `<rect x="${round(box.x + x)}" y="${y - 6}" width="10" height="3" fill="${color}"/>${text(box.x + x + 14, y, name, 'small')}`
  })
  return { height: rows * 14, text: shapes.join('') }
}

/** A column per moment and a row per bucket; the darker, the more. */
function heatmap(drawn: Drawn, box: Box, from: number, to: number): string {
  const sorted = drawn.lines.toSorted((a, b) => bucket(a.name) - bucket(b.name))
  const rows = sorted.map(({ name, points }, index) => {
    const below = new Map(sorted[index - 1]?.points ?? [])
    return { name, cells: points.map(([at, count]) => [at, Math.max(0, count - (below.get(at) ?? 0))] as const) }
  })
  const used = rows.filter(({ cells }) => cells.some(([, count]) => count > 0.01))
  const plot: Box = { x: box.x + 44, y: box.y + 4, w: box.w - 48, h: box.h - 22 }
  const height = plot.h / Math.max(1, used.length)
  const top = Math.max(...used.flatMap(({ cells }) => cells.map(([, count]) => count)), 1e-9)
  const columns = Math.max(1, ...used.map(({ cells }) => cells.length))
  const shapes = used.flatMap(({ name, cells }, index) => {
    const y = plot.y + plot.h - (index + 1) * height
    const label = name === '+Inf' ? 'more' : inUnit(Number(name), 's')
    return [
      text(plot.x - 5, y + height / 2 + 3, label, 'small', 'end'),
      ...cells
        .filter(([, count]) => count > 0.01)
        .map(([at, count]) => {
          const x = plot.x + ((at - from) / (to - from)) * plot.w
          const shade = round(0.15 + 0.85 * Math.sqrt(count / top), 2)
          return `<rect x="${round(x)}" y="${round(y)}" width="${round(plot.w / columns)}" height="${round(height - 1)}" fill="#ff9830" opacity="${shade}"/>`
        }),
    ]
  })
  return shapes.join('') + times(plot, from, to)
}

function bucket(name: string): number {
  return name === '+Inf' ? Number.POSITIVE_INFINITY : Number(name)
}

/** A bar per line, in the colours of its states. */
function timeline(drawn: Drawn, box: Box, from: number, to: number): string {
  const plot: Box = { x: box.x + 92, y: box.y + 4, w: box.w - 96, h: box.h - 22 }
  const height = plot.h / Math.max(1, drawn.lines.length)
  const bars = drawn.lines.map(({ name, points }, index) => {
    const y = round(plot.y + index * height + 4)
    const width = round(plot.w / Math.max(1, points.length) + 0.6)
    const cells = points.map(([at, value]) => {
      const color = NAMED[drawn.words[String(value)]?.color ?? 'green'] ?? '#73bf69'
      const x = round(plot.x + ((at - from) / (to - from)) * plot.w)
      return `<rect x="${x}" y="${y}" width="${width}" height="${round(height - 8)}" fill="${color}" opacity="0.75"/>`
    })
    return text(plot.x - 6, y + height / 2, clip(name, 88), 'small', 'end') + cells.join('')
  })
  return bars.join('\n') + times(plot, from, to)
}

/** A row per name, a column per query: the names of lines are `row|column`. */
function table(drawn: Drawn, box: Box): string {
  const cells = drawn.lines.map(({ name, points }) => ({
    key: name.split('|'),
    value: points.at(-1)?.[1] ?? Number.NaN,
  }))
  const rows = [...new Set(cells.map(({ key }) => key[0] ?? ''))].toSorted()
  const columns = [...new Set(cells.map(({ key }) => key[1] ?? ''))]
  const width = box.w / (columns.length + 1)
  const head = ['', ...columns].map((name, index) => text(box.x + index * width + 6, box.y + 14, name, 'small'))
  const lines = rows.flatMap((row, index) => {
    const y = box.y + 36 + index * 22
    const values = columns.map((column, at) => {
      const found = cells.find(({ key }) => key[0] === row && key[1] === column)
      const shown = found === undefined || Number.isNaN(found.value) ? '–' : inUnit(found.value, drawn.unit)
      return text(box.x + (at + 1) * width + 6, y, shown, '')
    })
    return [text(box.x + 6, y, row, ''), ...values, `<path class="grid" d="M${box.x},${y + 7} h${box.w}"/>`]
  })
  return [...head, ...lines].join('')
}

/** Each line on top of those before it; a moment that a line does not have counts as zero. */
function stacked(lines: readonly Line[]): readonly Line[] {
  const sums = new Map<number, number>()
  return lines.map(({ name, points }) => ({
    name,
    points: points.map(([at, value]) => {
      const sum = (sums.get(at) ?? 0) + value
      sums.set(at, sum)
      return [at, sum] as const
    }),
  }))
}

/** Cut where values are missing for a while. */
function segments(points: Line['points'], width: number): readonly Line['points'][] {
  const all: (readonly [number, number])[][] = []
  for (const point of points) {
    const last = all.at(-1)?.at(-1)
    if (last === undefined || point[0] - last[0] > width / 20) all.push([point])
    else all.at(-1)?.push(point)
  }
  return all
}

function path(points: Line['points'], box: Box, from: number, to: number, top: number): string {
  const at = ([seconds, value]: readonly [number, number]): string => {
    const x = box.x + ((seconds - from) / (to - from)) * box.w
    const y = box.y + box.h * (1 - Math.min(1, value / top))
    return `${round(x)},${round(y)}`
  }
  return `M${points.map(at).join(' L')}`
}

function colorAt({ steps }: Drawn, value: number): string {
  return steps.findLast((step) => step.value === null || value >= step.value)?.color ?? 'green'
}

function most({ points }: Line): number {
  return Math.max(0, ...points.map(([, value]) => value))
}

export function text(x: number, y: number, words: string, kind: string, anchor = 'start'): string {
  const safe = words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  return `<text x="${round(x)}" y="${round(y)}" class="${kind}" text-anchor="${anchor}">${safe}</text>`
}

function clip(words: string, width: number): string {
  const most = Math.floor(width / 6)
  return words.length > most ? `${words.slice(0, most - 1)}…` : words
}

function round(value: number, digits = 1): number {
  return Number(value.toFixed(digits))
}
