import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { HapaxError, Permanent } from '../../../base/index.ts'
import type { FailedMessage, Outcome, Writes } from '../../../contracts/index.ts'
import type { IncomingMessage, StoredMessage } from '../../../message/index.ts'
import { STUB_BYTES, stubOf } from '../../../message/index.ts'
import { altered } from '../../altered.ts'
import type { Case } from '../case.ts'
import { leased } from '../leased/world.ts'
import { type AnyHapax, type AnyStore, assertOutcome, assertRejects, Ping, ping, type World } from '../world.ts'

const LIMIT = 200_000
const LARGE = 'x'.repeat(100_000)
const TOO_LARGE = 'x'.repeat(LIMIT)

/** The same store on a database that can never take some messages; `refuses` decides by what is to be written. */
function refusing(store: AnyStore, refuses: (message: StoredMessage) => boolean): AnyStore {
  const check = (messages: readonly StoredMessage[]): void => {
    if (messages.some(refuses)) throw new HapaxError('unstorable', 'the store cannot take this message: no')
  }
  const written = ({ inbox = [], failed = [] }: Writes = {}): readonly StoredMessage[] =>
    [...inbox, ...failed].map(({ message }) => message)
  const run: AnyStore['transactions']['run'] = async (options, opening, body) => {
    if (opening.kind === 'take') check(opening.messages.map((message) => ({ ...message, data: NO_DATA })))
    return store.transactions.run(options, opening, async (unit) => {
      const end = await body(unit)
      check(written(end.writes))
      return end
    })
  }
  const storing: AnyStore['inbox']['store'] = async (options, deliveries) => {
    check(deliveries.messages)
    return store.inbox.store(options, deliveries)
  }
  return altered(store, { transactions: { run }, inbox: { store: storing } })
}

const NO_DATA = new Uint8Array(0)

/** A message that cannot be taken, and why. */
interface Poison {
  readonly message: IncomingMessage
  readonly refuses?: (message: StoredMessage) => boolean
  readonly reason: string
  /** What is kept: all of it, so that it can be retried; the payload; the beginning of the payload. */
  readonly kept: 'all' | 'payload' | 'beginning'
}

const POISONS: Readonly<Record<string, Poison>> = {
  'one that is too large': {
    message: ping('poison', { data: TOO_LARGE }),
    reason: 'too-large',
    kept: 'beginning',
  },
  'one whose headers are too large': {
    message: ping('poison', { headers: { a: 'b', large: TOO_LARGE, c: 'd' } }),
    reason: 'too-large',
    kept: 'payload',
  },
  'one whose bytes are too large and no JSON': {
    message: ping('poison', { data: Buffer.alloc(LIMIT + 1, 0xff) }),
    reason: 'too-large',
    kept: 'beginning',
  },
  'one with a key that is too long where it is stored': {
    message: ping('poison', { key: '\u0000'.repeat(2046) }),
    reason: 'invalid-message',
    kept: 'all',
  },
  'one whose row the database refuses': {
    message: ping('poison', { data: LARGE }),
    refuses: ({ data }) => data.byteLength > STUB_BYTES,
    reason: 'unstorable',
    kept: 'beginning',
  },
  'one whose characters the database lacks': {
    message: ping('gift \u65e5\u672c', { headers: { name: '\u65e5' } }),
    refuses: ({ source, id, type, key, attributes }) => /[^ -~]/.test([source, id, type, key, attributes].join('')),
    reason: 'unstorable',
    kept: 'payload',
  },
}

type Way = (world: World, hapax: AnyHapax, messages: readonly IncomingMessage[]) => Promise<readonly Outcome[]>

/** The handler fails where a message has to be stored to be refused. */
const handler = (world: World) => async (ctx: { readonly tx: unknown; readonly message: { readonly id: string } }) => {
  if (!ctx.message.id.startsWith('good')) throw new Error('the handler does not want it')
  await world.database.effect(ctx.tx, ctx.message.id)
}

const direct = (size: number): Way => {
  return async (world, hapax, messages) =>
    world.reader(handler(world), { hapax, group: { size } }).consumer.handleMany(messages)
}

const WAYS: Readonly<Record<string, Way>> = {
  'taken one by one': direct(1),
  'in a group': direct(10),
  'redelivered, in a group': (world, hapax, messages) =>
    direct(10)(
      world,
      hapax,
      messages.map((message) => ({ ...message, redelivered: true })),
    ),
  'in a stored batch': async (world, hapax, messages) => {
    const reader = world.reader(handler(world), { hapax, receive: 'store' })
    const outcomes = await reader.consumer.handleMany(messages)
    await world.drain(reader)
    return outcomes
  },
  'in a stored batch with order': async (world, hapax, messages) => {
    const reader = world.reader(handler(world), { hapax, receive: 'store', order: 'wait' })
    const outcomes = await reader.consumer.handleMany(messages)
    await world.drain(reader)
    return outcomes
  },
  leased: async (world, hapax, messages) => {
    const run = handler(world)
    const consumer = leased(world, (ctx) => ctx.complete((tx) => run({ tx, message: ctx.message })), { hapax })
    const outcomes = await consumer.handleMany(messages)
    await world.drain({ hapax, consumer })
    return outcomes
  },
}

async function assertIsolated(world: World, poison: Poison, way: Way): Promise<void> {
  const { refuses = () => false, message } = poison
  const hapax = world.hapax({ store: refusing(world.store, refuses), maxMessageBytes: LIMIT })
  const good = (n: number): IncomingMessage => ping(`good ${n}`, { key: `key ${n}` })
  const outcomes = await way(world, hapax, [good(1), good(2), message, good(3), good(4)])
  assert.ok(outcomes.every(({ ack }) => ack))
  assertOutcome(outcomes[2], 'failed')
  await world.assertEffects(['good 1', 'good 2', 'good 3', 'good 4'])
  const [failed, ...others] = await hapax.failed.list()
  assert.ok(failed !== undefined && others.length === 0)
  assert.equal(failed.reason, poison.reason)
  await assertKept(hapax, failed, poison)
}

async function assertKept(hapax: AnyHapax, failed: FailedMessage, { message, kept }: Poison): Promise<void> {
  const whole = ArrayBuffer.isView(message.data)
    ? Buffer.from(message.data as Uint8Array)
    : Buffer.from(JSON.stringify(message.data))
  assert.ok(Buffer.from(failed.message.data).equals(whole.subarray(0, kept === 'beginning' ? STUB_BYTES : undefined)))
  const stub = stubOf(failed.message)
  if (kept === 'all') return assert.equal(stub, undefined)
  assert.equal(stub?.bytes, whole.byteLength)
  assert.equal(stub.sha256, createHash('sha256').update(whole).digest('hex'))
  assert.ok(failed.message.attributes.length < STUB_BYTES)
  await assertRejects(hapax.failed.retry(failed.seq), 'not-whole')
  assert.deepEqual(await hapax.failed.retryAll({ reason: failed.reason }), {
    done: 0,
    gone: 0,
    errors: 1,
    stopped: false,
  })
}

const isolated: readonly Case[] = Object.entries(WAYS).flatMap(([how, way]) =>
  Object.entries(POISONS).map(([what, poison]) => ({
    name: `K16: ${what} is kept as far as it can be, and its neighbours take effect: ${how}`,
    run: (world: World) => assertIsolated(world, poison, way),
  })),
)

const afterwards: readonly Case[] = [
  {
    name: 'K12: a message that was refused, delivered again, is a duplicate',
    run: async (world) => {
      for (const [what, { message, refuses = () => false }] of Object.entries(POISONS)) {
        const hapax = world.hapax({ store: refusing(world.store, refuses), maxMessageBytes: LIMIT })
        const reader = world.reader(handler(world), { hapax, name: what })
        assertOutcome(await reader.consumer.handle(message), 'failed')
        assertOutcome(await reader.consumer.handle(message), 'duplicate')
        assert.equal(await hapax.failed.count({ consumer: what }), 1)
      }
    },
  },
  {
    name: 'K17: a stub is edited with the whole data, and then runs',
    run: async (world) => {
      const reader = world.reader(undefined, { hapax: world.hapax({ maxMessageBytes: LIMIT }) })
      await reader.deliver('large', { data: TOO_LARGE, key: 'k', headers: { h: '1' } })
      const [failed] = await reader.hapax.failed.list()
      const { id } = await reader.hapax.failed.edit(failed?.seq as string, { n: 2 })
      await world.drain(reader)
      await world.assertEffects([id])
    },
  },
  {
    name: 'K12: the failure of a message that is too large for the store is recorded with what made it fail',
    run: async (world) => {
      const store = refusing(world.store, ({ data }) => data.byteLength > STUB_BYTES)
      const reader = world.reader(
        (ctx) => {
          throw ctx.message.id === 'a' ? new Permanent('it is bad') : new Error('not now')
        },
        { hapax: world.hapax({ store }) },
      )
      assertOutcome(await reader.deliver('a', { data: LARGE }), 'failed')
      assertOutcome(await reader.deliver('b', { data: LARGE }), 'failed', 'unstorable')
      const failed = await reader.hapax.failed.list()
      assert.deepEqual(failed.map(({ reason }) => reason).sort(), ['permanent', 'unstorable'])
      assert.match(JSON.stringify(failed.map(({ error }) => error)), /it is bad.*|not now.*/)
    },
  },
  {
    name: 'K16: a key that is too long where it is stored is refused when it is published',
    run: async (world) => {
      const hapax = world.hapax()
      const publish = hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { key: '\u0000'.repeat(2046) }))
      await assertRejects(publish, 'invalid-option')
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'K16: the longest texts that are taken, however they are stored, go through inbox, outbox and failed',
    run: async (world) => {
      // Databases compress what repeats itself before they find an index row too long.
      const longest = Array.from({ length: 2048 }, () => String.fromCharCode(33 + Math.floor(94 * Math.random()))).join(
        '',
      )
      const encoded = '\u0000'.repeat(682)
      const reader = world.reader(
        async (ctx) => {
          if (ctx.attempt === 1) throw new Error('not yet')
          await world.database.effect(ctx.tx, String(ctx.message.key?.length))
          await ctx.publish(Ping, { n: 1 }, { key: longest, relay: 'r'.repeat(255) })
          await ctx.publish(Ping, { n: 1 }, { key: encoded })
          if (ctx.message.key === encoded) throw new Permanent('bad')
        },
        { name: 'c'.repeat(255), receive: 'store', order: 'skip' },
      )
      const id = '\u0000'.repeat(2048)
      for (const key of [longest, encoded]) {
        assertOutcome(await reader.deliver(`${key.length}${id.slice(4)}`, { source: id, key }), 'stored')
      }
      await world.drain(reader)
      await world.assertEffects(['2048'])
      assert.equal((await world.database.outbox()).length, 2)
      const [failed] = await reader.hapax.failed.list()
      assert.deepEqual([failed?.message.key, failed?.message.source], [encoded, id])
    },
  },
  {
    name: 'K20: messages with different unusable ids and one payload are all kept',
    run: async (world) => {
      const reader = world.reader()
      const ids = ['\ud800', '\udc00', '\ud801', 'x'.repeat(2049), 'y'.repeat(2049), 1, 2, true]
      for (const id of ids) assertOutcome(await reader.deliver(id), 'failed', 'invalid-id')
      assert.equal(await reader.hapax.failed.count(), ids.length)
      for (const id of ids) assertOutcome(await reader.deliver(id), 'duplicate')
    },
  },
]

export const poison: readonly Case[] = [...isolated, ...afterwards]
