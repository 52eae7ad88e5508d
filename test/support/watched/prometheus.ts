import { read } from '../pages.ts'
import { type PrivateServer, privateServer } from '../private-server.ts'

/** A series, with its values over time: one of them for an instant query. */
export interface Answer {
  readonly metric: Readonly<Record<string, string>>
  readonly values: readonly (readonly [seconds: number, value: number])[]
}

/** An alert rule, and how its last evaluation ended: `ok`, `err`, or `unknown` before the first one. */
export interface EvaluatedRule {
  readonly name: string
  readonly query: string
  readonly health: string
  readonly lastError?: string
}

/** A Prometheus of a test's own, and how to ask it. */
export class Prometheus implements AsyncDisposable {
  readonly #server: PrivateServer

  private constructor(server: PrivateServer) {
    this.#server = server
  }

  /** Scrapes these ports of this machine, all as one job, every second, and evaluates the alert rules of the package. */
  static async scraping(ports: readonly number[], path = '/metrics'): Promise<Prometheus> {
    const targets = ports.map((port) => `'127.0.0.1:${port}'`).join(', ')
    const settings = `global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs:
  - job_name: shop
    metrics_path: ${path}
    static_configs: [{ targets: [${targets}] }]
rule_files: [alerts.yaml]
`
    const files = { 'prometheus.yaml': settings, 'alerts.yaml': read('dashboards/alerts.yaml') }
    return new Prometheus(await privateServer('prometheus', { files }))
  }

  /** The alert rules, as far as they were evaluated. */
  async rules(): Promise<readonly EvaluatedRule[]> {
    const reply = await fetch(`${this.#server.url}/api/v1/rules?type=alert`)
    const { data } = (await reply.json()) as { data: { groups: readonly { rules: readonly EvaluatedRule[] }[] } }
    return data.groups.flatMap(({ rules }) => rules)
  }

  /** The present value of each series. */
  async now(query: string): Promise<readonly Answer[]> {
    return await this.#ask('query', { query })
  }

  /** The values of each series between two moments. */
  async between(query: string, start: number, end: number, step: number): Promise<readonly Answer[]> {
    return await this.#ask('query_range', { query, start: String(start), end: String(end), step: String(step) })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]()
  }

  async #ask(path: string, parameters: Record<string, string>): Promise<readonly Answer[]> {
    const reply = await fetch(`${this.#server.url}/api/v1/${path}?${new URLSearchParams(parameters)}`)
    const body = (await reply.json()) as Reply
    if (body.status !== 'success') throw new Error(`Prometheus refused ${parameters['query']}: ${body.error}`)
    return body.data.result.map(({ metric, value, values }) => ({
      metric,
      values: (values ?? (value === undefined ? [] : [value])).map(([at, number]) => [at, numberOf(number)] as const),
    }))
  }
}

interface Reply {
  readonly status: string
  readonly error?: string
  readonly data: {
    readonly result: readonly {
      readonly metric: Record<string, string>
      readonly value?: readonly [number, string]
      readonly values?: readonly (readonly [number, string])[]
    }[]
  }
}

function numberOf(text: string): number {
  return text === '+Inf' ? Number.POSITIVE_INFINITY : Number(text)
}
