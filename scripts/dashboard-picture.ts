// Draws the board with the data of a real run: `npm run services -- npm run dashboard:picture`. It is a rendering of our own, not a
// screenshot of Grafana: three processes, PostgreSQL, NATS and Prometheus run for a few minutes while things go wrong.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { asSent, type BoardPanel, type BoardTarget, readBoard } from '../test/support/board.ts'
import type { Prometheus } from '../test/support/watched/prometheus.ts'
import { openShop, type Shop } from '../test/support/watched/shop.ts'
import { type Drawn, type Line, panel, STYLE, text } from './picture/draw.ts'

const COLUMN = 52
const UNIT = 26
const GAP = 6
const HEAD = 40
const SECONDS = 240
const POINTS = 120
/** The rows that the picture shows: all of them would be twice as tall. */
const ROWS = ['Overview', 'Consumers', 'Relays']

const file = join(import.meta.dirname, '..', 'docs', 'observability.svg')

await using shop = await openShop({ everyMs: 200, cleanupMs: 5_000 }, (SECONDS + 120) * 1_000)
await happen(shop)
const to = Date.now() / 1_000
writeFileSync(file, await drawn(shop.prometheus, to - SECONDS + 20, to))

/** A few minutes of a shop. */
async function happen({ analyze, breakCommits, brokerAway, databaseAway, standStill, kill }: Shop): Promise<void> {
  const began = Date.now()
  const at = (seconds: number): Promise<void> => delay(Math.max(0, began + seconds * 1_000 - Date.now()))
  await at(50)
  await breakCommits(6)
  await analyze()
  await at(80)
  await brokerAway(25_000)
  await at(140)
  await standStill(4_000)
  await analyze()
  await at(165)
  await databaseAway(8_000)
  await at(195)
  kill()
  await analyze()
  await at(SECONDS)
}

async function drawn(prometheus: Prometheus, from: number, to: number): Promise<string> {
  const panels = shownPanels()
  const top = panels[0]?.gridPos.y ?? 0
  const width = 24 * COLUMN + GAP
  const height = HEAD + (Math.max(...panels.map(({ gridPos: { y, h } }) => y + h)) - top) * UNIT + GAP
  const shapes: string[] = []
  for (const each of panels) {
    const { x, y, w, h } = each.gridPos
    const box = { x: x * COLUMN + GAP, y: HEAD + (y - top) * UNIT, w: w * COLUMN - GAP, h: h * UNIT - GAP }
    if (each.type === 'row') shapes.push(text(box.x + 4, box.y + 15, `⌄ ${each.title}`, 'row'))
    else shapes.push(panel(await filled(prometheus, each, from, to), box, from, to))
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="The dashboard of hapax">`,
    `<style>${STYLE}</style>`,
    `<rect width="${width}" height="${height}" fill="#111217"/>`,
    text(GAP + 4, 25, 'hapax', 'row'),
    ...['Job  All', 'Instance  All', 'Consumer  All', 'Relay  All'].map((words, index) =>
      text(90 + index * 120, 25, `${words} ⌄`, 'small'),
    ),
    ...shapes,
    '</svg>\n',
  ].join('\n')
}

function shownPanels(): readonly BoardPanel[] {
  let isShown = false
  return readBoard().panels.filter(({ type, title }) => {
    if (type === 'row') isShown = ROWS.includes(title)
    return isShown
  })
}

async function filled(prometheus: Prometheus, each: BoardPanel, from: number, to: number): Promise<Drawn> {
  const defaults = each.fieldConfig?.defaults
  const lines: Line[] = []
  for (const target of each.targets ?? []) lines.push(...(await answered(prometheus, each, target, from, to)))
  return {
    type: each.type,
    title: each.title,
    unit: defaults?.unit,
    decimals: defaults?.decimals,
    stacked: defaults?.custom?.stacking?.mode === 'normal',
    steps: defaults?.thresholds?.steps ?? [],
    words: Object.assign(
      {},
      ...(defaults?.mappings ?? []).map(({ type, options }) => (type === 'value' ? options : {})),
    ),
    noValue: defaults?.noValue ?? 'no data',
    lines,
  }
}

async function answered(
  prometheus: Prometheus,
  { type }: BoardPanel,
  { expr, legendFormat }: BoardTarget,
  from: number,
  to: number,
): Promise<readonly Line[]> {
  const query = asSent(expr, { rateInterval: '10s', range: `${SECONDS}s` })
  const step = (to - from) / (type === 'heatmap' ? POINTS / 2 : POINTS)
  const answers = await prometheus.between(query, from, to, step)
  return answers.map(({ metric, values }) => ({
    name: nameOf(type === 'table' ? `{{consumer}}|${legendFormat}` : legendFormat, metric),
    points: values.filter(([, value]) => !Number.isNaN(value)),
  }))
}

function nameOf(format: string, metric: Readonly<Record<string, string>>): string {
  return format.replaceAll(/\{\{(\w+)\}\}/g, (_, label) => metric[label] ?? '')
}
