import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import type { Consumer, Worker } from '../../../contracts/index.ts'
import { altered } from '../../altered.ts'
import type { Case } from '../case.ts'
import { type AnyHapax, type AnyStore, type Gate, gate, Ping, Pong, ping, type Tx } from '../world.ts'

/** Runs `work` while one worker works for all these consumers. */
async function withWorker(
  hapax: AnyHapax,
  consume: readonly Consumer<Tx>[],
  work: (worker: Worker) => Promise<void>,
): Promise<void> {
  const worker = hapax.worker({ consume, pollMs: 1 })
  await worker.start()
  try {
    await work(worker)
  } finally {
    await worker.stop()
  }
}

/** A reply that the store has sent and that has not arrived yet. */
interface Held {
  readonly given: Gate
  readonly arrives: Gate
}

/** The same store on a connection that delays a reply about the inbox until it is outdated. */
function holding(store: AnyStore): { store: AnyStore; hold(): Held } {
  let held: Held | undefined
  const hold = (): Held => {
    held = { given: gate(), arrives: gate() }
    return held
  }
  const look: AnyStore['workers']['look'] = async (shares) => {
    const answer = await store.workers.look(shares)
    if (held === undefined) return answer
    const { given, arrives } = held
    held = undefined
    given.open()
    await arrives.passed
    return answer
  }
  return { store: altered(store, { workers: { look } }), hold }
}

const together: readonly Case[] = [
  {
    name: 'drain does not resolve before what was committed is handled by every consumer',
    run: async (world) => {
      const { store, hold } = holding(world.store)
      const hapax = world.hapax({ delivery: 'local', store })
      const readers = ['one', 'two', 'three'].map((name) =>
        world.reader(({ tx, message }) => world.database.effect(tx, `${name} ${message.id}`), { hapax, name }),
      )
      const consumers = readers.map(({ consumer }) => consumer)
      await withWorker(hapax, consumers, async (worker) => {
        for (let round = 1; round <= 50; round++) {
          const { given, arrives } = hold()
          await given.passed
          await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: round }))
          const drained = worker.drain()
          arrives.open()
          await drained
          assert.equal((await world.database.effects()).length, 3 * round)
        }
      })
    },
  },
  {
    name: 'E9: consumers that share a worker keep their own concurrency, and the messages of one do not wait for those of another',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      const crowd = 40
      let running = 0
      let most = 0
      let done = 0
      let doneBefore = crowd
      const quickRan = gate()
      const crowded = hapax.consumer('crowded', { concurrency: 1 }).on(Ping, async (_, { tx, message }) => {
        most = Math.max(most, ++running)
        await world.database.effect(tx, message.id)
        // Whatever holds up the other one, it is not this.
        if (world.features.parallelWriters && done === crowd / 4) await quickRan.passed
        await setImmediate()
        running -= 1
        done += 1
      })
      const quick = hapax.consumer('quick', { concurrency: 4 }).on(Pong, () => {
        doneBefore = done
        quickRan.open()
      })
      const drafts = Array.from({ length: crowd }, (_, n) => Ping.of({ n }))
      await hapax.transaction((tx) => hapax.publishMany(tx, [...drafts, Pong.of({ n: 0 })]))
      await withWorker(hapax, [crowded, quick], (worker) => worker.drain())
      assert.equal((await world.database.effects()).length, crowd)
      assert.equal(most, 1)
      assert.ok(doneBefore < crowd / 2, `it waited for ${doneBefore} of ${crowd}`)
    },
  },
]

const crashes: readonly Case[] = [
  {
    name: 'C2: what was in flight when two processes died runs alone afterwards',
    run: async (world) => {
      const hapax = world.hapax()
      let running = 0
      const calls: string[] = []
      const consumer = hapax.consumer('billing', { receive: 'store', group: { size: 3 } })
      consumer.onMany(Ping, async (items, { tx }) => {
        running += 1
        for (const { message } of items) await world.database.effect(tx, message.id)
        await setImmediate()
        calls.push(`${items.map(({ message }) => message.id).join(' ')} of ${running}`)
        running -= 1
      })
      const store = (ids: readonly string[]) => consumer.handleMany(ids.map((id) => ping(id)))
      await store(['a', 'b', 'c', 'd'])
      const seqs = await world.due()
      await world.crash(seqs)
      await world.crash(seqs)
      await store(['e', 'f'])
      await world.drain({ hapax, consumer })
      // The others may have their turn in between: suspects do not keep the floor for long.
      assert.deepEqual(calls.sort(), ['a of 1', 'b of 1', 'c of 1', 'd of 1', 'e f of 1'])
      await world.assertEffects(['a', 'b', 'c', 'd', 'e', 'f'])
    },
  },
  {
    name: 'C2: a message that ends its process again and again takes no neighbour along into failed',
    run: async (world) => {
      const ids = ['a', 'b', 'killer', 'c', 'd']
      const reader = world.reader(undefined, { receive: 'store', group: { size: 5 } })
      await reader.deliverMany(ids)
      await world.crash(await world.due())
      const killer = (await world.entry('killer'))?.seq as string
      for (let run = 0; run < 3; run++) await world.crash([killer], true)
      await world.drain(reader)
      await world.assertEffects(['a', 'b', 'c', 'd'])
      assert.ok(!reader.calls.includes('killer'))
      assert.deepEqual(
        (await reader.hapax.failed.list()).map(({ message, reason }) => [message.id, reason]),
        [['killer', 'crash-loop']],
      )
    },
  },
]

export const sharing: readonly Case[] = [...together, ...crashes]
