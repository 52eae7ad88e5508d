import assert from 'node:assert/strict'
import type { Case } from './case.ts'
import type { RawMessage } from './harness.ts'
import { numbered } from './world.ts'

const ATTRIBUTES = { specversion: '1.0', source: '/sender', type: 'ping' }
const JSON_TYPE = 'application/json'

/** A message that any consumer of pings handles. */
function good(id: string): RawMessage {
  return { body: Buffer.from(JSON.stringify({ id })), contentType: JSON_TYPE, attributes: { ...ATTRIBUTES, id } }
}

/** The same message, made bad. */
function bad(id: string, more: Partial<RawMessage>): RawMessage {
  return { ...good(id), ...more }
}

const deep = `${'['.repeat(1_000)}${']'.repeat(1_000)}`

/** Messages that cannot be handled, one of each kind. */
const POISON: Readonly<Record<string, RawMessage>> = {
  'an id that is too long': bad('x', { attributes: { ...ATTRIBUTES, id: 'x'.repeat(3_000) } }),
  'an empty source': bad('empty', { attributes: { ...ATTRIBUTES, id: 'empty', source: '' } }),
  'a source that is too long': bad('far', { attributes: { ...ATTRIBUTES, id: 'far', source: 'x'.repeat(3_000) } }),
  'a key that is too long': bad('key', { attributes: { ...ATTRIBUTES, id: 'key', partitionkey: 'k'.repeat(3_000) } }),
  'a type that nobody handles': bad('type', { attributes: { ...ATTRIBUTES, id: 'type', type: 'pong' } }),
  'another version': bad('old', { attributes: { ...ATTRIBUTES, id: 'old', specversion: '0.3' } }),
  'JSON that is broken': bad('broken', { body: Buffer.from('{"id":') }),
  'JSON that is nested deeply': bad('deep', { body: Buffer.from(deep) }),
  'JSON with a prototype': bad('proto', { body: Buffer.from('{"__proto__":{"id":1}}') }),
  'bytes that are no text': bad('bytes', { body: Buffer.from([0xff, 0xfe, 0x00, 0x80]) }),
  'an event that is a list': bad('list', { body: Buffer.from('[1]'), contentType: 'application/cloudevents+json' }),
  'a format that nobody reads': bad('avro', { contentType: 'application/cloudevents+avro' }),
}

/** What no message may do to others. */
export const poison: readonly Case[] = [
  {
    name: 'K16: messages that cannot be handled each end in the failed store, and their neighbours take effect',
    needs: ['plain client'],
    run: async (world) => {
      const shop = world.shop()
      const subscription = await world.broker.subscription('billing')
      await shop.work({ consume: [shop.consumer({ group: { size: 5 } }).from(subscription)] })
      const all = Object.values(POISON)
      for (const [at, message] of all.entries()) {
        await world.broker.send(good(`m${at}`))
        await world.broker.send(message)
      }
      await shop.untilEffects(numbered(all.length))
      await shop.failed(all.length)
      if (world.can('counting')) await world.untilNothingWaits('billing')
      shop.assertEffects(numbered(all.length))
    },
  },
  {
    name: 'K17: a message that is larger than hapax takes is kept as its beginning, and those beside it take effect',
    needs: ['plain client'],
    run: async (world) => {
      const shop = world.shop({ maxMessageBytes: 100_000 })
      const subscription = await world.broker.subscription('billing')
      await shop.work({ consume: [shop.consumer().from(subscription)] })
      await world.broker.send(good('a'))
      await world.broker.send(bad('large', { body: Buffer.alloc(500_000, '1') }))
      await world.broker.send(good('b'))
      await shop.untilEffects(['a', 'b'])
      const [failed] = await shop.failed(1)
      assert.equal(failed?.reason, 'too-large')
      assert.equal(failed.message.id, 'large')
      assert.ok(failed.message.data.byteLength <= 100_000)
      if (world.can('counting')) await world.untilNothingWaits('billing')
    },
  },
]
