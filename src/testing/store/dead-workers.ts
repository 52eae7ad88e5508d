import assert from 'node:assert/strict'
import { type Case, parallelOnly } from './case.ts'

const IDS = Array.from({ length: 20 }, (_, index) => `m${index}`)
const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

export const deadWorkers: readonly Case[] = [
  {
    name: 'C2: what a dead worker had in hand becomes suspect; what somebody works on does not',
    skip: parallelOnly,
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliverMany(['a', 'b', 'c'])
      const seqs = (await world.look()).entries.map((entry) => entry.seq)
      const [a, b] = seqs as [string, string]
      await world.store.join({ id: 'dead', name: 'dead', ttlMs: 1, serves: '{}' })
      assert.ok(await world.store.note('dead', [a, b], false))
      await world.store.join({ id: 'alive', name: 'alive', ttlMs: 60_000, serves: '{}' })
      assert.ok(await world.store.note('alive', seqs, false))
      await world.until(async () => (await world.hapax().status()).workers.some(({ alive }) => !alive))
      await world.store.transaction(OPTIONS, { kind: 'claim', seqs: [a], locked: 'skip' }, async () => {
        assert.equal(await world.store.bury(), 1)
        return { value: undefined, writes: undefined }
      })
      const { entries } = await world.look()
      assert.deepEqual(new Set(entries.filter(({ suspect }) => suspect).map(({ seq }) => seq)), new Set([b]))
      assert.equal(await world.store.bury(), 0)
      assert.equal(await world.store.note('dead', [], false), false)
      assert.equal(await world.store.beat('dead', [], false), undefined)
      const workers = await world.store.beat('alive', [], false)
      assert.deepEqual(
        workers?.map(({ id, alive }) => ({ id, alive })),
        [{ id: 'alive', alive: true }],
      )
    },
  },
  {
    name: 'C2: a message that ended its process three times while it was alone is parked; a bystander is not',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliverMany(['killer', 'bystander'])
      const killer = (await world.entry('killer'))?.seq as string
      const bystander = (await world.entry('bystander'))?.seq as string
      for (let time = 0; time < 10; time++) await world.crash([killer, bystander])
      for (let time = 0; time < 3; time++) await world.crash([killer], true)
      await world.drain(reader)
      assert.deepEqual(reader.calls, ['bystander'])
      const failed = await reader.hapax.failed.list()
      assert.deepEqual(
        failed.map(({ message, reason }) => [message.id, reason]),
        [['killer', 'crash-loop']],
      )
      await world.assertEffects(['bystander'])
    },
  },
  {
    name: 'a suspect runs alone',
    skip: parallelOnly,
    run: async (world) => {
      let running = 0
      let most = 0
      let beside = 0
      const reader = world.reader(
        async ({ tx, message }) => {
          running += 1
          most = Math.max(most, running)
          await world.database.effect(tx, message.id)
          if (message.id === 'suspect') beside = Math.max(beside, running)
          running -= 1
        },
        { receive: 'store', concurrency: 4 },
      )
      await reader.deliverMany(['suspect', ...IDS])
      const seq = (await world.entry('suspect'))?.seq as string
      await world.crash([seq])
      await world.drain(reader)
      assert.equal(beside, 1)
      await world.assertEffects(['suspect', ...IDS])
    },
  },
  {
    name: 'lanes are shared: what belongs to a worker that is heard is left to it, and taken over when it dies',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await world.store.join({
        id: 'other',
        name: 'other',
        ttlMs: 1_500,
        serves: JSON.stringify({ consumers: { billing: ['ping'] }, relays: [] }),
      })
      const worker = await world.worker(reader, { takeoverMs: 1_000 })
      await reader.deliverMany(IDS)
      // Nobody beats for the other one, so that it dies, and then there is nothing left.
      await worker.drain()
      await world.assertEffects(IDS)
      await worker.stop()
      assert.deepEqual((await reader.hapax.status()).workers, [])
    },
  },
  {
    name: 'a worker that was held to be dead says hello again and goes on',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      const worker = await world.worker(reader, { takeoverMs: 300 })
      const [first] = (await reader.hapax.status()).workers
      assert.ok(first)
      await world.store.leave(first.id)
      await reader.deliverMany(IDS)
      await worker.drain()
      await world.assertEffects(IDS)
      await world.until(async () => (await reader.hapax.status()).workers.some(({ id }) => id !== first.id))
      await worker.stop()
    },
  },
]
