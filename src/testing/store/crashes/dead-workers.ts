import assert from 'node:assert/strict'
import { type Case, parallelOnly } from '../case.ts'
import { gate, Ping, ping } from '../world.ts'

const IDS = Array.from({ length: 20 }, (_, index) => `m${index}`)
const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

export const deadWorkers: readonly Case[] = [
  {
    name: 'C2: what a dead worker had in hand becomes suspect; what a live one works on does not',
    skip: parallelOnly,
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      await reader.deliverMany(['a', 'b', 'c'])
      const seqs = (await world.look()).entries.map((entry) => entry.seq)
      const [a, b] = seqs as [string, string]
      await world.store.workers.join({ id: 'dead', name: 'dead', ttlMs: 1, serves: '{}' })
      assert.ok(await world.store.workers.note('dead', { seqs: [a, b], alone: false }, false))
      await world.store.workers.join({ id: 'alive', name: 'alive', ttlMs: 60_000, serves: '{}' })
      assert.ok(await world.store.workers.note('alive', { seqs, alone: false }, false))
      await world.until(async () => (await world.hapax().status()).workers.some(({ alive }) => !alive))
      await world.store.transactions.run(OPTIONS, { kind: 'claim', seqs: [a], locked: 'skip' }, async () => {
        assert.equal(await world.store.workers.bury(), 1)
        return { value: undefined, writes: undefined }
      })
      const { entries } = await world.look()
      assert.deepEqual(new Set(entries.filter(({ deaths }) => deaths > 0).map(({ seq }) => seq)), new Set([b]))
      assert.equal(await world.store.workers.bury(), 0)
      assert.equal(await world.store.workers.note('dead', { seqs: [], alone: false }, false), undefined)
      assert.equal(await world.store.workers.note('dead', { seqs: [], alone: false }, true), undefined)
      const workers = await world.store.workers.note('alive', { seqs: [], alone: false }, true)
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
      assert.equal((await world.entry('killer'))?.deaths, 10)
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
    name: 'a message that was in hand at two deaths runs alone',
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
      await world.crash([seq])
      await world.drain(reader)
      assert.equal(beside, 1)
      await world.assertEffects(['suspect', ...IDS])
    },
  },
  {
    name: 'K7: what was in hand at one death does not wait until every other handler of its process has ended',
    skip: parallelOnly,
    run: async (world) => {
      const hapax = world.hapax()
      const entered = gate()
      const go = gate()
      const slow = world.reader(
        async () => {
          entered.open()
          await go.passed
        },
        { hapax, name: 'slow', receive: 'store', concurrency: 1, timeoutMs: 600_000 },
      )
      const quick = world.reader(undefined, { hapax, receive: 'store', concurrency: 2, group: { size: 10 } })
      // Before there is a worker, which might bury the dead one itself.
      await quick.deliverMany(IDS)
      await world.crash(await world.due())
      await slow.deliver('slow')
      const first = await world.worker(slow)
      await entered.passed
      await quick.deliverMany(['later'])
      const worker = await world.worker(quick)
      await world.until(async () => (await world.database.effects()).length === IDS.length + 1)
      go.open()
      await Promise.all([first.drain(), worker.drain()])
      await world.assertEffects([...IDS, 'later'])
    },
  },
  {
    name: 'K7: few of what was in hand at a death run at once, and each in a group of its own',
    skip: parallelOnly,
    run: async (world) => {
      let running = 0
      let most = 0
      const hapax = world.hapax()
      const groups: string[] = []
      const consumer = hapax.consumer('billing', { receive: 'store', concurrency: 5, group: { size: 10 } })
      consumer.onMany(Ping, async (items, { tx }) => {
        const ids = items.map(({ message }) => message.id)
        running += 1
        most = Math.max(most, running)
        for (const id of ids) await world.database.effect(tx, id)
        groups.push(ids.join(' '))
        running -= 1
      })
      await consumer.handleMany(IDS.map((id) => ping(id)))
      await world.crash(await world.due())
      await world.drain({ hapax, consumer })
      assert.deepEqual(groups.sort(), [...IDS].sort())
      assert.ok(most <= 2, `${most} at once`)
      await world.assertEffects(IDS)
    },
  },
  {
    name: 'K7: every consumer gets its turn when messages of several have to run alone',
    skip: parallelOnly,
    run: async (world) => {
      const hapax = world.hapax()
      const names = ['one', 'two', 'three']
      const readers = names.map((name) => world.reader(undefined, { hapax, name, receive: 'store' }))
      for (const [at, reader] of readers.entries()) await reader.deliverMany(IDS.map((id) => `${names[at]} ${id}`))
      const all = await Promise.all(names.map((scope) => world.look({ scope })))
      const seqs = all.flatMap(({ entries }) => entries.slice(0, 3)).map(({ seq }) => seq)
      await world.crash(seqs)
      await world.crash(seqs)
      const worker = await world.worker({ hapax }, { consume: readers.map(({ consumer }) => consumer) })
      await worker.drain()
      await world.assertEffects(names.flatMap((name) => IDS.map((id) => `${name} ${id}`)))
    },
  },
  {
    name: 'lanes are shared: ordered rows in the lanes of a live worker are left to it, and taken over when it dies',
    run: async (world) => {
      const reader = world.reader(undefined, { order: 'wait' })
      await world.store.workers.join({
        id: 'other',
        name: 'other',
        ttlMs: 1_500,
        serves: JSON.stringify({ consumers: { billing: ['ping'] }, relays: [] }),
      })
      const worker = await world.worker(reader, { takeoverMs: 1_000 })
      await reader.consumer.handleMany(
        IDS.map((id) => ({ id, source: '/sender', type: 'ping', data: { n: 1 }, key: id })),
      )
      // Nothing sends heartbeats for the other worker, so it is presumed dead, and then nothing is left.
      await worker.drain()
      await world.assertEffects(IDS)
      await worker.stop()
      assert.deepEqual((await reader.hapax.status()).workers, [])
    },
  },
  {
    name: 'a worker that was presumed dead registers again and continues',
    run: async (world) => {
      const reader = world.reader(undefined, { receive: 'store' })
      const worker = await world.worker(reader, { takeoverMs: 300 })
      const [first] = (await reader.hapax.status()).workers
      assert.ok(first)
      await world.store.workers.leave(first.id)
      await reader.deliverMany(IDS)
      await worker.drain()
      await world.assertEffects(IDS)
      await world.until(async () => (await reader.hapax.status()).workers.some(({ id }) => id !== first.id))
      await worker.stop()
    },
  },
]
