import { defineMessage, type EffectOptions } from 'hapax'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../scripts/services/port.ts'
import { inLanes } from '../support/lanes.ts'
import { inThisRun } from '../support/runs.ts'
import { seed, seeded } from '../support/seeded.ts'
import { finish, makeScene, type Scene, smsStores } from './sms/place.ts'
import { decide, find, LEASE_MS, office, Provider, request, runWorker, startWorker } from './sms/rig.ts'
import type { Sabotage } from './sms/sabotage.ts'
import { judge, type Verdict } from './sms/verdict.ts'
import type { Policy, SmsJob } from './sms/worker-child.ts'

/** Every point and thousands of messages, instead of a part of them. */
const FULL = process.env['HAPAX_TEST_SMS'] === 'full'
const MESSAGES = FULL ? 2_000 : 60
const LIVES = FULL ? 40 : 2
const LANES = 3
const TRIES = 3
/** What a short sweep takes of the points: the steps around the call; and what a broken journal is noticed by. */
const AROUND_CALL = / (store\.journal\.(begin|end)|provider)/
const CALLED = /^after provider/
const LIMIT_MS = FULL ? 1_200_000 : 600_000

/** Those that differ most, or all. */
const policies: readonly Policy[] = FULL ? ['retry-same-key', 'hold', 'verify'] : ['retry-same-key', 'hold']
/** One that calls again hides in a sweep what a short one looks for. */
const swept: readonly Policy[] = FULL ? policies : ['hold']
/** Most of a short one is waiting. */
const concurrent = !FULL

/** For `npm test` one with an inbox, and the one without. */
const [first] = smsStores()
const stores = inThisRun(smsStores(), (store) => store === first || store === 'redis')

describe.each(stores)('%s: text messages', { concurrent, timeout: LIMIT_MS }, (store) => {
  it.each(swept)(
    `B7 B20: the process dies before or after any step, %s: none is lost, none is doubled in silence (seed ${seed})`,
    async (policy) => {
      await using scene = await makeScene(store)
      const { complaints, held, heldAndSent, points, kills } = await sweep(scene, policy)
      console.log(
        `${store}, ${policy}: ${kills} kills at ${points} points, ${held} unknown, ${heldAndSent} of them sent`,
      )
      expect(complaints).toEqual([])
      // Between the call and the journal nobody can know.
      if (policy === 'hold') expect(heldAndSent).toBeGreaterThan(0)
    },
    LIMIT_MS,
  )

  it.runIf(FULL)(
    `the process dies before or after any step, and the step after the call fails three times: one is sent (seed ${seed})`,
    async () => {
      await using scene = await makeScene(store)
      const { complaints, points, kills } = await sweep(scene, 'hold', { unlucky: true })
      console.log(`${store}, the next step fails: ${kills} kills at ${points} points`)
      expect(complaints).toEqual([])
    },
    LIMIT_MS,
  )

  it.each(policies)(
    `B2 B3 B8 B11: kills, pauses and lost replies, %s: none is lost, none is doubled in silence (seed ${seed})`,
    async (policy) => {
      await using scene = await makeScene(store)
      await story(scene, policy)
    },
    LIMIT_MS,
  )

  it('a refused connection is tried again; a call that is late is held, made again or asked about, as the policy says', async () => {
    await using scene = await makeScene(store)
    await using provider = await Provider.start({
      honoursKeys: true,
      trouble: { lost: 0, late: 1, refused: 0 },
      lateMs: 8_000,
    })
    await using hapax = await office(scene)
    const nobody = await nobodysUrl()
    const ids = ['refused', 'hold', 'again', 'ask']
    const sms = hapax.leased('sms', { retry: { attempts: 5, minDelayMs: 0, maxDelayMs: 0 } })
    const late: Record<string, EffectOptions<unknown>> = {
      hold: {},
      again: { onUnknown: 'retry-same-key' },
      ask: { onUnknown: async (key) => ({ done: await (await fetch(`${provider.url}/sent/${key}`)).text() }) },
    }
    sms.on(defineMessage('sms.sms'), async (_, ctx) => {
      const { attempt, effect } = ctx
      const { id } = ctx.message
      const url = id === 'refused' && attempt === 1 ? nobody : provider.url
      const call = async (key: string): Promise<unknown> =>
        (await fetch(`${url}/send/${id}`, { method: 'POST', headers: { 'idempotency-key': key } })).json()
      await effect('send', call, { ...late[id], ...(id === 'refused' || attempt > 1 ? {} : { timeoutMs: 200 }) })
      finish(scene.place, ctx, 'sms')
    })
    const messages = ids.map((id) => ({ id, source: '/sms', type: 'sms.sms', data: null }))
    const outcomes = await sms.handleMany(messages)
    const again = store === 'redis' ? 'rolled-back' : 'retrying'
    expect(outcomes.map(({ status }) => status)).toEqual([again, 'held', again, 'processed'])
    // Where there is no inbox, whoever delivered it does so again.
    expect((await sms.handleMany(messages)).every(({ ack }) => ack)).toBe(true)
    const worker = hapax.worker({ consume: [sms], pollMs: 20 })
    await worker.start()
    await worker.drain()
    await worker.stop()
    const { sent, done, failed } = await find(scene, hapax, provider, ids)
    expect(Object.fromEntries(sent)).toEqual({ refused: 1, hold: 1, again: 1, ask: 1 })
    expect(Object.fromEntries(done)).toEqual({ refused: 1, again: 1, ask: 1 })
    expect(Object.fromEntries(failed)).toEqual({ hold: 'unknown-effect' })
  })
})

const brokenOn = inThisRun(smsStores(), () => false).filter((store) => FULL || store === 'sqlite')

describe.each(brokenOn)('%s: a broken journal', { concurrent }, (store) => {
  it.each<Sabotage>(['no-journal', 'begun-is-not-done'])(
    '%s is noticed',
    async (sabotage) => {
      await using scene = await makeScene(store)
      const { complaints } = await sweep(scene, 'hold', { sabotage })
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

/** What is wrong beside the kills. */
type Trouble = Pick<SmsJob, 'sabotage' | 'unlucky'>

/** Kills a process at each step of one message, lets another one recover, and looks. */
async function sweep(scene: Scene, policy: Policy, trouble: Trouble = {}): Promise<Swept> {
  await using provider = await Provider.start({ honoursKeys: policy === 'retry-same-key' })
  await using hapax = await office(scene)
  const base = {
    place: scene.place,
    provider: provider.url,
    policy,
    leaseMs: LEASE_MS,
    ...trouble,
  }
  const deliver = (consumer: string): SmsJob => ({ ...base, consumers: [consumer], tasks: ['deliver'] })
  // One after the other: the first one may meet a server that has not seen its scripts.
  const first = await runWorker(deliver('one'))
  const second = await runWorker(deliver('two'))
  const points = first.filter((point) => second.includes(point))
  const chosen = FULL ? points : points.filter((point) => (trouble.sabotage ? CALLED : AROUND_CALL).test(point))
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
  // The broker delivers again what it heard nothing about; what it was told of is in the inbox, or done.
  await recover(hapax, { ...base, consumers, tasks: ['deliver', 'work'] })
  const ids = consumers.map((consumer) => `${consumer}.m`)
  const verdict = judge(ids, await find(scene, hapax, provider, ids), policy)
  return { ...verdict, points: points.length, kills: chosen.length }
}

/** Many messages, processes that die or are paused all the time, and a provider that loses replies. */
async function story(scene: Scene, policy: Policy): Promise<void> {
  const honoursKeys = policy === 'retry-same-key'
  const trouble = { lost: 0.06, late: 0.04, refused: 0.05 }
  await using provider = await Provider.start({ seed, honoursKeys, trouble })
  await using hapax = await office(scene)
  const ids = Array.from({ length: MESSAGES }, (_, index) => `m-${index}`)
  await using origin = await request(scene, hapax, 'sms', ids)
  // Nobody is paused on purpose there, and a busy machine must not do it either.
  const leaseMs = policy === 'verify' ? 5 * LEASE_MS : LEASE_MS
  const base = { place: scene.place, provider: provider.url, policy, leaseMs }
  const job: SmsJob = { ...base, consumers: ['sms'], tasks: ['work'], sender: origin.sender }
  const lived = await Promise.all([1, 2].map((lane) => lives(job, seeded(seed + lane))))
  await recover(hapax, job)
  const first = judge(ids, await find(scene, hapax, provider, ids), policy)
  expect(first.complaints).toEqual([])
  let decided = 0
  // What the provider does to those calls that are made only then may have to be decided again.
  for (let more = await decide(hapax, provider); more > 0; more = await decide(hapax, provider)) {
    decided += more
    await recover(hapax, job)
  }
  const last = judge(ids, await find(scene, hapax, provider, ids), policy)
  expect(last.complaints).toEqual([])
  expect(last.settled).toBe(MESSAGES)
  const { calls } = await provider.log()
  const count = (which: Life): number => lived.flat().filter((life) => life === which).length
  const { lost, doubled } = last
  console.log(
    `${scene.place.store}, ${policy}: ${MESSAGES} messages, ${count('killed')} kills, ${count('paused')} pauses, ${calls} calls,`,
    `${lost} lost, ${doubled} doubled, ${first.held} unknown (${first.heldAndSent} of them sent), ${decided} decided`,
  )
}

/** Works all that is left. What died too often, or lost its lease on a busy machine, is parked: a person tries it again. */
async function recover(hapax: Awaited<ReturnType<typeof office>>, job: SmsJob): Promise<void> {
  do await runWorker(job, LIMIT_MS)
  while ((await hapax.failed.retryAll({ reason: 'crash-loop' })).done > 0)
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
  return `http://127.0.0.1:${await freePort()}`
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
