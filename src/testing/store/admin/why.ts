import assert from 'node:assert/strict'
import { unpackAttributes } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import { assertRejects, Ping, type World } from '../world.ts'
import { failedOne, picky } from './failed-world.ts'
import { FAILURE, hold, publish, put, retryLater, stored } from './waiting-world.ts'

const HOUR_MS = 3_600_000

/** A worker of another process that is alive, serves this, and does nothing. */
async function live({ store }: World, consumers: object, relays: readonly string[] = []): Promise<void> {
  const serves = JSON.stringify({ consumers, relays })
  await store.workers.join({ id: crypto.randomUUID(), name: 'other', ttlMs: 600_000, serves })
}

/** The sentence about a message of the inbox. */
async function why(world: World, seq: string | undefined): Promise<string> {
  return world.hapax().messages.why('inbox', seq ?? '')
}

export const reasons: readonly Case[] = [
  {
    name: 'a message says that nobody serves it, that nobody handles its type, and that it is due',
    run: async (world) => {
      const seq = (await put(world, [stored('a')])).get('a')
      assert.match(await why(world, seq), /^No live worker serves the consumer billing:/)
      await live(world, { billing: ['pong'] })
      assert.match(await why(world, seq), /^No live worker of the consumer billing has a handler for the type ping:/)
      await live(world, { billing: ['pong', ''] })
      assert.match(await why(world, seq), /^It (is due now|has been due for \d+ seconds?): /)
      assert.equal(await why(world, '999999-1'), 'It does not wait any more.')
    },
  },
  {
    name: 'a message says when it is tried again and why, and that it is in hand',
    run: async (world) => {
      await live(world, { billing: ['ping'] })
      const seqs = await put(world, [stored('retries'), stored('leased')])
      await retryLater(world, seqs.get('retries'), HOUR_MS)
      const again = await why(world, seqs.get('retries'))
      assert.match(again, /^Attempt 1 failed \(Error: no answer\); the next one is due in (1 hour|\d+ minutes)\.$/)
      await world.store.inbox.lease([seqs.get('leased') ?? ''], crypto.randomUUID(), HOUR_MS)
      assert.match(
        await why(world, seqs.get('leased')),
        /^A worker of the consumer billing has it in hand, under a lease/,
      )
    },
  },
  {
    name: 'a message that was published with a delay says until when it waits',
    run: async (world) => {
      await live(world, { billing: ['ping'] }, ['default'])
      const hapax = world.hapax({ delivery: 'relay' })
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { delayMs: 2 * HOUR_MS }))
      const [row] = (await hapax.messages.list({ origin: 'outbox' })).rows
      assert.match(
        await hapax.messages.why('outbox', row?.seq ?? ''),
        /^It is not due before \d{4}-.* UTC, in (2 hours|\d+ minutes)\.$/,
      )
    },
  },
  {
    name: 'a message behind others of its key says what the first of them does; a held one how to go on',
    run: async (world) => {
      await live(world, { billing: ['ping'] })
      const messages = ['a', 'b', 'c'].map((id) => stored(id, { key: 'k' }))
      const seqs = await put(world, messages, { ordered: true })
      assert.match(await why(world, seqs.get('c')), /^It is behind 2 messages of its key k: .* a, is due/)
      await retryLater(world, seqs.get('a'), HOUR_MS)
      assert.match(await why(world, seqs.get('b')), /^It is behind 1 message of its key k: a, which is tried again in /)
      await hold(world, seqs.get('a'))
      assert.match(await why(world, seqs.get('b')), /: a, which failed for good .* and holds the key until/)
      assert.match(await why(world, seqs.get('a')), /^It failed for good .*, after 3 attempts .*, and holds its key k/)
    },
  },
  {
    name: 'a message of a relay says that nobody serves it, or why it could not be sent',
    run: async (world) => {
      await publish(world, ['p'])
      const { messages } = world.hapax()
      const [row] = (await messages.list({ origin: 'outbox' })).rows
      const seq = row?.seq ?? ''
      assert.match(await messages.why('outbox', seq), /^No live worker serves the relay default:/)
      await live(world, {}, ['default'])
      assert.match(await messages.why('outbox', seq), /^It (is due now|has been due)/)
      await world.store.outbox.postpone([{ seq, delayMs: HOUR_MS, ...FAILURE }])
      assert.match(await messages.why('outbox', seq), /\(Error: no answer\); .* in (1 hour|\d+ minutes)\.$/)
    },
  },
  {
    name: 'a message of a paused consumer, or relay, says who paused it and why',
    run: async (world) => {
      await live(world, { billing: ['ping'] }, ['default'])
      const seq = (await put(world, [stored('a')])).get('a')
      await publish(world, ['p'])
      const { messages } = world.hapax()
      const [row] = (await messages.list({ origin: 'outbox' })).rows
      const by = { action: 'pause', actor: 'ada', note: 'the bank is down' } as const
      assert.ok(await world.store.pauses.pause('inbox', 'billing', by))
      assert.match(await why(world, seq), /^The consumer billing was paused by ada .* ago \(the bank is down\):/)
      assert.match(await messages.why('outbox', row?.seq ?? ''), /^It (is due now|has been due)/)
      assert.ok(await world.store.pauses.pause('outbox', 'default', { action: 'pause', actor: 'bob' }))
      assert.match(await messages.why('outbox', row?.seq ?? ''), /^The relay default was paused by bob .* ago:/)
      assert.ok(await world.store.pauses.resume('inbox', 'billing', { action: 'resume', actor: 'ada' }))
      assert.match(await why(world, seq), /^It (is due now|has been due)/)
    },
  },
  {
    name: 'S5: an exact edit keeps every byte and the content type, and is refused if JSON is expected and it is none',
    run: async (world) => {
      const bad = new Set(['a', 't'])
      const reader = picky(world, bad, { receive: 'store' })
      const { hapax } = reader
      await reader.deliver('a')
      await world.drain(reader)
      const { seq, message } = await failedOne(hapax, 'a')
      const wrong = ['{', '', 'nothing', '{"n":1}}', '{"__proto__":{}}', '[1,]', '\ufeff{"n":1}']
      for (const data of [...wrong, '"\ud800"', 7, { n: 1 }, null, undefined, Buffer.from([0xff])]) {
        await assertRejects(hapax.failed.edit(seq, data, { exact: true }), 'invalid-payload')
      }
      await assertRejects(hapax.failed.edit(seq, '{}', { exact: 1 } as never), 'invalid-option')
      const data = ' { "n": 12345678901234567890, "x": 1.10, "n2": 1e400 }\n'
      const { id } = await hapax.failed.edit(seq, data, { exact: true })
      const [row] = (await hapax.messages.list({ id })).rows
      const edited = await hapax.messages.get('inbox', row?.seq ?? '')
      assert.equal(Buffer.from(edited?.message.data ?? []).toString(), data)
      assert.ok(edited)
      const [before, after] = [unpackAttributes(message), unpackAttributes(edited.message)]
      assert.equal(after.datacontenttype, before.datacontenttype)
      assert.equal(after.causationId, 'a')
    },
  },
]
