import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { parse } from 'yaml'
import { asSent, panelsOf, parsePromql, readBoard } from '../support/board.ts'
import { read } from '../support/pages.ts'
import { noPrivateServer } from '../support/private-server.ts'
import { promtool } from '../support/promtool.ts'
import { neededServers } from '../support/servers.ts'
import type { Answer } from '../support/watched/prometheus.ts'
import { openShop, type Shop } from '../support/watched/shop.ts'

const needed = neededServers()
const isMissing =
  noPrivateServer('prometheus') !== undefined || !needed.includes('postgres') || !needed.includes('nats')
/** Generous: three processes and a Prometheus, beside other tests. */
const DEADLINE_MS = 240_000

/** The exporters of a process: the registry of hapax, and OpenTelemetry's exporter with the same numbers. */
const EXPORTERS = ['prometheus', 'opentelemetry'] as const

describe.skipIf(isMissing)('a shop that Prometheus scrapes', () => {
  let shop: Shop
  let began: number

  beforeAll(async () => {
    // The processes have to outlive the set-up: tests scrape them afterwards.
    shop = await openShop({ everyMs: 150, cleanupMs: 2_000 }, 3 * DEADLINE_MS)
    began = Date.now() / 1_000
    await until('count(hapax_state_age_seconds) > 0 and count(up == 1) == 3', async () => {})
    // It may be the one that reads the state; another one does at its next turn, in 15 seconds at most.
    shop.kill()
    // Rates, because a counter that Prometheus has never seen before moves only with its second count.
    await until('rate(hapax_commit_unknown_total[1m]) > 0', () => shop.breakCommits(2))
    await until('rate(hapax_lease_lost_total[1m]) > 0', () => shop.standStill(3_000))
    // A relay may be down and up again between two scrapes: then nothing has shown it as down.
    const failures = 'rate(hapax_relay_failures_total{kind="down"}[1m]) > 0'
    await until(`${failures} and on () min_over_time(hapax_relay_up[5m]) == 0`, () => shop.brokerAway(2_000))
    const rejected = 'sum(rate(hapax_messages_total{outcome="unavailable"}[1m])) > 0'
    await until(`rate(hapax_worker_errors_total[1m]) > 0 and on () ${rejected}`, () => shop.databaseAway(2_000))
    await shop.analyze()
  }, DEADLINE_MS)

  afterAll(async () => {
    await shop?.[Symbol.asyncDispose]()
  })

  /** Does it again until both instances of Prometheus have seen it; in between, everything runs for a moment. */
  async function until(query: string, act: () => Promise<void>): Promise<void> {
    const isSeen = async (): Promise<boolean> => {
      const answers = await Promise.all(EXPORTERS.map((exporter) => shop[exporter].now(query)))
      return answers.every(({ length }) => length > 0)
    }
    for (;;) {
      await act()
      for (let looks = 0; looks < 20; looks++) {
        if (await isSeen()) return
        await delay(250)
      }
    }
  }

  it('shows metrics that promtool finds nothing wrong with', async () => {
    // The last one was killed.
    for (const port of shop.ports.slice(0, 2)) {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      expect(text).toContain('hapax_build_info{')
      expect(await promtool(['check', 'metrics'], text)).toEqual({ code: 0, said: '' })
    }
  })

  const targets = panelsOf(readBoard()).flatMap(({ title, targets = [] }) =>
    targets.flatMap(({ expr, legendFormat }) =>
      EXPORTERS.map((exporter) => ({ exporter, title, legend: legendFormat, expr })),
    ),
  )

  test.for(targets)(
    '$exporter: $title ($legend) has data',
    { timeout: DEADLINE_MS },
    async ({ exporter, title, expr }) => {
      const query = asSent(expr, { rateInterval: '10s', range: '5m' })
      const least = MOVED.includes(title) ? 1e-9 : Number.NEGATIVE_INFINITY
      const values = async (): Promise<readonly number[]> =>
        numbersIn(await shop[exporter].between(query, began, Date.now() / 1_000, 0.5)).filter((value) => value >= least)
      await expect.poll(values, { timeout: 120_000, interval: 500 }).not.toEqual([])
    },
  )

  const alerts = alertsIn(read('dashboards/alerts.yaml')).flatMap((alert) =>
    EXPORTERS.map((exporter) => ({ exporter, ...alert })),
  )

  test.for(alerts)(
    '$exporter: every series that $alert ($severity) reads exists',
    { timeout: DEADLINE_MS },
    async ({ exporter, expr }) => {
      for (const { metric, selector } of parsePromql(expr).selectors) {
        // Users may record it.
        if (metric === 'hapax:threshold') continue
        const series = async (): Promise<number> =>
          (await shop[exporter].now(`last_over_time(${selector}[10m])`)).length
        await expect.poll(series, { timeout: 120_000, interval: 500, message: selector }).toBeGreaterThan(0)
      }
    },
  )

  // Such as two series that match on one side where only one may.
  test.for(EXPORTERS)('%s: Prometheus evaluates all alerts without an error', async (exporter) => {
    const ok = alerts.filter((alert) => alert.exporter === exporter).map(({ alert }) => ({ name: alert, health: 'ok' }))
    const evaluated = async (): Promise<unknown> =>
      (await shop[exporter].rules()).map(({ name, health, lastError }) => ({
        name,
        health,
        ...(lastError && { lastError }),
      }))
    await expect.poll(evaluated, { timeout: 120_000, interval: 500 }).toEqual(ok)
  })

  test.for(alerts)(
    '$exporter: $alert ($severity) fires for what happened, once its thresholds are eased',
    { timeout: DEADLINE_MS },
    async ({ exporter, alert, severity, expr }) => {
      const query = eased(expr, EASED[`${alert} ${severity}`])
      const seen = async (): Promise<number> =>
        (await shop[exporter].between(query, began, Date.now() / 1_000, 0.5)).length
      await expect.poll(seen, { timeout: 120_000, interval: 500, message: query }).toBeGreaterThan(0)
    },
  )

  test.for(EXPORTERS)('%s: StateStale does not fire while the state is reported', async (exporter) => {
    const stale = alerts.find(({ alert }) => alert === 'StateStale')
    expect(stale).toBeDefined()
    await expect.poll(() => shop[exporter].now(stale?.expr ?? ''), { timeout: 60_000, interval: 500 }).toEqual([])
  })

  it('has panels with these titles', () => {
    const titles = targets.map(({ title }) => title)
    expect(MOVED.filter((title) => !titles.includes(title))).toEqual([])
  })
})

/** Panels that must show more than zero, at least for a moment: the run makes all of this happen. */
const MOVED: readonly string[] = [
  'Workers',
  'Waiting',
  'Oldest',
  'Processed',
  'Duplicates blocked',
  'Failed',
  'Held keys',
  'Effects unknown',
  'Relays down',
  'Messages by outcome',
  'What waits',
  'Retries and failures',
  'Rejected deliveries, share',
  'Attempts, p99',
  'Duplicates and mismatches',
  'Lag, all messages',
  'Published and relayed',
  'Messages in the outbox',
  'Failures of relays',
  'Requests by outcome',
  'External calls by state',
  'Unknown commits by resolution',
  'Leases lost',
  'Deduplication horizon',
  'Receipts',
  'Deleted by the cleanup',
  'Workers by state',
  'Errors of workers',
]

/** The run lasts minutes and makes each mistake a few times: what an alert waits for, and how much less is enough here. */
const EASED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'OutboxStuck page': { '> 300': '> 0', '[5m])) > 0': '[5m])) > 1e9' },
  'OutboxStuck ticket': { '> 1800': '> 0' },
  'NoWorker page': { '== 0': '>= 0' },
  'HeldKeys ticket': {},
  'FailedGrowing ticket': {},
  'FailedGrowing page': { '> 0.05': '> 0', '> 10': '> 0' },
  'EffectUnknown ticket': {},
  'DuplicateSurge ticket': { 'vector(0.5)': 'vector(0)', '> 100': '> 0' },
  'DeliveriesRejected ticket': { 'vector(0.01)': 'vector(0)', '> 10': '> 0' },
  'RetryStorm page': { '> 50': '> 0', 'unless on (cluster, namespace, job, consumer)': '$& 0 *' },
  'RelayDown page': { '== 0': '>= 0' },
  'RelayDown ticket': {},
  'LagHigh ticket': { '> 60': '> 0' },
  'LagHigh page': { '> 900': '> 0', '[15m])) > 0': '[15m])) > 1e9' },
  'CommitUnknown ticket': { '>= 5': '>= 1' },
  'HorizonTooShort ticket': { '< max': '> 0 * max' },
  'CleanupBehind ticket': { '> 1.25 *': '> 0 *', '+ 7200': '+ 0' },
  'StateStale page': { '> 120': '>= 0' },
}

function eased(expr: string, changes: Readonly<Record<string, string>> | undefined): string {
  if (changes === undefined) throw new Error(`expected a line in EASED for each alert, got none for ${expr}`)
  return Object.entries(changes).reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`expected '${from}' in ${text}`)
    return text.replaceAll(from, to)
  }, expr)
}

/** The rules of a file, as far as this test reads them. */
function alertsIn(
  text: string,
): readonly { readonly alert: string; readonly severity: string; readonly expr: string }[] {
  const { groups }: RuleFile = parse(text)
  return groups
    .flatMap(({ rules }) => rules)
    .map(({ alert, expr, labels: { severity } }) => ({ alert, severity, expr }))
}

interface RuleFile {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string
      readonly expr: string
      readonly labels: { readonly severity: string }
    }[]
  }[]
}

function numbersIn(answers: readonly Answer[]): readonly number[] {
  return answers.flatMap(({ values }) => values.map(([, value]) => value)).filter((value) => !Number.isNaN(value))
}
