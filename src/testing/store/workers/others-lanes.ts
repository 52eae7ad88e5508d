import assert from 'node:assert/strict'
import { present } from '../../../base/index.ts'
import type { Share } from '../../../contracts/index.ts'
import { defineMessage, lanesOf, nextLanesOf } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import { TestDestination } from '../doubles.ts'
import { type Count, Ping, type World } from '../world.ts'

const IDS = Array.from({ length: 40 }, (_, index) => `m${index}`)
/** Too long for any takeover by heartbeat. */
const NEVER = 1e9
const Keyed = defineMessage<Count>('ping', { key: ({ n }) => `k${n}` })

/** A live worker that does nothing. Some of the lanes belong to it. */
async function another(world: World, seqs: readonly string[] = [], id = 'other'): Promise<void> {
  const serves = JSON.stringify({ consumers: { billing: ['ping'] }, relays: ['default'] })
  await world.store.workers.join({ id, name: id, ttlMs: NEVER, serves })
  assert.ok(await world.store.workers.note(id, { seqs, alone: false }, true))
}

async function effects(world: World): Promise<number> {
  return (await world.database.effects()).length
}

export const othersLanes: readonly Case[] = [
  {
    name: 'rows without order are handled by an idle worker, whichever worker has their lanes',
    run: async (world) => {
      await another(world)
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliverMany(IDS)
      const worker = await world.worker(reader, { takeoverMs: NEVER })
      await worker.drain()
      await world.assertEffects(IDS)
    },
  },
  {
    name: 'rows without a key of a consumer with order are handled by an idle worker; those with a key wait for theirs',
    run: async (world) => {
      await another(world)
      const hapax = world.hapax({ delivery: 'local' })
      const reader = world.reader(undefined, { hapax, order: 'wait' })
      await world.worker(reader, { takeoverMs: 1_000 })
      await hapax.transaction(async (tx) => {
        for (let n = 0; n < 40; n++) await hapax.publish(tx, Keyed, { n }, { id: `keyed${n}` })
        for (const id of IDS) await hapax.publish(tx, Ping, { n: 1 }, { id })
      })
      await world.until(async () => IDS.every((id) => reader.calls.includes(id)))
      const keyed = reader.calls.filter((id) => id.startsWith('keyed'))
      assert.ok(keyed.length < 40, 'the other worker has no lane')
      await world.store.workers.leave('other')
      await world.until(async () => (await effects(world)) === 80)
    },
  },
  {
    name: 'K7: rows that another worker has recorded are left to it, however long they are overdue',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliverMany(IDS)
      const noted = (await world.look()).entries.map(({ seq }) => seq).slice(0, 20)
      await another(world, noted)
      const { entries } = await world.look()
      const worker = await world.worker(reader, { takeoverMs: 1_000 })
      const isNoted = ({ seq }: { seq: string }): boolean => noted.includes(seq)
      const lanes = async (): Promise<number> => (await world.look()).entries.filter((entry) => !isNoted(entry)).length
      await world.until(async () => (await lanes()) === 0)
      // Recorded rows in the other worker's lanes remain; those that happen to lie in ours may be taken.
      assert.ok((await world.look()).entries.every(isNoted))
      assert.ok(entries.length === 40 && (await world.look()).entries.length > 0)
      await world.store.workers.leave('other')
      await worker.drain()
      await world.assertEffects(IDS)
    },
  },
  {
    name: 'messages without a key are sent by an idle relay, whichever worker has their lanes',
    run: async (world) => {
      await another(world)
      const hapax = world.hapax()
      await hapax.transaction(async (tx) => {
        for (const id of IDS) await hapax.publish(tx, Ping, { n: 1 }, { id })
      })
      const relay = new TestDestination()
      await world.worker({ hapax }, { relay, takeoverMs: NEVER })
      await world.until(async () => (await world.database.outbox()).length === 0)
      assert.deepEqual([...relay.arrived].sort(), [...IDS].sort())
    },
  },
  {
    name: 'of several relays, one alone sends what the owner of a lane leaves: not all of them, while a broker is slow',
    run: async (world) => {
      const ghosts = ['a', 'b', 'c']
      for (const id of ghosts) await another(world, [], id)
      const hapax = world.hapax()
      await hapax.transaction(async (tx) => {
        for (let n = 0; n < 200; n++) await hapax.publish(tx, Ping, { n })
      })
      const { entries } = await world.look({ table: 'outbox', scope: 'default', types: [] })
      const relay = new TestDestination()
      await world.worker({ hapax }, { relay, takeoverMs: NEVER })
      const ids = (await world.store.workers.list()).map(({ id }) => id)
      const own = present(
        ids.find((id) => !ghosts.includes(id)),
        'the worker',
      )
      const lanes = new Set([...lanesOf(own, ids), ...nextLanesOf(own, ids)])
      const sent = entries.filter(({ lane }) => lanes.has(lane)).length
      await world.until(async () => relay.arrived.length >= sent)
      assert.equal(relay.arrived.length, sent)
      assert.ok(sent < 200)
      for (const id of ghosts) await world.store.workers.leave(id)
    },
  },
  {
    name: 'a look for overdue rows lists only rows without order that are due for long enough and that no dead worker had in hand',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      world.reader(undefined, { hapax })
      world.reader(undefined, { hapax, name: 'ordered', order: 'wait' })
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Keyed, { n: 1 })
        await hapax.publish(tx, Keyed, { n: 2 }, { delayMs: 0 })
      })
      const seqs = async (share: Partial<Share>): Promise<number> =>
        (await world.look({ all: false, ...share })).entries.length
      assert.equal(await seqs({ overdueMs: 0 }), 2)
      assert.equal(await seqs({ overdueMs: 3_600_000 }), 0)
      assert.equal(await seqs({ overdueMs: 0, types: ['pong'] }), 0)
      assert.equal(await seqs({ overdueMs: 0, lanes: [] }), 0)
      assert.equal(await seqs({ scope: 'ordered' }), 2)
      assert.equal(await seqs({ scope: 'ordered', overdueMs: 0 }), 0)
      const [entry] = (await world.look()).entries
      await world.crash([entry?.seq ?? ''])
      assert.equal(await seqs({ overdueMs: 0 }), 1)
      // Together with a usual share, and for a table without one.
      const all = { types: ['ping'], lanes: [...Array(64).keys()], limit: 640, after: new Map() } as const
      const looks = await world.store.workers.look([
        { ...all, table: 'inbox', scope: 'billing' },
        { ...all, table: 'inbox', scope: 'billing', overdueMs: 0 },
        { ...all, table: 'outbox', scope: 'default', overdueMs: 0 },
      ])
      assert.deepEqual(
        looks.map(({ entries }) => entries.length),
        [2, 1, 0],
      )
      assert.ok(looks.slice(1).every(({ nextMs, after }) => nextMs === undefined && after.size === 0))
    },
  },
]
