import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { type Checker, countEffects, durableStores, makePlace, table } from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'
import type { FrameworkJob, FrameworkReport } from './frameworks-child.ts'

const ORDERS = 1_000
const DEADLINE_MS = 60_000
/** Requests at the same time. */
const CLIENTS = 50

const ids = Array.from({ length: ORDERS }, (_, index) => `o${index}`)

/** An application that runs in one process after the other, at another address each time. */
class Application {
  #child: Child<FrameworkReport> | undefined
  readonly #job: FrameworkJob
  #url = ''

  constructor(job: FrameworkJob) {
    this.#job = job
  }

  async start(): Promise<void> {
    this.#child = new Child(new URL('./frameworks-child.ts', import.meta.url), this.#job, 590_000)
    this.#url = (await this.#child.next()).url
  }

  /** Sends SIGTERM, and SIGKILL at the deadline: whoever gets that did not end in time. */
  async terminate(): Promise<void> {
    const child = this.#child
    child?.kill('SIGTERM')
    const late = setTimeout(() => child?.kill('SIGKILL'), DEADLINE_MS)
    expect(await child?.ended).toEqual({ code: 0, signal: null, errors: '' })
    clearTimeout(late)
  }

  /** Sends an order until it is accepted, as clients do; the key stays the same. */
  async order(id: string, signal: AbortSignal): Promise<void> {
    const headers = { 'idempotency-key': id, 'content-type': 'application/json' }
    const body = JSON.stringify({ id })
    for (;;) {
      signal.throwIfAborted()
      const response = await fetch(this.#url, { method: 'POST', headers, body, signal }).catch(() => undefined)
      await response?.arrayBuffer().catch(() => {})
      if (response?.status === 201) return
      await delay(20)
    }
  }
}

/** Sends all orders, many at a time. */
async function orderAll(application: Application, signal: AbortSignal): Promise<void> {
  const waiting = [...ids]
  const client = async (): Promise<void> => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) await application.order(id, signal)
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
}

const effects = async (checker: Checker): Promise<number> => (await countEffects(checker)).size

const store = durableStores().includes('postgres') ? 'postgres' : 'mysql'

const frameworks = ['Express', 'Express 4', 'Fastify', 'Hono', 'Koa', 'Next.js']

describe.each(oneInTest(frameworks, 'Express'))('%s', (framework) => {
  it('an application that is terminated in the middle of 1,000 requests and handlers loses nothing and doubles nothing', async ({
    signal,
  }) => {
    await using checker = await makePlace(store)
    const application = new Application({ place: checker.place, framework, deadlineMs: DEADLINE_MS / 2 })
    await application.start()
    const ordered = orderAll(application, signal)
    ordered.catch(() => {})
    let amid = 0
    // Each order has two effects.
    for (const share of [0.1, 0.4, 0.7]) {
      const until = share * 2 * ORDERS
      await expect.poll(() => effects(checker), { timeout: 100_000, interval: 20 }).toBeGreaterThanOrEqual(until)
      if ((await effects(checker)) < 2 * ORDERS) amid += 1
      await application.terminate()
      await application.start()
    }
    await ordered
    // Not always all three: while this process stands still, the other may come to the end.
    expect(amid).toBeGreaterThanOrEqual(2)
    await expect.poll(() => effects(checker), { timeout: 100_000 }).toBe(2 * ORDERS)
    await application.terminate()
    const once = ids.flatMap((id) => [`orders ${id}`, `billing ${id}`]).map((effect) => [effect, 1] as const)
    expect(await countEffects(checker)).toEqual(new Map(once))
    for (const name of ['inbox', 'failed'] as const) {
      expect(await checker.query(`select 1 from ${table(checker.place, name)} limit 1`)).toEqual([])
    }
  }, 600_000)
})
