// The part of Grafana's dashboard format that the board needs, as plain objects.

/** How a panel shows its numbers; Grafana's ids. */
type Unit = 'short' | 's' | 'ops' | 'percentunit' | 'bool_yes_no' | 'dtdurations' | 'none'

interface Query {
  readonly expr: string
  readonly legend: string
}

interface Step {
  /** Null: from the bottom. */
  readonly value: number | null
  readonly color: string
}

/** What every panel is made of; the builders below add what its type needs. */
export interface Sketch {
  readonly title: string
  readonly description: string
  readonly unit: Unit
  readonly queries: readonly Query[]
  /** Of 24 columns. */
  readonly width: number
  /** From which value on a number is a warning, and from which on it is bad. @default never */
  readonly limits?: { readonly warn?: number; readonly bad: number } | undefined
  readonly decimals?: number
  /** What is shown where nothing is known. @default 'no data' */
  readonly noValue?: string
}

export interface Panel {
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly datasource?: unknown
  readonly targets?: readonly Target[]
  readonly width: number
  readonly height: number
  readonly [more: string]: unknown
}

interface Target {
  readonly refId: string
  readonly expr: string
  readonly legendFormat: string
  readonly [more: string]: unknown
}

/** The variable, so that the board fits any Grafana. */
export const datasource = { type: 'prometheus', uid: '$datasource' } as const

/** One large number, or a few. */
export function stat(sketch: Sketch, more: { readonly graph?: boolean; readonly mappings?: unknown[] } = {}): Panel {
  const { noValue = 'no data' } = sketch
  return {
    ...frame('stat', sketch, 4),
    fieldConfig: {
      defaults: { ...fields(sketch), noValue, mappings: more.mappings ?? [], color: { mode: 'thresholds' } },
      overrides: [],
    },
    options: {
      colorMode: 'value',
      graphMode: more.graph === false ? 'none' : 'area',
      justifyMode: 'auto',
      orientation: 'auto',
      textMode: sketch.queries.length > 1 ? 'value_and_name' : 'auto',
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
    },
  }
}

/** Lines over time. */
export function lines(sketch: Sketch, more: { readonly stacked?: boolean } = {}): Panel {
  const { noValue = 'no data', limits } = sketch
  return {
    ...frame('timeseries', sketch, 8),
    fieldConfig: {
      defaults: {
        ...fields(sketch),
        noValue,
        min: 0,
        color: { mode: 'palette-classic' },
        custom: {
          drawStyle: 'line',
          lineWidth: 1,
          fillOpacity: more.stacked ? 30 : 8,
          showPoints: 'never',
          // A process that was not scraped leaves a gap: a line through it would claim what nobody has seen.
          spanNulls: false,
          stacking: { mode: more.stacked ? 'normal' : 'none', group: 'A' },
          thresholdsStyle: { mode: limits === undefined ? 'off' : 'dashed' },
        },
      },
      overrides: [],
    },
    options: {
      legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
  }
}

/** The buckets of a histogram over time; the query sums them by `le`. */
export function heatmap(sketch: Sketch): Panel {
  const panel = frame('heatmap', sketch, 8)
  return {
    ...panel,
    targets: panel.targets.map((target) => ({ ...target, format: 'heatmap' })),
    fieldConfig: { defaults: { custom: { scaleDistribution: { type: 'linear' } } }, overrides: [] },
    options: {
      calculate: false,
      cellGap: 1,
      color: { mode: 'scheme', scheme: 'Oranges', steps: 64, exponent: 0.5, fill: 'dark-orange', scale: 'exponential' },
      filterValues: { le: 1e-9 },
      legend: { show: true },
      rowsFrame: { layout: 'auto' },
      tooltip: { mode: 'single', yHistogram: false },
      yAxis: { axisPlacement: 'left', unit: sketch.unit, reverse: false },
    },
  }
}

/** What state something was in, over time. */
export function timeline(
  sketch: Sketch,
  states: readonly (readonly [value: number, text: string, color: string])[],
): Panel {
  const options = Object.fromEntries(states.map(([value, text, color], index) => [value, { text, color, index }]))
  return {
    ...frame('state-timeline', sketch, 8),
    fieldConfig: {
      defaults: {
        ...fields(sketch),
        noValue: sketch.noValue ?? 'no data',
        mappings: [{ type: 'value', options }],
        color: { mode: 'thresholds' },
        custom: { fillOpacity: 70, lineWidth: 0 },
      },
      overrides: [],
    },
    options: {
      mergeValues: true,
      showValue: 'auto',
      alignValue: 'left',
      rowHeight: 0.9,
      legend: { displayMode: 'list', placement: 'bottom', showLegend: false },
      tooltip: { mode: 'single', sort: 'none' },
    },
  }
}

/** A row per value of `by`, with a column per query, named by its legend. */
export function table(sketch: Sketch, by: string, more: { readonly mappings?: unknown[] } = {}): Panel {
  const panel = frame('table', sketch, 8)
  const columns = panel.targets.map(({ refId, legendFormat }) => [`Value #${refId}`, legendFormat])
  return {
    ...panel,
    targets: panel.targets.map((target) => ({ ...target, format: 'table', instant: true, range: false })),
    fieldConfig: {
      defaults: {
        ...fields(sketch),
        noValue: sketch.noValue ?? '–',
        mappings: more.mappings ?? [],
        custom: { align: 'auto', cellOptions: { type: 'auto' }, filterable: false },
      },
      overrides: [],
    },
    options: { showHeader: true, cellHeight: 'sm', sortBy: [{ displayName: by, desc: false }] },
    transformations: [
      { id: 'merge', options: {} },
      { id: 'organize', options: { excludeByName: { Time: true }, renameByName: Object.fromEntries(columns) } },
    ],
  }
}

function frame(
  type: string,
  { title, description, queries, width }: Sketch,
  height: number,
): Panel & { readonly targets: readonly Target[] } {
  const targets = queries.map(({ expr, legend }, index) => {
    // A number for the whole range is asked for once, not at every step.
    const instant = expr.includes('$__range')
    const refId = String.fromCharCode('A'.charCodeAt(0) + index)
    return { refId, datasource, expr, legendFormat: legend, editorMode: 'code', instant, range: !instant }
  })
  return { type, title, description, datasource, targets, width, height }
}

function fields({ unit, limits, decimals }: Sketch): Record<string, unknown> {
  const steps: Step[] = [{ value: null, color: 'green' }]
  if (limits?.warn !== undefined) steps.push({ value: limits.warn, color: 'orange' })
  if (limits !== undefined) steps.push({ value: limits.bad, color: 'red' })
  return { unit, ...(decimals !== undefined && { decimals }), thresholds: { mode: 'absolute', steps } }
}
