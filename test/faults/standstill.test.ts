import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { describe, expect, it, type TestContext } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { Child } from '../support/child.ts'
import {
  type Checker,
  countEffects,
  durableStores,
  makePlace,
  openStore,
  type Place,
  type RigTx,
  table,
  terminateAll,
} from '../support/databases.ts'
import type { StandstillJob, StandstillReport } from './standstill-child.ts'

/** Longer than a busy machine takes to call all handlers. */
const TIMEOUT_MS = 6_000
const MESSAGES = 25
const IDS = Array.from({ length: MESSAGES }, (_, index) => `m-${index}`)
const ONCE = new Map(IDS.map((id) => [`billing ${id}`, 1]))

const Order = defineMessage<number>('order')

async function open(place: Place): Promise<Hapax<RigTx>> {
  return createHapax({ store: await openStore(place, { max: 2 }), source: '/standstill', logger: silentLogger })
}

/** Stores the messages for the processes. */
async function fill({ place }: Checker): Promise<void> {
  const hapax = await open(place)
  const billing = hapax.consumer('billing', { receive: 'store' }).on(Order, () => {})
  await billing.handleMany(IDS.map((id, data) => ({ id, source: '/shop', type: 'order', data })))
  await hapax.close()
}

type Ends = Pick<TestContext, 'onTestFinished'>

function start({ onTestFinished }: Ends, place: Place, behaviour: StandstillJob['behaviour']): Child<StandstillReport> {
  const job: StandstillJob = { place, behaviour, timeoutMs: TIMEOUT_MS, inHand: MESSAGES }
  const child = new Child<StandstillReport>(new URL('./standstill-child.ts', import.meta.url), job, 120_000)
  onTestFinished(() => child.kill('SIGKILL'))
  return child
}

/** Suspends a process that has this many messages in hand. Resolves once its handlers have timed out. */
async function stopped(child: Child<StandstillReport>, inHand: number): Promise<{ over: Promise<void> }> {
  for (let entered = 0; entered < inHand; entered++) await child.next()
  child.kill('SIGSTOP')
  const ends = performance.now() + TIMEOUT_MS
  return { over: until(() => performance.now() > ends) }
}

/** Lets a process settle everything that is due, and end. */
async function finished(child: Child<StandstillReport>): Promise<void> {
  child.tell({ go: true })
  expect(await child.ended).toMatchObject({ code: 0, errors: '' })
}

async function remaining(checker: Checker, name: 'inbox' | 'failed'): Promise<number> {
  return (await checker.query(`select id from ${table(checker.place, name)}`)).length
}

// In parallel, because the tests mostly wait for time-outs.
describe.each(durableStores())('%s: a process that stands still', { timeout: 150_000, concurrent: true }, (store) => {
  it(`A13: resumes after its ${MESSAGES} messages were taken over, and each has one effect, even after a bulk retry`, async (test) => {
    await using checker = await makePlace(store)
    const { place } = checker
    await fill(checker)
    const still = start(test, place, 'stays')
    // With one writer, the others wait for it.
    const { over } = await stopped(still, store === 'sqlite' ? 1 : MESSAGES)
    if (store !== 'sqlite') await terminateAll(checker)
    const other = start(test, place, 'good')
    if (store !== 'sqlite') await until(async () => (await remaining(checker, 'inbox')) === 0, 'another takes over')
    await over
    still.kill('SIGCONT')
    await finished(still)
    await finished(other)
    expect(await countEffects(checker)).toEqual(ONCE)
    const hapax = await open(place)
    expect(await hapax.failed.list()).toEqual([])
    await hapax.failed.retryAll({ all: true })
    await hapax.close()
    await finished(start(test, place, 'good'))
    expect(await countEffects(checker)).toEqual(ONCE)
    expect([await remaining(checker, 'inbox'), await remaining(checker, 'failed')]).toEqual([0, 0])
  })

  it.runIf(store === 'mysql')(
    'A4: reports handlers that had run a statement that commits, and nothing repeats their effects without confirmation',
    async (test) => {
      await using checker = await makePlace(store)
      const { place } = checker
      await fill(checker)
      const still = start(test, place, 'commits')
      const { over } = await stopped(still, MESSAGES)
      await terminateAll(checker)
      const other = start(test, place, 'good')
      await over
      still.kill('SIGCONT')
      await finished(still)
      await finished(other)
      const hapax = await open(place)
      expect(await hapax.failed.count({ reason: 'broken-atomicity' })).toBe(MESSAGES)
      const summary = await hapax.failed.retryAll({ all: true })
      expect(summary).toEqual({ done: 0, gone: 0, errors: MESSAGES, stopped: false })
      await hapax.close()
      await finished(start(test, place, 'good'))
      expect(await countEffects(checker)).toEqual(ONCE)
    },
  )
})
