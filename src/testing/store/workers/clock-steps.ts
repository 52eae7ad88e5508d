import assert from 'node:assert/strict'
import type { HapaxEvents } from '../../../base/index.ts'
import type { Rescheduled } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import { leased } from '../operations/world.ts'
import { type AnyHapax, Ping, type World } from '../world.ts'

const HOUR_MS = 3_600_000
const DELAY_MS = 600_000
const LEASE_MS = 60_000
/** Slack for a machine that stalls now and then. */
const SLACK_MS = 30_000

export const clockSteps: readonly Case[] = [
  {
    name: 'after the clock went back, a row waits at most for its requested delay',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliverMany(['due', 'retried', 'leased'])
      const [due, retried, held] = [
        await seqOf(world, 'due'),
        await seqOf(world, 'retried'),
        await seqOf(world, 'leased'),
      ]
      assert.ok(await world.store.inbox.reschedule(retry(retried)))
      assert.equal((await world.store.inbox.lease([held], crypto.randomUUID(), LEASE_MS)).length, 1)
      await world.database.setBack(HOUR_MS)
      const aheadMs = await world.store.clock.aheadMs()
      assert.ok(aheadMs > HOUR_MS - SLACK_MS && aheadMs <= HOUR_MS, `${aheadMs} ms ahead`)
      assert.deepEqual(await world.due(), [])
      assert.deepEqual(await world.store.clock.recount(LEASE_MS), { rows: 3, locked: 0 })
      assert.ok((await world.store.clock.aheadMs()) <= 1)
      assert.deepEqual(await world.due(), [due])
      assertWaits((await world.look()).nextMs, LEASE_MS)
      const [again] = await world.store.admin.retries('inbox', 10)
      const { at } = await world.store.admin.status()
      assertWaits(again && again.dueAt.getTime() - at.getTime(), DELAY_MS)
      assert.deepEqual(await world.store.clock.recount(LEASE_MS), { rows: 0, locked: 0 })
    },
  },
  {
    name: 'after the clock went back, a message of the outbox waits at most for its delay',
    run: async (world) => {
      const hapax = world.hapax()
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Ping, { n: 1 })
        await hapax.publish(tx, Ping, { n: 2 }, { delayMs: DELAY_MS })
      })
      await world.database.setBack(HOUR_MS)
      const outbox = () => world.look({ table: 'outbox', scope: 'default' })
      assert.equal((await outbox()).entries.length, 0)
      assert.equal((await world.store.clock.recount(LEASE_MS)).rows, 2)
      const { entries, nextMs } = await outbox()
      assert.equal(entries.length, 1)
      assertWaits(nextMs, DELAY_MS)
    },
  },
  {
    name: 'values set after the clock went back are unchanged',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliver('before')
      await world.database.setBack(HOUR_MS)
      await reader.deliver('after')
      const after = await seqOf(world, 'after')
      assert.ok(await world.store.inbox.reschedule({ ...retry(after), delayMs: 2 * HOUR_MS }))
      assert.equal((await world.store.clock.recount(LEASE_MS)).rows, 1)
      assertWaits((await world.look()).nextMs, 2 * HOUR_MS)
    },
  },
  {
    name: 'after the clock went back, a held row, which waits for no time, does not count as one that lies ahead',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store', order: 'wait' })
      await reader.deliver('a', { key: 'k' })
      const seq = await seqOf(world, 'a')
      const { attempts, error, entry, leaseToken } = retry(seq)
      const failure = { seq, attempts, reason: 'permanent', error, entry, leaseToken, hold: true } as const
      assert.ok(await world.store.inbox.fail(failure))
      await world.database.setBack(HOUR_MS)
      assert.equal(await world.store.clock.aheadMs(), 0)
      assert.deepEqual(await steps(reader.hapax), [])
    },
  },
  {
    name: 'after the clock went back, a worker without heartbeats is presumed dead in time, and not at once',
    run: async (world) => {
      await world.store.workers.join({ id: 'quick', name: 'quick', ttlMs: 200, serves: '{}' })
      await world.store.workers.join({ id: 'slow', name: 'slow', ttlMs: DELAY_MS, serves: '{}' })
      await world.database.setBack(HOUR_MS)
      assert.equal((await world.store.clock.recount(LEASE_MS)).rows, 2)
      await world.until(async () => (await world.store.workers.bury()) === 1)
      assert.deepEqual(
        (await world.store.workers.list()).map(({ id, alive }) => [id, alive]),
        [['slow', true]],
      )
    },
  },
  {
    name: 'after the clock went back, an operation whose process is gone is taken over within its lease',
    run: async (world) => {
      const { id } = await leased(world, {}, LEASE_MS)
      await world.database.setBack(HOUR_MS)
      assert.equal(await world.store.operations.lease('other', LEASE_MS), undefined)
      assert.equal((await world.store.clock.recount(200)).rows, 1)
      await world.until(async () => (await world.store.operations.lease('other', LEASE_MS))?.id === id)
      assert.equal((await world.store.clock.recount(LEASE_MS)).rows, 0)
    },
  },
  {
    name: 'a worker that starts after the clock went back handles waiting rows although dead workers look alive',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliverMany(['a', 'b', 'c'])
      for (let n = 0; n < 20; n++) {
        await world.store.workers.join({ id: `dead${n}`, name: 'dead', ttlMs: 1_000, serves: '{}' })
      }
      await world.database.setBack(HOUR_MS)
      const worker = await world.worker(reader)
      await world.until(async () => (await world.database.effects()).length === 3)
      await world.until(async () => (await world.store.workers.list()).length === 1)
      await worker.stop()
      await world.assertEffects(['a', 'b', 'c'])
    },
  },
  {
    name: 'a worker that starts after the clock went back handles waiting rows and reports the step, as does doctor',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      const told: HapaxEvents['clock-went-back'][] = []
      reader.hapax.events.on('clock-went-back', (event) => void told.push(event))
      await reader.deliverMany(['a', 'b', 'c'])
      await world.database.setBack(HOUR_MS)
      const [before] = await steps(reader.hapax)
      assert.match(before ?? '', /lie 3\d{3}\.\d s ahead/)
      const worker = await world.worker(reader)
      await world.until(async () => (await world.database.effects()).length === 3)
      await world.until(async () => /went back by 3\d{3}\.\d s shortly before/.test((await steps(reader.hapax)).join()))
      await worker.stop()
      await world.assertEffects(['a', 'b', 'c'])
      assert.deepEqual(
        told.map(({ byMs, recounted }) => [byMs > HOUR_MS - SLACK_MS && byMs <= HOUR_MS, recounted]),
        [[true, 3]],
      )
    },
  },
]

/** Asserts that it waits about this long. */
function assertWaits(actualMs: number | undefined, expectedMs: number): void {
  const waits = actualMs ?? Number.NaN
  assert.ok(
    waits <= expectedMs + 1 && waits > expectedMs - SLACK_MS,
    `expected about ${expectedMs} ms, got ${actualMs}`,
  )
}

async function seqOf(world: World, id: string): Promise<string> {
  const found = await world.entry(id)
  assert.ok(found, id)
  return found.seq
}

function retry(seq: string): Rescheduled {
  const error = { name: 'Error', message: 'later' }
  const entry = JSON.stringify({ error, worker: 'one' })
  return { seq, attempts: 1, lost: 0, delayMs: DELAY_MS, error, entry, leaseToken: null }
}

/** The findings of doctor on clock steps. */
async function steps(hapax: AnyHapax): Promise<readonly string[]> {
  return (await hapax.doctor()).flatMap(({ check, message }) => (check === 'clock steps' ? [message] : []))
}
