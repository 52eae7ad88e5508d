import assert from 'node:assert/strict'
import { defineMessage, type IncomingMessage, type MessageType, type StandardSchema } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import {
  assertOutcome,
  assertRejects,
  type Context,
  Ping,
  ping,
  type Reader,
  type ReaderOptions,
  type World,
} from '../world.ts'

const BYTES = 'application/octet-stream'
const TEXT = 'hello "you" \u0000 é 👍'

/** A reader whose handler notes what it got, as text, and spoils it; the first attempt of each message fails. */
function spoiler(world: World, options: ReaderOptions = {}): Reader & { readonly seen: readonly string[] } {
  const seen: string[] = []
  const handler = ({ message, attempt }: Context, data: unknown): void => {
    seen.push(`${message.id} ${shown(data)} ${shown(message.data)}`)
    spoil(data)
    spoil(message.data)
    if (attempt === 1 && message.id !== 'good') throw new Error('not yet')
  }
  return { ...world.reader(handler, options), seen }
}

function shown(data: unknown): string {
  if (typeof data === 'string') return `text ${data}`
  return data instanceof Uint8Array ? `bytes ${Buffer.from(data).toString()}` : JSON.stringify(data)
}

function spoil(data: unknown): void {
  if (data instanceof Uint8Array) data.fill(0x78)
  else if (typeof data === 'object' && data !== null) Object.assign(data, { n: 'spoilt' })
}

/** Delivers two messages as one group, of which one fails at first, and works the inbox until both are done. */
async function assertFresh(world: World, more: () => Partial<IncomingMessage>, expected: string): Promise<void> {
  const reader = spoiler(world, { group: { size: 2 } })
  const outcomes = await reader.consumer.handleMany(['good', 'bad'].map((id) => ping(id, more())))
  assertOutcome(outcomes[0], 'processed')
  assertOutcome(outcomes[1], 'retrying')
  await world.drain(reader)
  const got = (id: string): string => `${id} ${expected} ${expected}`
  assert.deepEqual(reader.seen, [got('good'), got('bad'), got('good'), got('bad'), got('bad')])
}

/** What a consumer of local messages gets of this one, and of which content type. */
async function delivered(world: World, data: unknown, datacontenttype?: string): Promise<readonly [unknown, unknown]> {
  const hapax = world.hapax({ delivery: 'local' })
  const got: [unknown, unknown][] = []
  const reader = world.reader(({ message }, each: unknown) => got.push([each, message.datacontenttype]), { hapax })
  const options = datacontenttype === undefined ? {} : { datacontenttype }
  await hapax.transaction((tx) => hapax.publish(tx, Ping as MessageType<unknown>, data, options))
  await world.drain(reader)
  assert.equal(got.length, 1)
  return got[0] as [unknown, unknown]
}

const published: readonly Case[] = [
  {
    name: 'K6: bytes that are published stay bytes, also if they are changed afterwards',
    run: async (world) => {
      const bytes = Buffer.from([1, 0, 255, 123])
      assert.deepEqual(await delivered(world, new Uint8Array(bytes)), [new Uint8Array(bytes), BYTES])
      assert.deepEqual(await delivered(world, bytes, 'image/png'), [new Uint8Array(bytes), 'image/png'])
      assert.deepEqual(await delivered(world, Buffer.from('{"n":1}'), 'application/json'), [
        { n: 1 },
        'application/json',
      ])
      const hapax = world.hapax()
      await hapax.transaction(async (tx) => {
        const own = new Uint8Array([1, 2])
        await hapax.publish(tx, Ping as MessageType<unknown>, own)
        own.fill(9)
      })
      const { entries } = await world.look({ table: 'outbox', scope: 'default' })
      const [row] = await world.store.outbox.read(entries.map(({ seq }) => seq))
      assert.deepEqual([...(row?.message.data ?? [])], [1, 2])
    },
  },
  {
    name: 'K6: a text stays what it is, unless it is said to be JSON',
    run: async (world) => {
      assert.deepEqual(await delivered(world, TEXT), [TEXT, 'text/plain; charset=utf-8'])
      assert.deepEqual(await delivered(world, '\ufeff17'), ['\ufeff17', 'text/plain; charset=utf-8'])
      assert.deepEqual(await delivered(world, TEXT, 'application/json'), [TEXT, 'application/json'])
      assert.deepEqual(await delivered(world, TEXT, 'text/plain'), [TEXT, 'text/plain'])
      assert.deepEqual(await delivered(world, '{"n":1}', 'text/csv'), ['{"n":1}', 'text/csv'])
      const [xml] = await delivered(world, '<a/>', 'application/xml')
      assert.equal(Buffer.from(xml as Uint8Array).toString(), '<a/>')
    },
  },
  {
    name: 'K6: an empty text and no bytes at all are what they are, and not missing data',
    run: async (world) => {
      assert.deepEqual(await delivered(world, ''), ['', 'text/plain; charset=utf-8'])
      assert.deepEqual(await delivered(world, new Uint8Array()), [new Uint8Array(), BYTES])
      assert.deepEqual(await delivered(world, undefined), [undefined, 'application/json'])
    },
  },
  {
    name: 'K6: texts and bytes stand in the outbox as they are, without quotes',
    run: async (world) => {
      const hapax = world.hapax()
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Ping as MessageType<unknown>, TEXT)
        await hapax.publish(tx, Ping as MessageType<unknown>, new Uint8Array([0, 34, 255]))
      })
      const { entries } = await world.look({ table: 'outbox', scope: 'default' })
      const rows = await world.store.outbox.read(entries.map(({ seq }) => seq))
      const bytes = rows.map(({ message }) => Buffer.from(message.data).toString('hex')).sort()
      assert.deepEqual(bytes, [Buffer.from(TEXT).toString('hex'), '0022ff'].sort())
    },
  },
  {
    name: 'K6: the schema of a type sees the text or the bytes that its handlers get',
    run: async (world) => {
      const seen: unknown[] = []
      const schema: StandardSchema<string | Uint8Array> = {
        '~standard': {
          version: 1,
          vendor: 'test',
          validate: (value) => {
            seen.push(value)
            if (typeof value !== 'string' && !(value instanceof Uint8Array)) return { issues: [{ message: 'no text' }] }
            return { value }
          },
        },
      }
      const Note = defineMessage('note', { schema })
      const hapax = world.hapax({ delivery: 'local' })
      const got: unknown[] = []
      const consumer = hapax.consumer('notes')
      consumer.on(Note, (data) => {
        got.push(data)
      })
      for (const data of ['17', new Uint8Array([1])]) await hapax.transaction((tx) => hapax.publish(tx, Note, data))
      await world.drain({ hapax, consumer })
      assert.deepEqual(new Set(got), new Set(['17', new Uint8Array([1])]))
      assert.equal(
        seen.every((each) => typeof each === 'string' || each instanceof Uint8Array),
        true,
      )
    },
  },
  {
    name: 'K6: what is neither JSON nor bytes nor a text of its type is refused',
    run: async (world) => {
      const hapax = world.hapax()
      await hapax.transaction(async (tx) => {
        const refused = (data: unknown, datacontenttype?: string): Promise<void> =>
          assertRejects(
            hapax.publish(tx, Ping as MessageType<unknown>, data, datacontenttype ? { datacontenttype } : {}),
            'invalid-payload',
          )
        await refused(new ArrayBuffer(2))
        await refused(new Float64Array(2))
        await refused({ n: 1 }, 'text/plain')
        await refused('\ud800', 'text/plain')
        await refused(Buffer.from('{'), 'application/json')
        await refused(Buffer.from([255]), 'text/plain')
        await assertRejects(
          hapax.publish(tx, Ping, { n: 1 }, { datacontenttype: 'text/plain\r\nx: y' }),
          'invalid-option',
        )
      })
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
]

const fresh: readonly Case[] = [
  {
    name: 'a handler that changes its data gets it fresh when it runs again, in a smaller group and on retry',
    run: (world) => assertFresh(world, () => ({ data: { n: 1 } }), '{"n":1}'),
  },
  {
    name: 'a handler that changes its bytes gets them fresh when it runs again, in a smaller group and on retry',
    run: (world) => assertFresh(world, () => ({ data: Buffer.from('hello'), datacontenttype: BYTES }), 'bytes hello'),
  },
  {
    name: 'a caller that changes its buffer after the delivery does not change what is kept for the retry',
    run: async (world) => {
      const reader = spoiler(world)
      const data = Buffer.from('hello')
      const delivered = reader.deliver('a', { data, datacontenttype: BYTES })
      data.fill(0x78)
      assertOutcome(await delivered, 'retrying')
      await world.drain(reader)
      assert.equal(reader.seen.at(-1), 'a bytes hello bytes hello')
    },
  },
  {
    name: 'F7: a caller that changes its buffer after the delivery makes no mismatch of the next copy',
    run: async (world) => {
      const reader = world.reader(undefined, { onMismatch: 'conflict' })
      const data = Buffer.from('hello')
      const delivered = reader.deliver('a', { data, datacontenttype: BYTES })
      data.fill(0x78)
      assertOutcome(await delivered, 'processed')
      assertOutcome(await reader.deliver('a', { data: Buffer.from('hello'), datacontenttype: BYTES }), 'duplicate')
    },
  },
]

/** The same bytes in every shape that they can have; those around them must not be taken. */
function shapes(text: string): Readonly<Record<string, unknown>> {
  const bytes = Buffer.from(text)
  const padded = new Uint8Array([0, ...bytes, 0])
  const buffer = padded.slice(1, -1).buffer
  return {
    ArrayBuffer: buffer,
    DataView: new DataView(padded.buffer, 1, bytes.length),
    Uint8Array: padded.subarray(1, -1),
    Buffer: bytes,
  }
}

const binary: readonly Case[] = [
  {
    name: 'S5: bytes are the same at the first call and on retry, whatever holds them',
    run: async (world) => {
      for (const [shape, data] of Object.entries(shapes('hello'))) {
        const reader = spoiler(world, { name: shape })
        assertOutcome(await reader.deliver(shape, { data, datacontenttype: BYTES }), 'retrying')
        await world.drain(reader)
        const got = `${shape} bytes hello bytes hello`
        assert.deepEqual(reader.seen, [got, got])
      }
    },
  },
  {
    name: 'S5: JSON in bytes is the same at the first call and on retry, whatever holds them',
    run: async (world) => {
      for (const [shape, data] of Object.entries(shapes('{"n":7}'))) {
        const reader = spoiler(world, { name: shape })
        assertOutcome(await reader.deliver(shape, { data }), 'retrying')
        await world.drain(reader)
        const got = `${shape} {"n":7} {"n":7}`
        assert.deepEqual(reader.seen, [got, got])
      }
    },
  },
  {
    name: 'F1: missingId hash tells different bytes apart, whatever holds them',
    run: async (world) => {
      for (const shape of Object.keys(shapes(''))) {
        const reader = world.reader(undefined, { name: shape, missingId: 'hash' })
        for (const text of ['one', 'two', 'three']) {
          const more = { data: shapes(text)[shape], datacontenttype: BYTES }
          assertOutcome(await reader.deliver(undefined, more), 'processed')
          assertOutcome(await reader.deliver(undefined, more), 'duplicate')
        }
      }
    },
  },
  {
    name: 'a text is the same text at the first call, on retry and from the inbox',
    run: async (world) => {
      const got = `a text ${TEXT} text ${TEXT}`
      for (const receive of ['direct', 'store'] as const) {
        const reader = spoiler(world, { name: receive, receive })
        const delivered = await reader.deliver('a', { data: TEXT, datacontenttype: 'text/plain' })
        assertOutcome(delivered, receive === 'direct' ? 'retrying' : 'stored')
        await world.drain(reader)
        assert.deepEqual(reader.seen, [got, got])
      }
    },
  },
]

export const payloads: readonly Case[] = [...published, ...fresh, ...binary]
