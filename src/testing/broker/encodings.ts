import assert from 'node:assert/strict'
import type { Encode } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import { until } from '../wait.ts'
import type { Case } from './case.ts'
import type { RawMessage } from './harness.ts'
import { twice } from './shop.ts'
import { full, roundTrip } from './wire.ts'
import { assertConfirmed, assertStatuses, message, numbered, publish, type World } from './world.ts'

/** What a plain client sees of a message, without the names that belong to its broker. */
async function seen(world: World, encode: Encode, sent: OutgoingMessage): Promise<RawMessage> {
  await world.group('billing')
  assertConfirmed(await publish(world.destination({ encode }), [sent]))
  const [raw] = await world.broker.receive('billing', 1)
  assert.ok(raw)
  assert.deepEqual({ ...raw.attributes }, {})
  for (const name of Object.keys(raw.headers ?? {})) assert.doesNotMatch(name, /^(ce[-_]|cloudevents|hapax)/i)
  return raw
}

const PLAIN = { 'message-id': 'x1', type: 'ping', source: '/legacy' }

/** A message of a client that knows nothing of CloudEvents. */
function plainMessage(headers: Readonly<Record<string, string>>): RawMessage {
  return { body: Buffer.from('{"id":"x1"}'), contentType: 'application/json', headers }
}

const plainJson: readonly Case[] = [
  {
    name: 'attributes, headers and bytes survive (plain-json)',
    run: (world) => roundTrip(world, { encode: 'plain-json' }, full),
  },
  {
    name: 'texts and bytes survive as they are (plain-json)',
    run: async (world) => {
      const sent = [
        message('text', { data: Buffer.from('100 % ü 日本'), datacontenttype: 'text/plain; charset=utf-8' }),
        message('bytes', { data: Buffer.from([0, 255, 34]), datacontenttype: 'application/octet-stream' }),
      ]
      const listener = await world.listen('billing')
      assertConfirmed(await publish(world.destination({ encode: 'plain-json' }), sent))
      await listener.take(2)
      for (const { message: got, arrival } of listener.received) {
        const { data, datacontenttype } = sent.find(({ id }) => id === got.id) ?? {}
        assert.deepEqual(Buffer.from(arrival.body), data)
        assert.equal(got.datacontenttype, datacontenttype)
      }
    },
  },
  {
    name: 'the plain client sees the data, and the attributes under plain names (plain-json)',
    needs: ['plain client'],
    run: async (world) => {
      const raw = await seen(world, 'plain-json', full)
      assert.deepEqual(Buffer.from(raw.body), full.data)
      assert.equal(raw.contentType, 'application/json')
      const { id, type, source, time, subject, key, correlationId, causationId, traceparent, tracestate } = full
      const expected = { ...full.headers, type, source, time, subject, key, traceparent, tracestate }
      const ids = { 'message-id': id, 'correlation-id': correlationId, 'causation-id': causationId }
      for (const [name, value] of Object.entries({ ...expected, ...ids }))
        assert.equal(raw.headers?.[name], value, name)
    },
  },
  {
    name: 'a header cannot pose as an attribute (plain-json)',
    run: async (world) => {
      const listener = await world.listen('billing')
      const posing = message('a', { headers: { 'message-id': 'other', Type: 'other', Source: 'other', key: 'other' } })
      assertConfirmed(await publish(world.destination({ encode: 'plain-json' }), [posing]))
      const [got] = await listener.take(1)
      const { id, type, source, key } = got?.message ?? {}
      assert.deepEqual({ id, type, source, key }, { id: 'a', type: 'ping', source: '/sender', key: 'one' })
    },
  },
  {
    name: 'D29: from the outbox to the effect, once, although every message is sent twice (plain-json)',
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      const relay = twice(world.destination({ encode: 'plain-json' }))
      const worker = await shop.work({ relay, consume: [shop.consumer().from(subscription)] })
      await shop.publish(numbered(30))
      await shop.untilEffects(numbered(30))
      if (world.can('counting')) await world.untilNothingWaits('billing')
      await worker.drain()
      shop.assertEffects(numbered(30))
      assert.equal(await shop.hapax.failed.count(), 0)
    },
  },
  {
    name: 'F1: a plain client that names id, type and source is understood, and its repetitions are duplicates',
    needs: ['plain client'],
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      await shop.work({ consume: [shop.consumer().from(subscription)] })
      for (let time = 0; time < 3; time++) await world.broker.send(plainMessage(PLAIN))
      await world.broker.send(plainMessage({ ...PLAIN, 'message-id': 'x2' }))
      await shop.untilEffects(['x1', 'x2'])
      if (world.can('counting')) await world.untilNothingWaits('billing')
      shop.assertEffects(['x1', 'x2'])
      assert.equal(await shop.hapax.failed.count(), 0)
    },
  },
  {
    name: 'F1: a plain client that leaves one of them out is not guessed at',
    needs: ['plain client'],
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      await shop.work({ consume: [shop.consumer().from(subscription)] })
      for (const absent of ['message-id', 'type', 'source'] as const) {
        const { [absent]: _, ...others } = PLAIN
        await world.broker.send(plainMessage(others))
      }
      for (const { reason } of await shop.failed(3)) assert.match(reason, /^(invalid-message|missing-id)$/)
      assert.deepEqual(shop.effects, [])
    },
  },
]

/** Throws, or returns something else than a message, for those whose ids say so. */
const bad: Encode = ({ id, data }) => {
  if (id.startsWith('throws')) throw new Error(`no form for ${id}`)
  const wrong = WRONG[id]
  const returned: unknown = wrong === undefined ? { body: data, headers: { own: id } } : wrong()
  return returned as ReturnType<Exclude<Encode, string>>
}

const WRONG: Readonly<Record<string, () => unknown>> = {
  nothing: () => null,
  promise: () => Promise.reject(new Error('late')),
  number: () => ({ body: 7 }),
  getter: () => ({
    get body() {
      throw new Error('late')
    },
  }),
  surrogate: () => ({ body: '\ud800' }),
  header: () => ({ body: '', headers: { a: 7 } }),
  type: () => ({ body: '', headers: { 'Content-Type': 'text/xml' } }),
  content: () => ({ body: '', contentType: 7 }),
  property: () => ({ body: '', properties: { priority: '7' } }),
}

const functions: readonly Case[] = [
  {
    name: 'what a function returns is what the plain client gets, byte by byte',
    needs: ['plain client'],
    run: async (world) => {
      const encode: Encode = ({ id, type, data }) => ({
        body: `<${type} id="${id}">${Buffer.from(data).toString('base64')}</${type}>`,
        contentType: 'text/xml',
        headers: { 'X-Schema': 'v1', tenant: 'ä b' },
      })
      const raw = await seen(world, encode, message('a', { headers: { secret: 'no' } }))
      assert.equal(Buffer.from(raw.body).toString(), '<ping id="a">eyJpZCI6ImEifQ==</ping>')
      assert.equal(raw.contentType, 'text/xml')
      assert.equal(raw.headers?.['X-Schema'], 'v1')
      assert.equal(raw.headers['tenant'], 'ä b')
      for (const name of ['secret', 'message-id', 'source']) assert.equal(raw.headers[name], undefined, name)
    },
  },
  {
    name: 'a function that throws, or returns what is no message, fails that message only',
    run: async (world) => {
      const listener = await world.listen('billing')
      const wrong = ['throws', ...Object.keys(WRONG)]
      const sent = wrong.flatMap((id) => [message(`before-${id}`, { key: id }), message(id, { key: `${id} alone` })])
      const told = await publish(world.destination({ encode: bad }), sent)
      assertStatuses(
        told,
        wrong.flatMap(() => ['confirmed', 'refused']),
      )
      for (const each of told) if (each.status === 'refused') assert.match(each.error.message, /encode/)
      await listener.take(wrong.length)
      assert.equal(
        listener.received.every(({ arrival }) => arrival.headers['own']?.startsWith('before-')),
        true,
      )
    },
  },
  {
    name: 'D14: a message that a function cannot write ends in the failed store, and the relay goes on',
    run: async (world) => {
      const shop = world.shop()
      await world.group('billing')
      await shop.work({ relay: world.destination({ encode: bad }) })
      await shop.publish(['a'])
      await shop.publish(['throws-1'])
      await shop.publish(['b'])
      const [failed] = await shop.failed(1)
      assert.equal(failed?.message.id, 'throws-1')
      assert.equal(failed.reason, 'refused-by-broker')
      assert.equal(failed.error.code, 'unencodable')
      assert.match(failed.error.message, /no form for throws-1/)
      await until(async () => (await shop.hapax.status()).relays[0]?.waiting === 0, 'the outbox is empty')
    },
  },
  {
    name: 'C10: behind a message that a function cannot write, its key waits, and others do not',
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.listen('billing')
      await shop.work({ relay: world.destination({ encode: bad }) })
      await shop.publish(['throws-1', 'behind'], { key: 'one' })
      await shop.publish(['other'], { key: 'two' })
      const [failed] = await shop.failed(1)
      assert.equal(failed?.held, true)
      await subscription.take(1)
      assert.deepEqual(
        subscription.received.map(({ arrival }) => arrival.headers['own']),
        ['other'],
      )
      await shop.hapax.failed.discard(failed.seq)
      await until(() => subscription.received.length >= 2, 'what waited behind it is sent')
      assert.equal(subscription.received[1]?.arrival.headers['own'], 'behind')
    },
  },
]

export const encodings: readonly Case[] = [...plainJson, ...functions]
