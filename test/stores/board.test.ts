import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { asSent, panelsOf, readBoard } from '../support/board.ts'
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
    await until('rate(hapax_worker_errors_total[1m]) > 0', () => shop.databaseAway(2_000))
    await shop.analyze()
  }, DEADLINE_MS)

  afterAll(async () => {
    await shop?.[Symbol.asyncDispose]()
  })

  /** Does it again until Prometheus has seen it; in between, everything runs for a moment. */
  async function until(query: string, act: () => Promise<void>): Promise<void> {
    const isSeen = async (): Promise<boolean> => (await shop.prometheus.now(query)).length > 0
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
    targets.map(({ expr, legendFormat }) => ({ title, legend: legendFormat, expr })),
  )

  test.for(targets)('$title ($legend) has data', { timeout: DEADLINE_MS }, async ({ title, expr }) => {
    const query = asSent(expr, { rateInterval: '10s', range: '5m' })
    const least = MOVED.includes(title) ? 1e-9 : Number.NEGATIVE_INFINITY
    const values = async (): Promise<readonly number[]> =>
      numbersIn(await shop.prometheus.between(query, began, Date.now() / 1_000, 0.5)).filter((value) => value >= least)
    await expect.poll(values, { timeout: 120_000, interval: 500 }).not.toEqual([])
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

function numbersIn(answers: readonly Answer[]): readonly number[] {
  return answers.flatMap(({ values }) => values.map(([, value]) => value)).filter((value) => !Number.isNaN(value))
}
