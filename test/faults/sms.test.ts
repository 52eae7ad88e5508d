import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { defineMessage, type EffectOptions } from 'hapax'
import { describe, expect, it } from 'vitest'
import { type Checker, durableStores, insertEffect, makePlace } from '../support/databases.ts'
import { inLanes } from '../support/lanes.ts'
import { seed, seeded } from '../support/seeded.ts'
import { decide, find, LEASE_MS, office, Provider, request, runWorker, startWorker } from './sms/rig.ts'
import type { Sabotage } from './sms/sabotage.ts'
import { judge, type Verdict } from './sms/verdict.ts'
import type { Policy, SmsJob } from './sms/worker-child.ts'

/** Every point and thousands of messages, instead of a part of them. */
const FULL = process.env['HAPAX_TEST_SMS'] === 'full'
const MESSAGES = FULL ? 2_000 : 150
const LIVES = FULL ? 40 : 3
const LANES = 3
const TRIES = 3
/** The steps of the flow, without what each of them is made of; and those around the call. */
const STEPS = / (store|provider)\./
const AROUND_CALL = / (store\.endEffect|provider)/
const LIMIT_MS = FULL ? 1_200_000 : 170_000

/** Those that differ most, or all. */
const policies: readonly Policy[] = FULL ? ['retry-same-key', 'hold', 'verify'] : ['retry-same-key', 'hold']

describe.each(durableStores())('%s: text messages', (store) => {
  it.each(policies)(
    `B7 B20: the process dies before or after any step, %s: none is lost, none is doubled in silence (seed ${seed})`,
    async (policy) => {
      await using checker = await makePlace(store)
      const { complaints, held, heldAndSent, points, kills } = await sweep(checker, policy)
      console.log(`${store}, ${policy}: ${kills} kills at ${points} points, ${held} held, ${heldAndSent} of them sent`)
      expect(complaints).toEqual([])
      // Between the call and the journal nobody can know.
      if (policy === 'hold') expect(heldAndSent).toBeGreaterThan(0)
    },
    LIMIT_MS,
  )

  it.each(policies)(
    `B2 B3 B8 B11: kills, pauses and lost replies, %s: none is lost, none is doubled in silence (seed ${seed})`,
    async (policy) => {
      await using checker = await makePlace(store)
      await story(checker, policy)
    },
    LIMIT_MS,
  )

  it('a refused connection is tried again; a call that is late is held, made again or asked about, as the policy says', async () => {
    await using checker = await makePlace(store)
    await using provider = await Provider.start({ honoursKeys: true, trouble: { lost: 0, late: 1, refused: 0 } })
    await using hapax = await office(checker)
    const nobody = await nobodysUrl()
    const sms = hapax.leased('sms', { retry: { attempts: 5, minDelayMs: 0, maxDelayMs: 0 } })
    const late: Record<string, EffectOptions<unknown>> = {
      hold: {},
      again: { onUnknown: 'retry-same-key' },
      ask: { onUnknown: async (key) => ({ done: await (await fetch(`${provider.url}/sent/${key}`)).text() }) },
    }
    sms.on(defineMessage('sms.sms'), async (_, { message: { id }, attempt, effect, complete }) => {
      const url = id === 'refused' && attempt === 1 ? nobody : provider.url
      const call = async (key: string): Promise<unknown> =>
        (await fetch(`${url}/send/${id}`, { method: 'POST', headers: { 'idempotency-key': key } })).json()
      await effect('send', call, { ...late[id], ...(id === 'refused' || attempt > 1 ? {} : { timeoutMs: 200 }) })
      complete((tx) => tx.query(insertEffect(checker.place, 'sms', id)))
    })
    const outcomes = await sms.handleMany(
      ['refused', 'hold', 'again', 'ask'].map((id) => ({ id, source: '/sms', type: 'sms.sms', data: null })),
    )
    expect(outcomes.map(({ status }) => status)).toEqual(['retrying', 'held', 'retrying', 'processed'])
    const worker = hapax.worker({ consume: [sms], pollMs: 20 })
    await worker.start()
    await worker.drain()
    await worker.stop()
    const { sent, done, failed } = await find(checker, hapax, provider)
    expect(Object.fromEntries(sent)).toEqual({ refused: 1, hold: 1, again: 1, ask: 1 })
    expect(Object.fromEntries(done)).toEqual({ refused: 1, again: 1, ask: 1 })
    expect(Object.fromEntries(failed)).toEqual({ hold: 'unknown-effect' })
  })
})

describe.runIf(durableStores().includes('sqlite'))('a broken journal', () => {
  it.each<Sabotage>(['no-journal', 'begun-is-not-done'])(
    '%s is noticed',
    async (sabotage) => {
      await using checker = await makePlace('sqlite')
      const { complaints } = await sweep(checker, 'hold', sabotage)
      expect(complaints).not.toEqual([])
      expect(complaints.join()).toContain('sent 2 times')
    },
    LIMIT_MS,
  )
})

interface Swept extends Verdict {
  readonly points: number
  readonly kills: number
}

/** Kills a process at each step of one message, lets another one recover, and looks. */
async function sweep(checker: Checker, policy: Policy, sabotage?: Sabotage): Promise<Swept> {
  await using provider = await Provider.start({ honoursKeys: policy === 'retry-same-key' })
  await using hapax = await office(checker)
  const base = {
    place: checker.place,
    provider: provider.url,
    policy,
    leaseMs: LEASE_MS,
    ...(sabotage && { sabotage }),
  }
  const deliver = (consumer: string): SmsJob => ({ ...base, consumers: [consumer], tasks: ['deliver'] })
  const [first, second] = await Promise.all([runWorker(deliver('one')), runWorker(deliver('two'))])
  const points = first.filter((point) => second.includes(point))
  const chosen = FULL
    ? points
    : points.filter((point) => (sabotage || policy !== 'hold' ? AROUND_CALL : STEPS).test(point))
  const consumers = ['one', 'two']
  await inLanes(LANES, chosen, async (killAt) => {
    for (let tries = 1; ; tries++) {
      const consumer = `run${consumers.length}`
      consumers.push(consumer)
      const { signal, errors } = await startWorker({ ...deliver(consumer), killAt }).ended
      if (signal === 'SIGKILL') return
      if (tries === TRIES) throw new Error(`the point '${killAt}' was not reached ${errors}`)
    }
  })
  // The broker delivers again what it heard nothing about; the rest is in the inbox.
  await runWorker({ ...base, consumers, tasks: ['deliver', 'work'] }, LIMIT_MS)
  const ids = consumers.map((consumer) => `${consumer}.m`)
  const verdict = judge(ids, await find(checker, hapax, provider), policy)
  return { ...verdict, points: points.length, kills: chosen.length }
}

/** Many messages, processes that die or are paused all the time, and a provider that loses replies. */
async function story(checker: Checker, policy: Policy): Promise<void> {
  const honoursKeys = policy === 'retry-same-key'
  const trouble = { lost: 0.06, late: 0.04, refused: 0.05 }
  await using provider = await Provider.start({ seed, honoursKeys, trouble })
  await using hapax = await office(checker)
  const ids = Array.from({ length: MESSAGES }, (_, index) => `m-${index}`)
  await request(hapax, 'sms', ids)
  const base = { place: checker.place, provider: provider.url, policy, leaseMs: LEASE_MS }
  const job: SmsJob = { ...base, consumers: ['sms'], tasks: ['work'] }
  const lived = await Promise.all([1, 2].map((lane) => lives(job, seeded(seed + lane))))
  await runWorker(job, LIMIT_MS)
  // What died too often is parked, as it has to be; a person tries it again.
  await hapax.failed.retryAll({ reason: 'crash-loop' })
  await runWorker(job, LIMIT_MS)
  const first = judge(ids, await find(checker, hapax, provider), policy)
  expect(first.complaints).toEqual([])
  const decided = await decide(hapax, provider)
  await runWorker(job, LIMIT_MS)
  // What the provider does to those calls that are made only now may have to be decided again.
  while ((await decide(hapax, provider)) > 0) await runWorker(job, LIMIT_MS)
  const last = judge(ids, await find(checker, hapax, provider), policy)
  expect(last.complaints).toEqual([])
  expect(last.settled).toBe(MESSAGES)
  const { calls } = await provider.log()
  const [kills, pauses] = [
    lived.flat().filter((life) => life === 'killed').length,
    lived.flat().filter((life) => life === 'paused').length,
  ]
  console.log(`${checker.place.store}, ${policy}: ${kills} kills, ${pauses} pauses, ${calls} calls, ${decided} decided`)
}

type Life = 'killed' | 'paused' | 'ended'

/** One process after the other: killed at some step, or paused for longer than its lease. */
async function lives(job: SmsJob, random: () => number): Promise<readonly Life[]> {
  const lived: Life[] = []
  while (lived.length < LIVES) {
    // Who comes back from a pause inside the call may send after the provider was asked: nobody can promise otherwise.
    const paused = job.policy !== 'verify' && random() < 0.35
    const child = startWorker({ ...job, killAt: Math.ceil(20 + random() * 400) })
    if (paused) await pauseFor(child, random)
    const { signal, errors } = await child.ended
    expect(errors).toBe('')
    lived.push(paused ? 'paused' : signal === 'SIGKILL' ? 'killed' : 'ended')
    if (signal === null) break
  }
  return lived
}

async function pauseFor(child: ReturnType<typeof startWorker>, random: () => number): Promise<void> {
  await wait(300 + random() * 500)
  child.kill('SIGSTOP')
  await wait(2 * LEASE_MS)
  child.kill('SIGCONT')
}

/** Where nobody listens. */
async function nobodysUrl(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${port}`
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
