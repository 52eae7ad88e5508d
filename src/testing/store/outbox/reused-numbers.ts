import assert from 'node:assert/strict'
import type { Opening, UnitOptions } from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import { fingerprint, markOf, messageKey, numberOf, seqOf } from '../../../message/index.ts'
import { failedOnes } from '../admin/failed-world.ts'
import type { Case } from '../case.ts'
import { storeOne } from '../leased/world.ts'
import { type AnyHapax, Ping, type World } from '../world.ts'

const OPTIONS: UnitOptions = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
const AUDIT = { actor: 'ada', action: 'retry' } as const
const ERROR = { name: 'Error', message: 'too late' }

/**
 * What a process knows of a row that a fail-over lost, after the promoted replica gave its number to another one: the number of the
 * one that is there, the mark of another.
 */
function lost(there: string, other: string): string {
  return seqOf(numberOf(there), markOf(other))
}

async function publish(hapax: AnyHapax, ids: readonly string[]): Promise<void> {
  await hapax.transaction(async (tx) => {
    for (const id of ids) await hapax.publish(tx, Ping, { n: 1 }, { id })
  })
}

/** Two rows of the outbox, and the name of a lost one that had the number of the second. */
async function outgoing(world: World, hapax: AnyHapax): Promise<{ first: string; second: string; gone: string }> {
  await publish(hapax, ['a', 'b'])
  const { entries } = await world.look({ table: 'outbox', scope: 'default' })
  const rows = await world.store.outbox.read(entries.map(({ seq }) => seq))
  const [first = '', second = ''] = rows.map(({ seq }) => seq)
  return { first, second, gone: lost(second, first) }
}

/** The same for the inbox. */
async function waiting(world: World): Promise<{ second: string; gone: string }> {
  await storeOne(world, 'a')
  await storeOne(world, 'b')
  const [first = '', second = ''] = await Promise.all(
    ['a', 'b'].map((id) => world.store.inbox.find('billing', messageKey('/sender', id))),
  )
  return { second, gone: lost(second, first) }
}

function opened(world: World, opening: Opening): Promise<{ claimed: number; present: readonly string[] }> {
  return world.store.transactions.run(OPTIONS, opening, async ({ claimed, present }) => ({
    value: { claimed: claimed.size, present: [...present] },
    writes: {},
  }))
}

function edited(): StoredMessage {
  const data = Buffer.from('{"n":2}')
  const [source, id] = ['/test', 'edited']
  const key = { messageKey: messageKey(source, id), fingerprint: fingerprint(data) }
  return { ...key, source, id, type: 'ping', key: null, attributes: '{}', data }
}

export const reusedNumbers: readonly Case[] = [
  {
    name: 'K1: a confirm that comes late deletes no other row of the outbox that got the number',
    run: async (world) => {
      const { first, second, gone } = await outgoing(world, world.hapax())
      assert.deepEqual(await world.store.outbox.read([gone]), [])
      for (const keep of [false, true]) assert.deepEqual(await world.store.outbox.confirm([gone], keep), [])
      assert.deepEqual(await world.database.outbox(), ['a', 'b'])
      assert.deepEqual(await world.store.sent.list({ limit: 10 }), [])
      assert.deepEqual(await world.store.outbox.confirm([first, gone], false), [])
      assert.deepEqual(await world.database.outbox(), ['b'])
      assert.deepEqual(await world.store.outbox.confirm([second], false), [])
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'K1: nor does a refusal or a delay touch it',
    run: async (world) => {
      const hapax = world.hapax()
      const { second, gone } = await outgoing(world, hapax)
      await world.store.outbox.postpone([{ seq: gone, delayMs: 60_000, error: ERROR, entry: '{}' }])
      for (const hold of [false, true]) {
        assert.equal(
          await world.store.outbox.refuse({ seq: gone, reason: 'refused-by-broker', error: ERROR, entry: '{}', hold }),
          false,
        )
      }
      assert.deepEqual(await hapax.failed.list(), [])
      assert.deepEqual(await world.database.outbox(), ['a', 'b'])
      assert.deepEqual(
        (await world.store.outbox.read([second])).map(({ attempts }) => attempts),
        [0],
      )
      const { entries } = await world.look({ table: 'outbox', scope: 'default' })
      assert.deepEqual(
        entries.map(({ held, dueMs }) => [held, dueMs <= 0]),
        [
          [false, true],
          [false, true],
        ],
      )
    },
  },
  {
    name: 'K1: a claim takes no other row of the inbox that got the number, and does not find it either',
    run: async (world) => {
      const { second, gone } = await waiting(world)
      for (const locked of ['skip', 'wait'] as const) {
        assert.deepEqual(await opened(world, { kind: 'claim', seqs: [gone], locked }), { claimed: 0, present: [] })
      }
      const opening = { kind: 'claim', seqs: [second], locked: 'wait' } as const
      assert.deepEqual(await opened(world, opening), { claimed: 1, present: [second] })
    },
  },
  {
    name: 'K1: a failure that is recorded late changes no other row of the inbox that got the number',
    run: async (world) => {
      const { gone } = await waiting(world)
      const failure = { seq: gone, attempts: 3, error: ERROR, entry: '{}', leaseToken: null }
      assert.equal(await world.store.inbox.reschedule({ ...failure, lost: 0, delayMs: 60_000 }), false)
      for (const hold of [false, true]) {
        assert.equal(await world.store.inbox.fail({ ...failure, reason: 'permanent', hold }), false)
      }
      for (const alone of [false, true]) await world.crash([gone], alone)
      for (const id of ['a', 'b']) {
        await world.assertPlaces(id, ['inbox', 'receipt'])
        const { held, deaths, dueMs = 1 } = (await world.entry(id)) ?? {}
        assert.deepEqual([held, deaths, dueMs <= 0], [false, 0, true])
      }
    },
  },
  {
    name: 'K1: a lease of a lost row neither takes nor prolongs nor settles another one that got the number',
    run: async (world) => {
      const { second, gone } = await waiting(world)
      const token = crypto.randomUUID()
      assert.deepEqual(await world.store.inbox.lease([gone], token, 60_000), [])
      const [row] = await world.store.inbox.lease([second], token, 60_000)
      const lease = { seq: second, token, fence: row?.fence ?? 0 }
      const stale = { ...lease, seq: gone }
      const effect = { consumer: 'billing', messageKey: messageKey('/sender', 'b'), name: 'send' }
      assert.equal(await world.store.journal.begin(stale, 60_000, effect, false), undefined)
      assert.deepEqual(await opened(world, { kind: 'settle', lease: stale }), { claimed: 0, present: [] })
      assert.deepEqual(await opened(world, { kind: 'settle', lease }), { claimed: 1, present: [second] })
    },
  },
  {
    name: 'K1: what a person decides about a failed message concerns no other one that got the number',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b'])
      const [second, first] = await reader.hapax.failed.list()
      const gone = lost(second?.seq ?? '', first?.seq ?? '')
      assert.equal(await world.store.failed.get(gone), undefined)
      assert.equal(await world.store.failed.retry(gone, AUDIT), false)
      assert.equal(await world.store.failed.edit(gone, edited(), { ...AUDIT, action: 'edit' }), false)
      assert.equal(await world.store.failed.discard(gone, { ...AUDIT, action: 'discard' }), false)
      const there = await reader.hapax.failed.list()
      assert.deepEqual(
        there.map(({ seq, replacedBy }) => [seq, replacedBy]),
        [
          [second?.seq, null],
          [first?.seq, null],
        ],
      )
      await world.assertPlaces('b', ['failed', 'receipt'])
    },
  },
  {
    name: 'K1: no other message is published again that got the number of a kept one',
    run: async (world) => {
      const { first, second } = await outgoing(world, world.hapax())
      await world.store.outbox.confirm([first, second], true)
      const [newest, oldest] = await world.store.sent.list({ limit: 10 })
      const gone = lost(newest?.seq ?? '', oldest?.seq ?? '')
      assert.equal(await world.store.sent.republish(gone, { ...AUDIT, action: 'republish' }), false)
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
]
