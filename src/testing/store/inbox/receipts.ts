import assert from 'node:assert/strict'
import { present } from '../../../base/index.ts'
import type { UnitOptions } from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import { compareSeq, fingerprint, messageKey } from '../../../message/index.ts'
import { atEachLevel, type Case } from '../case.ts'
import { lossy, watched } from '../doubles.ts'
import { assertOutcome, assertRejects, gate, statuses, type World } from '../world.ts'

/** Two readers of one consumer, as two processes have them; the first one's handler waits until it is let go. */
async function race(world: World, { winner = 'commits', lockTimeoutMs = 20_000 } = {}) {
  const running = gate()
  const go = gate()
  const first = world.reader(
    async ({ tx }) => {
      await world.database.effect(tx, 'first')
      running.open()
      await go.passed
      if (winner === 'rolls back') throw new Error('given up')
    },
    { onError: 'rollback' },
  )
  const { store, begun } = watched(await world.database.another(), world.features)
  const second = world.reader(({ tx }) => world.database.effect(tx, 'second'), {
    hapax: world.hapax({ store }),
    lockTimeoutMs,
  })
  const winning = first.deliver('a')
  await running.passed
  return { go, begun, second, winning }
}

const levels: readonly Case[] = [
  {
    name: 'processes a first delivery: effect and receipt are there',
    run: async (world) => {
      const reader = world.reader()
      assertOutcome(await reader.deliver('a'), 'processed')
      await world.assertEffects(['a'])
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'A2: acknowledges a duplicate without calling the handler',
    run: async (world) => {
      const reader = world.reader()
      await reader.deliver('a')
      assertOutcome(await reader.deliver('a'), 'duplicate')
      assert.deepEqual(reader.calls, ['a'])
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'reports when a duplicate was first taken',
    run: async (world) => {
      const reader = world.reader()
      const times: (Date | undefined)[] = []
      reader.hapax.events.on('duplicate', ({ takenAt }) => times.push(takenAt))
      await reader.deliver('a')
      await reader.deliver('a')
      const [receipt] = await reader.hapax.explain('a')
      assert.deepEqual(times, [receipt?.at])
      assert.ok(Math.abs(Date.now() - Number(times[0])) < 60_000)
    },
  },
  {
    name: 'A27: a duplicate that waits for the winner is a duplicate when the winner commits',
    needs: ['another store'],
    run: async (world) => {
      const { go, begun, second, winning } = await race(world)
      const losing = second.deliver('a')
      await begun.passed
      go.open()
      assertOutcome(await winning, 'processed')
      assertOutcome(await losing, 'duplicate')
      await world.assertEffects(['first'])
    },
  },
  {
    name: 'A14: a duplicate that waits for the winner runs when the winner rolls back',
    needs: ['another store'],
    run: async (world) => {
      const { go, begun, second, winning } = await race(world, { winner: 'rolls back' })
      const losing = second.deliver('a')
      await begun.passed
      go.open()
      assertOutcome(await winning, 'rolled-back')
      assertOutcome(await losing, 'processed')
      await world.assertEffects(['second'])
    },
  },
  {
    name: 'A13: while the winner is paused its duplicate is busy and never acknowledged',
    needs: ['another store'],
    run: async (world) => {
      const { go, second, winning } = await race(world, { lockTimeoutMs: 30 })
      assertOutcome(await second.deliver('a'), 'busy', 'busy')
      assert.deepEqual(second.calls, [])
      go.open()
      assertOutcome(await winning, 'processed')
      assertOutcome(await second.deliver('a'), 'duplicate')
      await world.assertEffects(['first'])
    },
  },
  {
    name: 'A14: of many duplicates that wait, one runs when the winner rolls back',
    needs: ['another store'],
    run: async (world) => {
      const { go, begun, second, winning } = await race(world, { winner: 'rolls back' })
      const third = world.reader(({ tx }) => world.database.effect(tx, 'third'), { hapax: await world.rival() })
      const losing = [second.deliver('a'), third.deliver('a')]
      await begun.passed
      go.open()
      await winning
      assert.deepEqual(statuses(await Promise.all(losing)), ['duplicate', 'processed'])
      assert.equal((await world.database.effects()).length, 1)
    },
  },
  {
    name: 'A1: a commit that succeeded without a reply is recognised and not repeated',
    run: async (world) => {
      const reader = world.reader(undefined, { hapax: world.hapax({ store: lossy(world.store, 'after') }) })
      assertOutcome(await reader.deliver('a'), 'processed')
      assert.deepEqual(reader.calls, ['a'])
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A1: a commit that failed without a reply is run again',
    run: async (world) => {
      const reader = world.reader(undefined, { hapax: world.hapax({ store: lossy(world.store, 'before') }) })
      assertOutcome(await reader.deliver('a'), 'processed')
      assert.deepEqual(reader.calls, ['a', 'a'])
      await world.assertEffects(['a'])
      await world.assertPlaces('a', ['receipt'])
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'F9: two consumers each take the same message once',
    run: async (world) => {
      const hapax = world.hapax()
      const billing = world.reader(({ tx }) => world.database.effect(tx, 'billing'), { hapax })
      const stock = world.reader(({ tx }) => world.database.effect(tx, 'stock'), { hapax, name: 'stock' })
      for (const reader of [billing, stock, billing, stock]) await reader.deliver('a')
      await world.assertEffects(['billing', 'stock'])
    },
  },
  {
    name: 'the token in a receipt is the one it was written under',
    run: async (world) => {
      const message = stored('/sender', 'a')
      assert.equal(await take(world, message, FIRST_TOKEN), undefined)
      const receipt = await take(world, message, SECOND_TOKEN)
      assert.equal(receipt?.token, FIRST_TOKEN)
      assert.deepEqual(
        [receipt?.source, receipt?.id, receipt?.fingerprint],
        ['/sender', 'a', fingerprint(message.data)],
      )
    },
  },
  {
    name: 'a receipt of a transaction that rolls back is gone',
    run: async (world) => {
      const message = stored('/sender', 'a')
      await world.store.transactions.run(UNIT, opening(message, FIRST_TOKEN), async () => ({
        value: 0,
        writes: undefined,
      }))
      assert.equal(await take(world, message, SECOND_TOKEN), undefined)
    },
  },
  {
    name: 'F14: another message under the same key is a conflict, kept in failed, never silence',
    run: async (world) => {
      await take(world, { ...stored('/sender', 'a'), source: '/other', id: 'b' }, FIRST_TOKEN)
      const reader = world.reader()
      assertOutcome(await reader.deliver('a'), 'conflict', 'conflict')
      assert.deepEqual(reader.calls, [])
      const [failed] = await reader.hapax.failed.list()
      assert.deepEqual([failed?.message.id, failed?.reason], ['a', 'conflict'])
    },
  },
  {
    name: 'F7: the same id with another payload is a duplicate that is reported',
    run: async (world) => {
      const reader = world.reader()
      const told: string[] = []
      reader.hapax.events.on('mismatch', ({ message }) => told.push(message.id))
      await reader.deliver('a')
      assertOutcome(await reader.deliver('a', { data: { n: 2 } }), 'duplicate')
      assert.deepEqual(told, ['a'])
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'F7: the same id with another payload is a conflict if the consumer is configured so',
    run: async (world) => {
      const reader = world.reader(undefined, { onMismatch: 'conflict' })
      await reader.deliver('a')
      assertOutcome(await reader.deliver('a', { data: { n: 2 } }), 'conflict', 'conflict')
      assertOutcome(await reader.deliver('a', { data: { n: 2 } }), 'conflict')
      assertOutcome(await reader.deliver('a'), 'duplicate')
      assert.deepEqual(
        (await reader.hapax.failed.list()).map(({ message, reason }) => [message.id, reason]),
        [['a', 'conflict']],
      )
    },
  },
  {
    name: 'F8: the fingerprint is that of the bytes as they came',
    run: async (world) => {
      const reader = world.reader()
      let told = 0
      reader.hapax.events.on('mismatch', () => told++)
      await reader.deliver('a', { data: Buffer.from('{"n":1}') })
      await reader.deliver('a', { data: Buffer.from('{"n":1}') })
      assert.equal(told, 0)
      await reader.deliver('a', { data: Buffer.from('{"n": 1}') })
      assert.equal(told, 1)
    },
  },
  {
    name: 'A12: a herd of 200 duplicates on four connections ends with one effect',
    connection: true,
    open: { connections: 4 },
    run: async (world) => {
      const reader = world.reader()
      const outcomes = await Promise.all(Array.from({ length: 200 }, () => reader.deliver('a')))
      assert.deepEqual(statuses(outcomes), [...Array.from({ length: 199 }, () => 'duplicate'), 'processed'])
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A12: two herds of duplicates on two stores end with one effect',
    needs: ['another store'],
    open: { connections: 4 },
    run: async (world) => {
      const readers = [world.reader(), world.reader(undefined, { hapax: await world.rival() })]
      const herd = readers.flatMap((reader) => Array.from({ length: 50 }, () => reader.deliver('a')))
      const outcomes = statuses(await Promise.all(herd))
      assert.equal(outcomes.filter((status) => status === 'processed').length, 1)
      assert.equal(outcomes.filter((status) => status === 'duplicate').length, 99)
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A28: a handler that hands its own message to its own consumer is refused at once',
    run: async (world) => {
      const reader = world.reader(async ({ tx, message }) => {
        await assertRejects(reader.deliver(message.id), 'reentrant')
        await world.database.effect(tx, message.id)
      })
      assertOutcome(await reader.deliver('a'), 'processed')
      await world.assertEffects(['a'])
    },
  },
  {
    name: 'A28: a handler that opens a second transaction does not wait for itself',
    connection: true,
    run: async (world) => {
      const reader = world.reader(async ({ tx }) => {
        const second = reader.hapax.transaction((other) => world.database.effect(other, 'second'))
        if (world.features.parallelWriters) await second
        else await assertRejects(second, 'nested-transaction')
        await world.database.effect(tx, 'first')
      })
      assertOutcome(await reader.deliver('a'), 'processed')
      await world.assertEffects(world.features.parallelWriters ? ['first', 'second'] : ['first'])
    },
  },
]

const storing: readonly Case[] = [
  {
    name: 'stores deliveries with their receipts, in their order, and tells which were there before, and by whom',
    run: async (world) => {
      const messages = ['c', 'a', 'b'].map((id) => stored('/shop', id))
      const [, second] = messages
      assert.equal(await take(world, present(second, 'a message'), FIRST_TOKEN), undefined)
      const { existing, seqs } = await store(world, messages, SECOND_TOKEN)
      assert.deepEqual([...existing.keys()], [second?.messageKey])
      assert.equal(existing.get(second?.messageKey ?? '')?.token, FIRST_TOKEN)
      assert.equal(existing.get(second?.messageKey ?? '')?.fingerprint, second?.fingerprint)
      const found = await Promise.all(messages.map((each) => world.store.inbox.find('billing', each.messageKey)))
      assert.deepEqual(
        found.map((seq) => seq !== undefined),
        [true, false, true],
      )
      assert.ok(compareSeq(found[0] ?? '', found[2] ?? '') < 0)
      for (const [key, seq] of seqs) assert.equal(await world.store.inbox.find('billing', key), seq)
      const again = await store(world, messages, FIRST_TOKEN)
      assert.equal(again.existing.get(messages[0]?.messageKey ?? '')?.token, SECOND_TOKEN)
      assert.equal(again.seqs.size, 0)
    },
  },
  {
    name: 'groups that overlap are stored at the same time, whatever their order: each message once',
    run: async (world) => {
      const messages = Array.from({ length: 30 }, (_, index) => stored('/shop', `m-${index}`))
      const calls = Array.from({ length: 8 }, (_, index) =>
        store(world, index % 2 === 0 ? messages : [...messages].reverse(), crypto.randomUUID()),
      )
      const fresh = (await Promise.all(calls)).map(({ existing }) => messages.length - existing.size)
      assert.equal(
        fresh.reduce((sum, count) => sum + count, 0),
        messages.length,
      )
    },
  },
]

export const receipts: readonly Case[] = [...atEachLevel(levels), ...once, ...storing]

const FIRST_TOKEN = '00000000-0000-4000-8000-000000000001'
const SECOND_TOKEN = '00000000-0000-4000-8000-000000000002'
const UNIT: UnitOptions = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

function opening(message: StoredMessage, token: string) {
  return { kind: 'take', consumer: 'billing', token, messages: [message] } as const
}

/** Stores deliveries as a consumer with order does. */
function store(world: World, messages: readonly StoredMessage[], token: string) {
  return world.store.inbox.store(UNIT, { consumer: 'billing', token, messages, ordered: true, starts: 0 })
}

/** Writes a receipt, or returns the existing one. */
function take(world: World, message: StoredMessage, token: string) {
  return world.store.transactions.run(UNIT, opening(message, token), async ({ existing }) => ({
    value: existing.get(message.messageKey),
    writes: {},
  }))
}

function stored(source: string, id: string): StoredMessage {
  const data = Buffer.from('{"n":1}')
  const key = messageKey(source, id)
  return {
    messageKey: key,
    source,
    id,
    type: 'ping',
    key: null,
    attributes: '{}',
    data,
    fingerprint: fingerprint(data),
  }
}
