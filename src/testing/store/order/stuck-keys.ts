import assert from 'node:assert/strict'
import type { Origin } from '../../../contracts/index.ts'
import { laneOfKey, messageKey } from '../../../message/index.ts'
import { failedOne } from '../admin/failed-world.ts'
import type { Case } from '../case.ts'
import { type AnyHapax, type AnyStore, assertOutcome, Pong, type Reader, type World } from '../world.ts'

const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
const ERROR = { name: 'Error', message: 'no' }
const LANES = Array.from({ length: 64 }, (_, lane) => lane)

/** A consumer with order that has stored these messages: `a1` is the first of key `a`. */
async function stored(world: World, ids: readonly string[]): Promise<Reader> {
  const reader = world.reader(undefined, { order: 'wait' })
  for (const id of ids) assertOutcome(await reader.deliver(id, { key: id.slice(0, 1) }), 'stored')
  return reader
}

async function seqOf(world: World, id: string): Promise<string> {
  return (
    (await world.store.inbox.find('billing', messageKey('/sender', id))) ?? assert.fail(`${id} is not in the inbox`)
  )
}

/** The seqs that a worker would begin with: of a look that need not show keys that cannot run. */
async function runnable(store: AnyStore, table: Origin): Promise<readonly string[]> {
  const scope = table === 'inbox' ? 'billing' : 'default'
  const [look] = await store.workers.look([
    { table, scope, types: ['ping'], lanes: LANES, limit: 640, after: new Map() },
  ])
  return (look?.entries ?? []).filter(({ held, dueMs }) => !held && dueMs <= 0).map(({ seq }) => seq)
}

/** The same by id, after a few looks: whatever a store does with keys that it found stuck is done by then. */
async function runnableIds(world: World, ids: readonly string[]): Promise<readonly string[]> {
  for (let look = 0; look < 3; look++) await runnable(world.store, 'inbox')
  const found = new Set(await runnable(world.store, 'inbox'))
  const seqs = await Promise.all(ids.map((id) => world.store.inbox.find('billing', messageKey('/sender', id))))
  return ids.filter((_, index) => found.has(seqs[index] ?? ''))
}

/** Puts a row off for a moment, and returns what is found meanwhile. Finding it may take longer than the moment: then again, with a longer one. */
async function meanwhile<T>(putOff: (delayMs: number) => Promise<unknown>, find: () => Promise<T>): Promise<T> {
  for (let delayMs = 1_000; ; delayMs *= 2) {
    // The time of day, which databases go by.
    const began = Date.now()
    await putOff(delayMs)
    const found = await find()
    if (Date.now() - began < delayMs) return found
  }
}

/** Takes these rows from the inbox for good; returns how many it got. */
function take(store: AnyStore, seqs: readonly string[]): Promise<number> {
  return store.transactions.run(OPTIONS, { kind: 'claim', seqs, locked: 'skip' }, async ({ claimed }) => ({
    value: claimed.size,
    writes: {},
  }))
}

/** Takes what can run until nothing can; returns what is left in the inbox, whatever it waits for. */
async function leftOf(world: World): Promise<number> {
  for (let seqs = await runnable(world.store, 'inbox'); seqs.length > 0; seqs = await runnable(world.store, 'inbox')) {
    await take(world.store, seqs)
  }
  return (await world.look()).entries.length
}

async function hold(world: World, id: string): Promise<void> {
  const row = { seq: await seqOf(world, id), attempts: 1, reason: 'permanent', error: ERROR, entry: '{}', hold: true }
  assert.ok(await world.store.inbox.fail({ ...row, leaseToken: null }))
}

/** Key a is held, and has two messages behind the held one; b is free. */
async function heldKey(world: World): Promise<Reader> {
  const reader = await stored(world, IDS)
  await hold(world, 'a1')
  assert.deepEqual(await runnableIds(world, IDS), ['b1'])
  return reader
}

const IDS = ['a1', 'a2', 'a3', 'b1']
const KEY_A = { origin: 'inbox', scope: 'billing', key: 'a' } as const

/** What ends the hold of key a, and what can run then. */
const ends: readonly { how: string; end(hapax: AnyHapax): Promise<unknown>; left: readonly string[] }[] = [
  { how: 'released', end: (hapax) => hapax.keys.release(KEY_A), left: ['a2', 'a3', 'b1'] },
  {
    how: 'discarded',
    end: async (hapax) => hapax.failed.discard((await failedOne(hapax, 'a1')).seq),
    left: ['a2', 'a3', 'b1'],
  },
  { how: 'retried', end: async (hapax) => hapax.failed.retry((await failedOne(hapax, 'a1')).seq), left: IDS },
]

const endings: readonly Case[] = ends.map(({ how, end, left }) => ({
  name: `K8: what waits behind a held message is found when that is ${how}, and one after the other`,
  run: async (world) => {
    const { hapax } = await heldKey(world)
    await end(hapax)
    assert.deepEqual(await runnableIds(world, IDS), left)
    for (const [index, id] of left.entries()) {
      assert.equal(await take(world.store, [await seqOf(world, id)]), 1)
      assert.deepEqual(await runnableIds(world, IDS), left.slice(index + 1))
    }
  },
}))

/** Rounds of a race in which something arrives for a key while it is let go. */
const ROUNDS = 15

export const stuckKeys: readonly Case[] = [
  ...endings,
  {
    name: 'K8: what waits behind a message that failed for good without holding its key is found',
    run: async (world) => {
      await stored(world, IDS)
      const seq = await seqOf(world, 'a1')
      const later = { attempts: 1, lost: 0, delayMs: 3_600_000, error: ERROR, entry: '{}', leaseToken: null }
      assert.ok(await world.store.inbox.reschedule({ seq, ...later }))
      assert.deepEqual(await runnableIds(world, IDS), ['b1'])
      const failed = { attempts: 1, reason: 'permanent', error: ERROR, entry: '{}', hold: false, leaseToken: null }
      assert.ok(await world.store.inbox.fail({ seq, ...failed }))
      assert.deepEqual(await runnableIds(world, IDS), ['a2', 'a3', 'b1'])
    },
  },
  {
    name: 'K8: a key that waits for its next attempt is found when its time has come, with all that is behind it',
    run: async (world) => {
      await stored(world, IDS)
      const row = { seq: await seqOf(world, 'a1'), attempts: 1, lost: 0, error: ERROR, entry: '{}', leaseToken: null }
      assert.ok(await world.store.inbox.reschedule({ ...row, delayMs: 3_600_000 }))
      assert.deepEqual(await runnableIds(world, IDS), ['b1'])
      assert.ok(await world.store.inbox.reschedule({ ...row, attempts: 2, delayMs: 2_000 }))
      await world.until(async () => (await runnableIds(world, IDS)).length === 4)
      assert.equal(await take(world.store, [row.seq]), 1)
      assert.deepEqual(await runnableIds(world, IDS), ['a2', 'a3', 'b1'])
    },
  },
  {
    name: 'K8: a leased message lets the next one of its key run when it is settled',
    run: async (world) => {
      await stored(world, IDS)
      const row = { seq: await seqOf(world, 'a1'), attempts: 1, lost: 0, error: ERROR, entry: '{}', leaseToken: null }
      const found = await meanwhile(
        async (delayMs) => assert.ok(await world.store.inbox.reschedule({ ...row, delayMs })),
        () => runnableIds(world, IDS),
      )
      assert.deepEqual(found, ['b1'])
      await world.until(async () => (await runnableIds(world, IDS)).includes('a1'))
      const [leased] = await world.store.inbox.lease([row.seq], crypto.randomUUID(), 60_000)
      assert.deepEqual(await runnableIds(world, IDS), ['b1'])
      const lease = { seq: row.seq, token: leased?.leaseToken as string, fence: leased?.fence as number }
      const settled = await world.store.transactions.run(OPTIONS, { kind: 'settle', lease }, async ({ claimed }) => ({
        value: claimed.size,
        writes: {},
      }))
      assert.equal(settled, 1)
      assert.deepEqual(await runnableIds(world, IDS), ['a2', 'a3', 'b1'])
    },
  },
  {
    name: 'K8: a handler that fails leaves the key as it was',
    run: async (world) => {
      const { hapax } = await heldKey(world)
      await hapax.failed.retry((await failedOne(hapax, 'a1')).seq)
      const opening = { kind: 'claim', seqs: [await seqOf(world, 'a1')], locked: 'skip' } as const
      await world.store.transactions.run(OPTIONS, opening, async ({ claimed }) => {
        assert.equal(claimed.size, 1)
        return { value: undefined, writes: undefined }
      })
      assert.deepEqual(await runnableIds(world, IDS), IDS)
    },
  },
  {
    name: 'K8: a message that is stored while its key is let go is not forgotten',
    needs: ['another store'],
    run: async (world) => {
      const reader = await stored(world, [])
      const rival = await world.rival()
      const other = world.reader(undefined, { order: 'wait', hapax: rival })
      for (let round = 0; round < ROUNDS; round++) {
        await reader.deliver(`first ${round}`, { key: 'a' })
        await reader.deliver(`second ${round}`, { key: 'a' })
        await hold(world, `first ${round}`)
        await runnable(world.store, 'inbox')
        await Promise.all([
          runnable(world.store, 'inbox'),
          reader.deliver(`third ${round}`, { key: 'a' }).then(() => runnable(world.store, 'inbox')),
          rival.keys.release(KEY_A),
          other.deliver(`fourth ${round}`, { key: 'a' }).then(() => runnable(world.store, 'inbox')),
        ])
        assert.equal(await leftOf(world), 0, `round ${round}`)
      }
    },
  },
  {
    name: 'K8: in the outbox, what waits behind a message is found when that is let go, postponed, or confirmed',
    run: async (world) => {
      const hapax = world.hapax()
      const { store } = world
      for (const id of ['a', 'b', 'c', 'd', 'e']) {
        await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }, { id }))
      }
      const rows = await runnable(store, 'outbox')
      const [a, b, c, d, e] = rows as [string, string, string, string, string]
      const left = async (): Promise<readonly string[]> => {
        for (let look = 0; look < 3; look++) await runnable(store, 'outbox')
        return runnable(store, 'outbox')
      }
      assert.ok(
        await store.outbox.refuse({ seq: a, reason: 'refused-by-broker', error: ERROR, entry: '{}', hold: true }),
      )
      assert.deepEqual(await left(), [])
      await hapax.keys.release({ origin: 'outbox', scope: 'default', key: 'key 1' })
      assert.deepEqual(await left(), [b, c, d, e])
      const found = await meanwhile(
        (delayMs) => store.outbox.postpone([{ seq: b, delayMs, error: ERROR, entry: '{}' }]),
        left,
      )
      assert.deepEqual(found, [])
      await world.until(async () => (await left()).length === 4)
      assert.deepEqual(await store.outbox.confirm([b], false), [])
      assert.deepEqual(await left(), [c, d, e])
      assert.deepEqual(await store.outbox.confirm([c], true), [])
      assert.deepEqual(await left(), [d, e])
      assert.ok(
        await store.outbox.refuse({ seq: d, reason: 'refused-by-broker', error: ERROR, entry: '{}', hold: false }),
      )
      assert.deepEqual(await left(), [e])
    },
  },
  {
    name: 'K8: keys whose turn has come with a type that a worker does not handle do not keep others from it',
    run: async (world) => {
      const { store } = world
      const lane = laneOfKey('mine')
      const others = Array.from({ length: 2_000 }, (_, n) => `key ${n}`).filter((key) => laneOfKey(key) === lane)
      const reader = world.reader(undefined, { order: 'wait' })
      reader.consumer.on(Pong, () => {})
      const waiting = { attempts: 1, lost: 0, delayMs: 3_000, error: ERROR, entry: '{}', leaseToken: null }
      for (const key of others.slice(0, 6)) assertOutcome(await reader.deliver(key, { key }), 'stored')
      for (const key of others.slice(0, 6)) await store.inbox.reschedule({ seq: await seqOf(world, key), ...waiting })
      assertOutcome(await reader.deliver('mine', { key: 'mine', type: 'pong' }), 'stored')
      const mine = await seqOf(world, 'mine')
      await store.inbox.reschedule({ seq: mine, ...waiting })
      const share = { table: 'inbox', scope: 'billing', lanes: [lane], limit: 4 } as const
      let after: ReadonlyMap<number, string> = new Map()
      for (let look = 0; look < 3; look++)
        await store.workers.look([{ ...share, limit: 100, types: ['ping', 'pong'], after }])
      await world.until(async () => {
        const [look] = await store.workers.look([{ ...share, types: ['pong'], after }])
        after = look?.after ?? after
        return look?.entries.some(({ seq, dueMs }) => seq === mine && dueMs <= 0) === true
      })
    },
  },
]
