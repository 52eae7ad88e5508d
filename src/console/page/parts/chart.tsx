import { useEffect, useRef } from 'preact/hooks'
import type uPlot from 'uplot'
import { compact } from '../state/format.ts'
import { colours } from '../state/theme.ts'

/** A line of a chart. */
interface Line {
  readonly label: string
  readonly values: readonly (number | null)[]
  /** The name of a colour of the style sheet: `bad`, `warn`, `accent`. */
  readonly tone: string
}

interface ChartProps {
  readonly title: string
  readonly minutes: readonly number[]
  readonly lines: readonly Line[]
  readonly format?: (value: number) => string
}

const HEIGHT = 110

/** A small chart of the last hour, with its numbers in words. */
export function Chart({ title, minutes, lines, format = compact }: ChartProps) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const version = colours.value
  const shape = lines.map(({ label, tone }) => `${label} ${tone}`).join()
  useEffect(() => {
    const element = place.current
    if (element === null) return
    let over = false
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }))
    // Two fifths of the script are for drawing: other pages do not wait for it.
    void import('uplot').then(({ default: Plot }) => {
      if (over) return
      plot.current = new Plot(settings(element, lines, format), aligned(minutes, lines), element)
      observer.observe(element)
    })
    return () => {
      over = true
      observer.disconnect()
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [version, shape])
  useEffect(() => {
    plot.current?.setData(aligned(minutes, lines))
  }, [minutes, lines])
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="hidden">{lines.map((line) => described(line, format)).join(' ')}</span>
        <span class="legend" aria-hidden="true">
          {lines.map(({ label, tone, values }) => (
            <span key={label} class={`key-${tone}`}>
              {label} <b>{latest(values, format)}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={place} class="plot" aria-hidden="true" />
    </figure>
  )
}

function latest(values: readonly (number | null)[], format: (value: number) => string): string {
  const last = values.findLast((value) => value !== null)
  return last === undefined || last === null ? '–' : format(last)
}

function described({ label, values }: Line, format: (value: number) => string): string {
  const known = values.filter((value) => value !== null)
  if (known.length === 0) return `${label}: nothing was sampled in the last hour.`
  return `${label}: ${latest(values, format)} in the last minute, at most ${format(Math.max(...known))} in the last hour.`
}

function aligned(minutes: readonly number[], lines: readonly Line[]): uPlot.AlignedData {
  return [[...minutes], ...lines.map(({ values }) => [...values])]
}

function settings(element: HTMLElement, lines: readonly Line[], format: (value: number) => string): uPlot.Options {
  const style = getComputedStyle(element)
  const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim()
  const axis = { stroke: colour('dim'), font: '11px system-ui, sans-serif', ticks: { show: false } }
  return {
    width: element.clientWidth || 300,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 5 } },
    padding: [8, 6, 0, 0],
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 22, space: 60, values: (_, ticks) => ticks.map(minuteText) },
      {
        ...axis,
        grid: { stroke: colour('line'), width: 1 },
        size: 46,
        space: 30,
        values: (_, ticks) => ticks.map((tick) => format(tick)),
      },
    ],
    series: [
      {},
      ...lines.map(({ label, tone }) => ({
        label,
        stroke: colour(tone),
        width: 1.5,
        points: { show: false },
        ...(lines.length === 1 ? { fill: colour(`${tone}-soft`) } : {}),
      })),
    ],
  }
}

function minuteText(seconds: number): string {
  const at = new Date(seconds * 1_000)
  return `${String(at.getHours()).padStart(2, '0')}:${String(at.getMinutes()).padStart(2, '0')}`
}

/** A line without axes, for a row of a table. */
export function Spark({ values, tone, label }: { values: readonly (number | null)[]; tone: string; label: string }) {
  const most = Math.max(1, ...values.map((value) => value ?? 0))
  const step = 100 / Math.max(1, values.length - 1)
  const points = values.flatMap((value, index) =>
    value === null ? [] : [`${(index * step).toFixed(1)},${(22 - (value / most) * 20).toFixed(1)}`],
  )
  return (
    <svg class={`spark spark-${tone}`} viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label}>
      <polyline points={points.join(' ')} />
    </svg>
  )
}
