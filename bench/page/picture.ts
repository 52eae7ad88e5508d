import { aimText, figureText, type Line, metAim, type Results } from '../results.ts'

const WIDTH = 720
const MARGIN = 16
/** Where the bars begin, and how long the longest is; figures follow them. */
const BARS = 336
const BAR_WIDTH = 200
/** What there is room for, to the left of the bars. */
const MOST_LETTERS = 50
const LINE_HEIGHT = 15
const ROW_HEIGHT = 2 * LINE_HEIGHT + 10
const HEAD_HEIGHT = 34

const STYLE = `
text { font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
.back { fill: #ffffff } .muted { fill: #59636e } .head { font-weight: 600; font-size: 13px }
.ours { fill: #0969da } .theirs { fill: #c3c9d0 } .aim { stroke: #1f2328; stroke-width: 1.5 } .rule { stroke: #d1d9e0 }
.ratio { font-weight: 600; font-size: 14px } .missed { fill: #bc4c00 } .small { font-size: 11px }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .back { fill: #0d1117 } .muted { fill: #9198a1 }
  .ours { fill: #4493f8 } .theirs { fill: #545d68 } .aim { stroke: #f0f6fc } .rule { stroke: #3d444d } .missed { fill: #f0883e }
}
`.trim()

/** A line that compares two figures. */
type Pair = Line & { readonly other: number; readonly ratio: number }

/** The comparisons as bars: hapax above, the other below, each row in a scale of its own. */
export function picture({ parts }: Results): string {
  const shapes: string[] = []
  let y = MARGIN + 12
  shapes.push(...legend(y))
  y += 14
  for (const [title, pairs] of tables(parts.flatMap(({ lines }) => lines))) {
    shapes.push(rule(y + 8), text(MARGIN, y + HEAD_HEIGHT - 6, title, 'head'))
    y += HEAD_HEIGHT
    for (const pair of pairs) {
      shapes.push(...row(pair, y))
      y += ROW_HEIGHT
    }
  }
  const height = y + MARGIN / 2
  const size = `width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}"`
  const description = 'Rates of hapax beside those of hand-written code and of other libraries'
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="${description}">`,
    `<style>${STYLE}</style>`,
    `<rect class="back" width="${WIDTH}" height="${height}"/>`,
    ...shapes,
    '</svg>\n',
  ].join('\n')
}

function tables(lines: readonly Line[]): ReadonlyMap<string, readonly Pair[]> {
  return Map.groupBy(lines.filter(isPair), ({ title }) => title)
}

function isPair(line: Line): line is Pair {
  return line.other !== undefined && line.ratio !== undefined
}

function legend(y: number): string[] {
  return [
    bar(MARGIN, y - 10, 12, 'ours'),
    text(MARGIN + 18, y, 'hapax', 'muted'),
    bar(MARGIN + 70, y - 10, 12, 'theirs'),
    text(MARGIN + 88, y, 'the other', 'muted'),
    aimMark(MARGIN + 164, y - 11),
    text(MARGIN + 172, y, 'what hapax aims at', 'muted'),
    text(WIDTH - MARGIN, y, 'hapax / the other', 'muted', 'end'),
  ]
}

function row(pair: Pair, y: number): string[] {
  const { hapax, other, ratio, unit, aim } = pair
  const [ours = '', theirs = ''] = pair.name.split(' / ')
  const target = aim === undefined ? undefined : aim.of === 'hapax' ? bound(aim) : bound(aim) * other
  const longest = Math.max(hapax, other, target ?? 0)
  const scale = (value: number): number => Math.max(1, Math.round((value / longest) * BAR_WIDTH))
  const [first, second] = [y + LINE_HEIGHT, y + 2 * LINE_HEIGHT]
  const missed = aim !== undefined && !metAim(pair)
  const [ends, mark] = [Math.max(scale(hapax), target === undefined ? 0 : scale(target)), target]
  return [
    text(MARGIN, first - 3, shortened(ours)),
    text(MARGIN, second - 3, shortened(`/ ${theirs}`), 'muted'),
    bar(BARS, first - 13, scale(hapax), 'ours'),
    ...(mark === undefined ? [] : [aimMark(BARS + scale(mark), first - 14)]),
    text(BARS + ends + 6, first - 3, figureText(hapax, unit), 'small'),
    bar(BARS, second - 13, scale(other), 'theirs'),
    text(BARS + scale(other) + 6, second - 3, figureText(other, unit), 'small muted'),
    text(WIDTH - MARGIN, first - 2, ratio.toFixed(2), missed ? 'ratio missed' : 'ratio', 'end'),
    ...(aim === undefined ? [] : [text(WIDTH - MARGIN, second - 2, `aim ${aimText(pair)}`, 'small muted', 'end')]),
  ]
}

function shortened(name: string): string {
  return name.length > MOST_LETTERS ? `${name.slice(0, MOST_LETTERS - 1)}…` : name
}

function bound({ least, most }: NonNullable<Line['aim']>): number {
  return least ?? most ?? 0
}

function text(x: number, y: number, content: string, style = '', anchor = ''): string {
  const extra = `${style && ` class="${style}"`}${anchor && ` text-anchor="${anchor}"`}`
  return `<text x="${x}" y="${y}"${extra}>${escaped(content)}</text>`
}

function bar(x: number, y: number, width: number, style: string): string {
  return `<rect class="${style}" x="${x}" y="${y}" width="${width}" height="12" rx="2"/>`
}

function aimMark(x: number, y: number): string {
  return `<line class="aim" x1="${x}" x2="${x}" y1="${y}" y2="${y + 14}"/>`
}

function rule(y: number): string {
  return `<line class="rule" x1="${MARGIN}" x2="${WIDTH - MARGIN}" y1="${y}" y2="${y}"/>`
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
