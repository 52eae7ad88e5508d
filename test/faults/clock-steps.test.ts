import { createHapax, type HapaxEvents, silentLogger } from 'hapax'
import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { type Checker, countEffects, makePlace, openStore, table } from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'
import { testStores } from '../support/servers.ts'
import { noServerWithClock, serverWithClock } from '../support/set-clock.ts'
import { Order, Sms, shopOn } from './clock-steps.ts'
import type { ClockStepsJob } from './clock-steps-child.ts'

const stores = oneInTest(
  (['postgres', 'mysql'] as const).filter((store) => testStores().includes(store)),
  'postgres',
)
const TAKEOVER_MS = 2_000
const HOUR_MS = 3_600_000
/** The limit whatever the clock does: the longest delay or lease, the time to notice, and slack for a slow machine. */
const BOUND_MS = 15_000

/** A server whose clock can be set, a worker of this process, and one of another process, which may be killed. */
async function openRig(store: 'postgres' | 'mysql') {
  const stack = new AsyncDisposableStack()
  const server = stack.use(await serverWithClock(store))
  const checker = stack.use(await makePlace(store, server.url))
  const { place } = checker
  const hapax = createHapax({ store: await openStore(place), source: '/shop', delivery: 'local', logger: silentLogger })
  stack.defer(() => hapax.close())
  const steps: HapaxEvents['clock-went-back'][] = []
  hapax.events.on('clock-went-back', (event) => void steps.push(event))
  const job: ClockStepsJob = { place, takeoverMs: TAKEOVER_MS }
  const child = new Child<{ said: string }>(new URL('./clock-steps-child.ts', import.meta.url), job, 120_000)
  stack.defer(async () => {
    kill(child)
    await child.ended
  })
  const worker = hapax.worker({ consume: shopOn(hapax, place), takeoverMs: TAKEOVER_MS, pollMs: 50 })
  await Promise.all([worker.start(), child.next()])
  stack.defer(() => worker.stop())
  await expect.poll(async () => (await hapax.status()).workers.length).toBe(2)
  return { server, checker, hapax, steps, child, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

function kill(child: Child<unknown>): void {
  try {
    process.kill(child.pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

/** Waits until this many messages have taken effect, and asserts that each did so once. Resolves with the time it took. */
async function processed(checker: Checker, count: number): Promise<number> {
  const began = performance.now()
  await expect
    .poll(async () => (await countEffects(checker)).size, { timeout: 60_000, interval: 100 })
    .toBeGreaterThanOrEqual(count)
  const ms = performance.now() - began
  const effects = await countEffects(checker)
  expect([effects.size, new Set(effects.values())]).toEqual([count, new Set([1])])
  return ms
}

describe.each(stores)('%s: a clock that goes back', (store) => {
  const missing = noServerWithClock(store)

  it.skipIf(missing)(
    `by an hour, while a worker dies: no message waits for the clock${missing ? `: ${missing}` : ''}`,
    async () => {
      await using rig = await openRig(store)
      const { server, checker, hapax, steps, child } = rig
      const orders = Array.from({ length: 150 }, (_, n) => ({ id: `m${n}`, fails: n % 3 === 1 }))
      await hapax.transaction(async (tx) => {
        for (const [n, order] of orders.entries()) {
          await hapax.publish(tx, Order, order, n % 3 === 2 ? { delayMs: 3_000 } : {})
        }
        for (let n = 0; n < 10; n++) await hapax.publish(tx, Sms, { id: `s${n}` })
      })
      await expect.poll(async () => (await countEffects(checker)).size, { interval: 20 }).toBeGreaterThanOrEqual(20)
      kill(child)
      server.setClock(-HOUR_MS)
      expect((await countEffects(checker)).size).toBeLessThan(150)
      expect(await processed(checker, 160)).toBeLessThan(BOUND_MS)
      expect(await checker.query(`select id from ${table(checker.place, 'inbox')}`)).toEqual([])
      expect(await checker.query(`select id from ${table(checker.place, 'failed')}`)).toEqual([])
      expect(steps.map(({ byMs }) => Math.round(byMs / 60_000))).toEqual([60])
      const findings = (await hapax.doctor()).filter(({ check }) => check === 'clock steps')
      expect(
        findings.map(({ message }) => message.replace(/ shortly.*/, '').replace(/3(600|599)\.\d s/, 'an hour')),
      ).toEqual(['the database clock went back by an hour'])
    },
  )

  it.skipIf(missing)('by two minutes, while a worker dies: other workers take over its lanes in time', async () => {
    await using rig = await openRig(store)
    const { server, checker, hapax, child } = rig
    kill(child)
    server.setClock(-120_000)
    await hapax.transaction(async (tx) => {
      for (let n = 0; n < 100; n++) await hapax.publish(tx, Order, { id: `m${n}`, fails: false })
    })
    expect(await processed(checker, 100)).toBeLessThan(4 * TAKEOVER_MS)
    await expect.poll(async () => (await hapax.status()).workers.length).toBe(1)
  })
})
