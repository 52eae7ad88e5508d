import { describe, expect, it, test } from 'vitest'
import { boardText } from '../../scripts/dashboard/board.ts'
import { metricNamed } from '../../scripts/dashboard/metrics.ts'
import { METRICS } from '../../src/telemetry/metrics/index.ts'
import { type Board, type BoardPanel, type BoardTarget, panelsOf, parsePromql, readBoard } from '../support/board.ts'
import { read } from '../support/pages.ts'

const board = readBoard()
const panels = panelsOf(board)
const variables = board.templating.list

/** What Prometheus itself adds to every series, and where scrapes usually come from. */
const SCRAPED = ['job', 'instance', 'cluster', 'namespace']

test('dashboards/hapax.json is what its script makes: `npm run dashboard` makes it again', () => {
  expect(read('dashboards/hapax.json')).toBe(boardText())
})

describe('the rules of grafana/dashboard-linter', () => {
  const rules: Readonly<Record<string, (board: Board) => readonly string[]>> = {
    'template-datasource-rule': () => {
      const sources = variables.filter(({ type }) => type === 'datasource')
      const [source] = sources
      const right = source?.name === 'datasource' && source.label === 'Data source' && source.query === 'prometheus'
      return sources.length === 1 && right ? [] : ['the variable of the data source']
    },
    'template-job-rule': () => templateProblems('job'),
    'template-instance-rule': () => templateProblems('instance'),
    'template-label-promql-rule': () =>
      variables
        .filter(({ type }) => type === 'query')
        .map(({ query }) => /^label_values\((.+), \w+\)$/.exec(query)?.[1] ?? '')
        .filter((series) => parsePromql(series).selectors.length !== 1),
    'template-on-time-change-reload-rule': () =>
      namesOf(variables.filter((each) => each.type === 'query' && each.refresh !== 2)),
    'panel-datasource-rule': () => titlesOf(panels.filter(({ datasource }) => datasource?.uid !== '$datasource')),
    'panel-title-description-rule': () => titlesOf(panels.filter(({ title, description }) => !title || !description)),
    'panel-units-rule': () => titlesOf(panels.filter((panel) => !UNITS.includes(unitOf(panel) ?? ''))),
    'panel-no-targets-rule': () => titlesOf(panels.filter(({ targets }) => (targets ?? []).length === 0)),
    // There is no Loki on the board.
    'target-logql-rule': () => titlesOf(panels.filter(({ datasource }) => datasource?.type !== 'prometheus')),
    'target-logql-auto-rule': () => titlesOf(panels.filter(({ datasource }) => datasource?.type !== 'prometheus')),
    'target-promql-rule': () => targetProblems(({ expr }) => parsePromql(expr).selectors.length > 0),
    'target-rate-interval-rule': () =>
      selectorProblems(({ call, range }) => call === undefined || !/^i?rate$/.test(call) || range === '4m'),
    'target-job-rule': () => selectorProblems(({ matchers }) => matchers['job'] === '$job'),
    // What the database contains is reported by one process for all: a choice of instances must not hide it. dashboards/.lint says so too.
    'target-instance-rule': () =>
      selectorProblems(
        ({ metric, matchers }) => matchers['instance'] === (metricNamed(metric).state ? undefined : '$instance'),
      ),
    'target-counter-agg-rule': () =>
      selectorProblems(({ metric, call }) => !metric.endsWith('_total') || /^(?:i?rate|increase)$/.test(call ?? '')),
    'uneditable-dashboard': ({ editable }) => (editable ? ['the board'] : []),
  }

  it('are all here', () => {
    expect(Object.keys(rules)).toHaveLength(17)
  })

  test.for(Object.entries(rules))('%s', ([, rule]) => {
    expect(rule(board)).toEqual([])
  })
})

describe('the board', () => {
  it('asks only for metrics and labels that exist', () => {
    const wrong = targets().flatMap(({ expr }) => unknownIn(expr))
    expect(wrong).toEqual([])
  })

  it('shows every metric', () => {
    const shown = new Set(
      targets().flatMap(({ expr }) => parsePromql(expr).selectors.map(({ metric }) => metricNamed(metric).name)),
    )
    const missing = Object.values(METRICS).filter(({ name }) => !shown.has(name))
    expect(missing.map(({ name }) => name)).toEqual([])
  })

  it('never adds up what several processes may report about one database', () => {
    const summed = targets()
      .map(({ expr }) => expr)
      .filter((expr) => /(?:sum|avg|count)(?: by \([^)]*\))? \((hapax_\w+)/.test(expr))
      .filter((expr) => metricNamed(/(?:sum|avg|count)(?: by \([^)]*\))? \((hapax_\w+)/.exec(expr)?.[1] ?? '').state)
    expect(summed).toEqual([])
  })

  it('says what is shown where nothing is known', () => {
    expect(
      titlesOf(panels.filter((panel) => panel.type !== 'heatmap' && !panel.fieldConfig?.defaults.noValue)),
    ).toEqual([])
  })

  it('has panels with ids and places of their own, within 24 columns', () => {
    expect(new Set(board.panels.map(({ id }) => id)).size).toBe(board.panels.length)
    expect(titlesOf(board.panels.filter(({ gridPos: { x, w } }) => x + w > 24))).toEqual([])
    const overlapping = board.panels.filter((a) =>
      board.panels.some((b) => a.id < b.id && overlap(a.gridPos, b.gridPos)),
    )
    expect(titlesOf(overlapping)).toEqual([])
  })

  it('marks alerts, by a query that parses', () => {
    expect(board.annotations.list.map(({ expr }) => parsePromql(expr).selectors.map(({ metric }) => metric))).toEqual([
      ['ALERTS'],
    ])
  })
})

/** Grafana's ids of units, those that the board uses. */
const UNITS = ['short', 's', 'ops', 'percentunit', 'dtdurations', 'none']

function unitOf({ fieldConfig, options }: BoardPanel): string | undefined {
  return fieldConfig?.defaults.unit ?? options?.yAxis?.unit
}

function templateProblems(name: string): readonly string[] {
  const found = variables.find((variable) => variable.name === name)
  const label = name.charAt(0).toUpperCase() + name.slice(1)
  const right =
    found?.type === 'query' &&
    found.datasource?.uid === '$datasource' &&
    found.label === label &&
    found.multi &&
    found.allValue === '.+'
  return right ? [] : [name]
}

function targets(): readonly BoardTarget[] {
  return panels.flatMap((panel) => panel.targets ?? [])
}

function targetProblems(isRight: (target: BoardTarget) => boolean): readonly string[] {
  return targets()
    .filter((target) => !isRight(target))
    .map(({ expr }) => expr)
}

function selectorProblems(isRight: (selector: ReturnType<typeof parsePromql>['selectors'][number]) => boolean) {
  return targetProblems(({ expr }) => parsePromql(expr).selectors.every(isRight))
}

/** Metrics that do not exist, and labels that none of a query's metrics has. */
function unknownIn(expr: string): readonly string[] {
  const { selectors, labels } = parsePromql(expr)
  const known = new Set([...SCRAPED, 'le', ...selectors.flatMap(({ metric }) => metricNamed(metric).labels)])
  const matched = selectors.flatMap(({ metric, matchers }) =>
    Object.keys(matchers).filter((label) => ![...SCRAPED, ...metricNamed(metric).labels].includes(label)),
  )
  return [...matched, ...labels.filter((label) => !known.has(label))].map((label) => `${label} in ${expr}`)
}

function overlap(a: BoardPanel['gridPos'], b: BoardPanel['gridPos']): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
}

function titlesOf(some: readonly BoardPanel[]): readonly string[] {
  return some.map(({ title }) => title)
}

function namesOf(some: readonly { readonly name: string }[]): readonly string[] {
  return some.map(({ name }) => name)
}
