import assert from 'node:assert/strict'
import type { FailedMessage, OutboxMessage } from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import { audits, BY, failedOne } from '../admin/failed-world.ts'
import type { Case } from '../case.ts'
import { type AnyHapax, type AnyStore, assertRejects, Pong, type World } from '../world.ts'

/** The messages of the default relay that wait, in the order of seq. */
export async function outbox(store: AnyStore): Promise<readonly OutboxMessage[]> {
  const lanes = Array.from({ length: 64 }, (_, lane) => lane)
  const share = {
    table: 'outbox',
    scope: 'default',
    types: [],
    lanes,
    limit: 1000,
    after: new Map(),
    all: true,
  } as const
  const [look] = await store.workers.look([share])
  return store.outbox.read((look?.entries ?? []).map(({ seq }) => seq))
}

/** Published messages of one key in the outbox. */
async function publishedOnes(world: World, ids: readonly string[]): Promise<AnyHapax> {
  const hapax = world.hapax()
  for (const id of ids) await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }, { id }))
  return hapax
}

/** The first message of a key in the outbox is held, as after a broker refused it for good. */
async function heldOutbox(world: World): Promise<{ hapax: AnyHapax; held: FailedMessage }> {
  const hapax = await publishedOnes(world, ['a', 'b'])
  const [first] = await outbox(world.store)
  const error = { name: 'Error', message: 'too large' }
  assert.ok(
    await world.store.outbox.refuse({ seq: first?.seq as string, reason: 'too-large', error, entry: '{}', hold: true }),
  )
  return { hapax, held: await failedOne(hapax, 'a') }
}

/** It goes to the broker as it was kept. */
function assertLeaves(row: OutboxMessage | undefined, kept: StoredMessage | undefined): void {
  const { messageKey: _key, fingerprint: _fingerprint, ...leaving } = kept as StoredMessage
  assert.partialDeepStrictEqual(row?.message, leaving)
}

export const outgoing: readonly Case[] = [
  ...[true, false].map(
    (hold): Case => ({
      name: `a message that the broker refuses again after a retry has the seq that it had${hold ? ' while it holds its key' : ''}`,
      run: async (world) => {
        const hapax = await publishedOnes(world, ['a'])
        const error = { name: 'Error', message: 'too large' }
        const refuse = async (): Promise<string> => {
          const [first] = await outbox(world.store)
          assert.ok(
            await world.store.outbox.refuse({
              seq: first?.seq as string,
              reason: 'too-large',
              error,
              entry: '{}',
              hold,
            }),
          )
          return (await failedOne(hapax, 'a')).seq
        }
        const seq = await refuse()
        await hapax.failed.retry(seq)
        assert.equal(await refuse(), seq)
      },
    }),
  ),
  {
    name: 'a message that the broker refused for good holds its key in the outbox',
    run: async (world) => {
      const { hapax, held } = await heldOutbox(world)
      assert.deepEqual([held.origin, held.consumer, held.held, held.reason], ['outbox', 'default', true, 'too-large'])
      const [key] = await hapax.keys.list()
      assert.deepEqual(
        [key?.origin, key?.scope, key?.key, key?.id, key?.failedSeq, key?.waiting],
        ['outbox', 'default', 'key 1', 'a', held.seq, 1],
      )
      const { relays } = await hapax.status()
      assert.deepEqual([relays[0]?.relay, relays[0]?.waiting, relays[0]?.held, relays[0]?.failed], ['default', 1, 1, 1])
    },
  },
  {
    name: 'a held message of the outbox is retried, or edited, in its place',
    run: async (world) => {
      const { hapax, held } = await heldOutbox(world)
      await hapax.failed.retry(held.seq)
      const [first] = await outbox(world.store)
      assert.deepEqual([first?.message.id, first?.attempts], ['a', 0])
      assert.deepEqual(await hapax.keys.list(), [])
      const error = { name: 'Error', message: 'too large' }
      await world.store.outbox.refuse({
        seq: first?.seq as string,
        reason: 'too-large',
        error,
        entry: '{}',
        hold: true,
      })
      const { id } = await hapax.failed.edit((await failedOne(hapax, 'a')).seq, { n: 2 })
      const rows = await outbox(world.store)
      assert.deepEqual(
        rows.map(({ seq, message }) => [seq, message.id, message.key, Buffer.from(message.data).toString()]),
        [
          [first?.seq, id, 'key 1', '{"n":2}'],
          [rows[1]?.seq, 'b', 'key 1', '{"n":1}'],
        ],
      )
      await world.assertPlaces(id, ['outbox'])
    },
  },
  {
    name: 'a released key of the outbox continues, and its message can be retried at the end',
    run: async (world) => {
      const { hapax, held } = await heldOutbox(world)
      await hapax.keys.release({ origin: 'outbox', scope: 'default', key: 'key 1' }, BY)
      assert.deepEqual(await world.database.outbox(), ['b'])
      await world.assertPlaces('a', ['audit', 'failed'])
      await hapax.failed.retry(held.seq)
      assert.deepEqual(await world.database.outbox(), ['b', 'a'])
    },
  },
  {
    name: 'a held message of the outbox that is discarded is never sent',
    run: async (world) => {
      const { hapax, held } = await heldOutbox(world)
      await hapax.failed.discard(held.seq)
      assert.deepEqual(await world.database.outbox(), ['b'])
      await world.assertPlaces('a', ['audit'])
    },
  },
  {
    name: 'D31: a published message that was kept is published again under its own id',
    run: async (world) => {
      const hapax = await publishedOnes(world, ['a', 'b', 'c'])
      const rows = await outbox(world.store)
      await world.store.outbox.confirm(
        rows.map(({ seq }) => seq),
        true,
      )
      assert.deepEqual(await world.database.outbox(), [])
      const sent = await hapax.sent.list({ relay: 'default', type: 'pong' })
      assert.deepEqual(
        sent.map(({ message }) => message.id),
        ['c', 'b', 'a'],
      )
      assertLeaves(rows[0], sent[2]?.message)
      await hapax.sent.republish(sent[1]?.seq as string, BY)
      assert.deepEqual(await world.database.outbox(), ['b'])
      assert.deepEqual(await audits(hapax, 'b'), [['republish', 'ada', 'because']])
      const [again] = await outbox(world.store)
      assertLeaves(again, sent[1]?.message)
      assert.deepEqual(await hapax.sent.republishAll({ relay: 'default' }, { limit: 2 }), {
        done: 2,
        gone: 0,
        errors: 0,
        stopped: false,
      })
      assert.deepEqual(await world.database.outbox(), ['b', 'a', 'b'])
      await assertRejects(hapax.sent.republish('999999-1'), 'not-found')
      assert.deepEqual(
        (await hapax.sent.list({ before: sent[0]?.seq as string, limit: 1 })).map(({ seq }) => seq),
        [sent[1]?.seq],
      )
      assert.deepEqual(await hapax.sent.list({ relay: 'nowhere' }), [])
    },
  },
]
