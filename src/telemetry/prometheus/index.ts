// `hapax/prometheus`: metrics as text, for everything that scrapes. Needs no other package.

import { able, type Events, expected, flag, noOthers, object, text } from '../../base/index.ts'
import { METRICS, type Metric, measure } from '../metrics/index.ts'
import { ForeignMetric, type PromClientRegistry } from './prom-client.ts'
import { Registry } from './registry.ts'
import { CONTENT_TYPE, type ConstantLabels, type Format, written } from './text.ts'

export type { PromClientRegistry } from './prom-client.ts'

/** Options of `prometheus`. */
export interface PrometheusOptions {
  /**
   * Whether to export the state of the database (what waits, what failed, which workers live), if a worker of this process is the one
   * that samples it. Switch it off where `npx hapax metrics` exports it. @default true
   */
  readonly state?: boolean
  /** Whether to export what this process does. @default true */
  readonly process?: boolean
  /** Labels that every series gets. @default none */
  readonly labels?: Readonly<Record<string, string>>
  /** A registry of prom-client, which then shows the metrics of hapax among its own. @default none */
  readonly registry?: PromClientRegistry
}

/** The metrics of a hapax. */
export interface PrometheusMetrics {
  /** All metrics, in the text format of Prometheus. Reads memory only. */
  text(): string
  /** The content type of `text()`. */
  readonly contentType: string
  /** Serves the metrics: GET and HEAD, as OpenMetrics for those who ask for it. Reads memory only. */
  readonly handler: (request: Request) => Response
  /** Stops counting, and leaves the registry of prom-client. */
  close(): void
}

/** Collects the metrics of a hapax from now on. */
export function prometheus(hapax: { readonly events: Events }, options: PrometheusOptions = {}): PrometheusMetrics {
  noOthers('options of prometheus', options, ['state', 'process', 'labels', 'registry'])
  able('hapax', 'what createHapax returns', hapax?.events, ['on'])
  const constant = labelsOption(options.labels)
  const parts = { state: flag('state', options.state, true), process: flag('process', options.process, true) }
  const registry = new Registry(Object.values(METRICS))
  const foreign = registryOption(options.registry)
  const collect = (): void => measuring.collect()
  // First, because it throws if the registry has such a metric: then nobody would ever stop what listens.
  const leave = foreign === undefined ? () => {} : join(foreign, registry, constant, collect)
  const measuring = measure(hapax.events, registry, parts)
  const render = (format: Format): string => {
    collect()
    return written(registry.families(), format, constant)
  }
  return {
    text: () => render('prometheus'),
    contentType: CONTENT_TYPE.prometheus,
    handler: (request) => answer(request, render),
    close: () => {
      measuring.close()
      leave()
    },
  }
}

function answer({ method, headers }: Request, render: (format: Format) => string): Response {
  if (method !== 'GET' && method !== 'HEAD') {
    return new Response('Only GET and HEAD are allowed.\n', { status: 405, headers: { allow: 'GET, HEAD' } })
  }
  const wanted = headers.get('accept')?.includes('application/openmetrics-text')
  const format = wanted ? 'openmetrics' : 'prometheus'
  const body = method === 'HEAD' ? null : render(format)
  return new Response(body, { headers: { 'content-type': CONTENT_TYPE[format], 'cache-control': 'no-store' } })
}

/** Shows the metrics in a registry of prom-client, all or none. Returns what removes them again. */
function join(
  foreign: PromClientRegistry,
  registry: Registry,
  constant: ConstantLabels,
  collect: () => void,
): () => void {
  const joined: string[] = []
  const leave = (): void => {
    for (const name of joined.splice(0)) foreign.removeSingleMetric(name)
  }
  try {
    for (const metric of Object.values<Metric>(METRICS)) {
      foreign.registerMetric(new ForeignMetric(metric, registry, constant, collect))
      joined.push(metric.name)
    }
  } catch (error) {
    leave()
    throw error
  }
  return leave
}

function registryOption(given: PromClientRegistry | undefined): PromClientRegistry | undefined {
  if (given === undefined) return undefined
  return able('registry', 'a registry of prom-client', given, ['registerMetric', 'removeSingleMetric'])
}

/** Names that metrics of hapax use themselves, or that Prometheus reserves. */
const TAKEN = new Set(['le', ...Object.values<Metric>(METRICS).flatMap(({ labels }) => labels)])

function labelsOption(given: ConstantLabels = {}): ConstantLabels {
  object('labels', given)
  for (const [name, value] of Object.entries(given)) {
    const isFree = /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name) && !name.startsWith('__') && !TAKEN.has(name)
    if (!isFree) expected('a name in labels', 'a name of letters, digits and _ that hapax does not use itself', name)
    text(`labels.${name}`, value)
  }
  return { ...given }
}
