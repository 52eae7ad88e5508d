import { datasource, type Panel } from './grafana.ts'
import { overview } from './overview.ts'
import { consumers, effects, health, relays, requests, retention } from './parts.ts'

const COLUMNS = 24

const rows: readonly (readonly [title: string, panels: readonly Panel[]])[] = [
  ['Overview', overview],
  ['Consumers', consumers],
  ['Relays', relays],
  ['HTTP requests', requests],
  ['Effects and commits', effects],
  ['Retention', retention],
  ['Health', health],
]

/** The whole dashboard, as Grafana 11 and later import it. */
function board(): Record<string, unknown> {
  return {
    uid: 'hapax',
    title: 'hapax',
    description:
      'Inbox, outbox and workers of hapax: what waits, for how long, what failed, and what was blocked as a duplicate.',
    tags: ['hapax', 'messaging'],
    editable: false,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    timezone: 'browser',
    schemaVersion: 39,
    version: 1,
    annotations: { list: [alerts] },
    templating: { list: variables },
    panels: laidOut(),
  }
}

/** The file: the same bytes for the same board. */
export function boardText(): string {
  return `${JSON.stringify(board(), null, 2)}\n`
}

const alerts = {
  name: 'Alerts',
  datasource,
  enable: true,
  expr: 'ALERTS{library="hapax", alertstate="firing", job=~"$job"}',
  iconColor: 'red',
  step: '60s',
  titleFormat: '{{alertname}}',
  textFormat: '{{consumer}}{{relay}}{{scope}}',
}

const variables = [
  {
    type: 'datasource',
    name: 'datasource',
    label: 'Data source',
    query: 'prometheus',
    current: {},
    hide: 0,
    includeAll: false,
    multi: false,
    refresh: 1,
    regex: '',
  },
  variable('job', 'hapax_build_info'),
  variable('instance', 'hapax_build_info{job=~"$job"}'),
  variable('consumer', '{__name__=~"hapax_consumer_workers|hapax_messages_total", job=~"$job"}'),
  variable('relay', '{__name__=~"hapax_relay_workers|hapax_relayed_total", job=~"$job"}'),
]

function variable(name: string, series: string): Record<string, unknown> {
  const query = `label_values(${series}, ${name})`
  return {
    type: 'query',
    name,
    label: `${name.charAt(0).toUpperCase()}${name.slice(1)}`,
    datasource,
    definition: query,
    query,
    current: { selected: true, text: ['All'], value: ['$__all'] },
    hide: 0,
    includeAll: true,
    allValue: '.+',
    multi: true,
    // Whenever the range changes: consumers come and go.
    refresh: 2,
    regex: '',
    sort: 1,
  }
}

/** Panels from left to right, in lines of 24 columns; each row has its heading. */
function laidOut(): unknown[] {
  const placed: unknown[] = []
  let y = 0
  for (const [title, panels] of rows) {
    placed.push({
      id: placed.length + 1,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: COLUMNS, h: 1 },
      panels: [],
    })
    y += 1
    let [x, height] = [0, 0]
    for (const { width, height: h, ...panel } of panels) {
      if (x + width > COLUMNS) [x, y] = [0, y + height]
      if (x === 0) height = h
      placed.push({ id: placed.length + 1, ...panel, gridPos: { x, y, w: width, h } })
      x += width
    }
    y += height
  }
  return placed
}
