import assert from 'node:assert/strict'
import { HapaxError, Permanent, workerName } from '../../base/index.ts'
import type { Trace } from '../../contracts/index.ts'
import type { Past } from '../../message/index.ts'
import { altered } from '../altered.ts'
import { AT_ONCE, assertOutcome, ping } from '../store/world.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import { type ClaimWorld, ERROR, stored } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

/** Attempt and message of each failure that is remembered; every one has its time, in order. */
function told({ history }: Past): readonly string[] {
  const times = history.map(({ at }) => at.getTime())
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  )
  for (const { worker } of history) assert.equal(worker, workerName())
  return history.map(({ attempt, kind, message }) => `${attempt}${kind === undefined ? '' : ` ${kind}`} ${message}`)
}

async function past(world: ClaimWorld, id: string, where: 'claim' | 'failed'): Promise<Past> {
  const found = (await world.store.admin.trace(id, '/sender')).find((trace) => trace.where === where)
  return (found as Extract<Trace, { where: typeof where }>) ?? assert.fail(`${id} has no ${where}`)
}

/** Delivers a message again and again, as its broker would, until it has this status. */
async function deliverUntil(consumer: ReturnType<ClaimWorld['sms']>, id: string, status: string): Promise<void> {
  await until(async () => (await consumer.handle(ping(id))).status === status, `${id} to be ${status}`)
}

const ENTRY = JSON.stringify({ worker: workerName(), name: 'Error', message: 'no' })

export const histories: readonly Case[] = [
  {
    name: 'failures are told in order, with time, attempt, worker and error, while it waits and when it has failed',
    run: async (world) => {
      const hapax = world.hapax()
      const bad = world.sms(
        (ctx) => Promise.reject(Object.assign(new TypeError(`no ${ctx.attempt}`), { code: 'E_NO' })),
        {
          hapax,
          retry: { ...AT_ONCE, attempts: 5 },
        },
      )
      assertOutcome(await bad.handle(ping('a')), 'rolled-back')
      const [first] = (await past(world, 'a', 'claim')).history
      assert.deepEqual([first?.name, first?.code], ['TypeError', 'E_NO'])
      await deliverUntil(bad, 'a', 'failed')
      const [failed] = await hapax.failed.list()
      assert.ok(failed)
      assert.deepEqual(told(failed), ['1 no 1', '2 no 2', '3 no 3', '4 no 4', '5 no 5'])
      assert.deepEqual([failed.failures, failed.history[0]], [5, first])
      assert.deepEqual(told(await past(world, 'a', 'failed')), told(failed))
    },
  },
  {
    name: 'of twelve failures the last ten are kept, and each is told once, also if its reply was lost',
    run: async (world) => {
      for (let attempts = 1; attempts <= 12; attempts++) {
        const lease = await world.lease('a')
        const end = { attempts, delayMs: 0, error: ERROR, entry: ENTRY }
        assert.ok(await world.store.claims.release(lease, end))
        assert.ok(await world.store.claims.release(lease, end))
      }
      const { failures, history } = await past(world, 'a', 'claim')
      assert.deepEqual([failures, history.map(({ attempt }) => attempt)], [12, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]])
      const lease = await world.lease('a')
      const failure = { message: stored('a'), attempts: 13, reason: 'permanent', error: ERROR, retentionMs: 60_000 }
      for (const _ of [1, 2]) assert.ok(await world.store.claims.fail('sms', lease, { ...failure, entry: ENTRY }))
      const failed = await past(world, 'a', 'failed')
      assert.deepEqual([failed.failures, failed.history.length, failed.history.at(-1)?.attempt], [13, 10, 13])
    },
  },
  {
    name: 'a retry continues the history, and success ends it',
    run: async (world) => {
      const hapax = world.hapax()
      let failures = 0
      const sms = world.sms(() => (failures < 2 ? Promise.reject(new Permanent(`no ${++failures}`)) : undefined), {
        hapax,
      })
      assertOutcome(await sms.handle(ping('a')), 'failed')
      for (const expected of [['1 no 1'], ['1 no 1', '1 no 2']]) {
        const [failed] = await hapax.failed.list()
        assert.ok(failed)
        assert.deepEqual(told(failed), expected)
        await hapax.failed.retry(failed.seq)
        assert.deepEqual(told(await past(world, 'a', 'claim')), expected)
        await world.drain(hapax, sms)
      }
      assert.deepEqual(await world.places('a'), ['audit', 'audit', 'receipt'])
    },
  },
  {
    name: 'B8: unknown effects are told; a conflict has one entry; what was put back used up no attempt',
    run: async (world) => {
      const hapax = world.hapax()
      const sms = world.sms((ctx) => ctx.effect('send', () => Promise.reject(new Error('timeout'))), {
        hapax,
        onMismatch: 'conflict',
      })
      assertOutcome(await sms.handle(ping('a')), 'held', 'unknown-effect')
      assert.deepEqual(
        (await past(world, 'a', 'failed')).history.map(({ code }) => code),
        ['unknown-effect'],
      )
      assertOutcome(await sms.handle(ping('a', { data: { n: 2 } })), 'conflict')
      const conflict = (await hapax.failed.list()).find(({ reason }) => reason === 'conflict')
      assert.deepEqual(
        conflict?.history.map(({ attempt, code }) => [attempt, code]),
        [[0, 'conflict']],
      )
      const away = (): Promise<never> => Promise.reject(new HapaxError('store-unavailable', 'no answer'))
      const rival = world.hapax({ store: altered(world.store, { journal: { begin: away } }) })
      const cut = world.sms((ctx) => ctx.effect('send', async () => 1), { hapax: rival, name: 'sms' })
      assertOutcome(await cut.handle(ping('b')), 'rolled-back')
      const [only] = (await past(world, 'b', 'claim')).history
      assert.deepEqual([only?.attempt, only?.kind], [0, 'lost'])
    },
  },
]
