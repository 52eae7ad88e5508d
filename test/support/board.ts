import { parser } from '@prometheus-io/lezer-promql'
import { read } from './pages.ts'

/** What tests read of dashboards/hapax.json. */
export interface Board {
  readonly title: string
  readonly editable: boolean
  readonly panels: readonly BoardPanel[]
  readonly templating: { readonly list: readonly Variable[] }
  readonly annotations: { readonly list: readonly { readonly expr: string }[] }
}

export interface BoardPanel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly datasource?: { readonly type: string; readonly uid: string }
  readonly targets?: readonly BoardTarget[]
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly fieldConfig?: { readonly defaults: BoardFields }
  readonly options?: { readonly yAxis?: { readonly unit?: string } }
}

interface BoardFields {
  readonly unit?: string
  readonly noValue?: string
  readonly decimals?: number
  readonly thresholds?: { readonly steps: readonly { readonly value: number | null; readonly color: string }[] }
  readonly mappings?: readonly {
    readonly type: string
    readonly options: Readonly<Record<string, { text: string; color?: string }>>
  }[]
  readonly custom?: { readonly stacking?: { readonly mode: string } }
}

export interface BoardTarget {
  readonly expr: string
  readonly legendFormat: string
  readonly instant?: boolean
  readonly datasource: { readonly uid: string }
}

interface Variable {
  readonly type: string
  readonly name: string
  readonly label: string
  readonly query: string
  readonly datasource?: { readonly uid: string }
  readonly multi: boolean
  readonly allValue?: string
  readonly refresh: number
}

export function readBoard(): Board {
  return JSON.parse(read('dashboards/hapax.json'))
}

/** The panels that show numbers, without the headings of rows. */
export function panelsOf({ panels }: Board): readonly BoardPanel[] {
  return panels.filter(({ type }) => type !== 'row')
}

/** A query as Grafana sends it: with `All` for each variable. */
export function asSent(expr: string, { rateInterval, range }: { rateInterval: string; range: string }): string {
  return expr
    .replaceAll('$__rate_interval', rateInterval)
    .replaceAll('$__range', range)
    .replaceAll(/\$(?:job|instance|consumer|relay)\b/g, '.+')
}

/** One selection of series in a query, with the function and the range around it. */
interface Selector {
  readonly metric: string
  /** As it is written, with its matchers and without a range. */
  readonly selector: string
  readonly matchers: Readonly<Record<string, string>>
  readonly call: string | undefined
  readonly range: string | undefined
}

interface Parsed {
  readonly selectors: readonly Selector[]
  /** The labels of `by` and `on`. */
  readonly labels: readonly string[]
}

/** Takes a query of PromQL apart. Throws where it is none. */
export function parsePromql(expr: string): Parsed {
  // Variables of Grafana inside a range; those inside strings are no concern of the grammar.
  const text = expr.replaceAll('$__rate_interval', '4m').replaceAll('$__range', '1h')
  const selectors: Selector[] = []
  const labels: string[] = []
  parser.parse(text).iterate({
    enter: (node) => {
      const words = text.slice(node.from, node.to)
      if (node.type.isError) throw new Error(`no PromQL at ${node.from} ('${words}'): ${expr}`)
      if (node.name === 'GroupingLabels')
        labels.push(
          ...words
            .slice(1, -1)
            .split(',')
            .map((label) => label.trim()),
        )
      if (node.name !== 'VectorSelector') return
      const around = node.node.parent
      const matrix = around?.name === 'MatrixSelector' ? around : undefined
      const call = matrix?.parent?.name === 'FunctionCallBody' ? (matrix.parent.parent ?? undefined) : undefined
      selectors.push({
        selector: words,
        metric: /^[a-z_:]*/i.exec(words)?.[0] ?? '',
        matchers: Object.fromEntries(
          [...words.matchAll(/(\w+)\s*=~?\s*"([^"]*)"/g)].map(([, name, value]) => [name, value]),
        ),
        call: call && text.slice(call.from, call.firstChild?.to),
        range: matrix && /\[(.*)\]$/.exec(text.slice(matrix.from, matrix.to))?.[1],
      })
    },
  })
  return { selectors, labels: labels.filter((label) => label !== '') }
}
