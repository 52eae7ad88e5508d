import assert from 'node:assert/strict'
import type { IncomingMessage } from '../../../message/index.ts'
import type { Case } from '../case.ts'
import { assertOutcome, ping, statuses, type World } from '../world.ts'

/** Ids that some database, collation, driver or encoding takes for each other. */
const LOOKALIKES: Readonly<Record<string, readonly string[]>> = {
  'F2: case': ['abc', 'ABC', 'Abc'],
  'F2: trailing and leading space': ['a', 'a ', 'a  ', ' a', 'a\t', 'a\n', 'a\u00a0'],
  'F2: accents': ['resume', 'résume', 'résumé', 'Abç', 'Abc'],
  'F4: NFC and NFD': ['\u00e9', 'e\u0301', '\u00c5', '\u212b', '\ufb01', 'fi'],
  'F5: digits that are equal as numbers': ['1', '1.0', '01', '1e0', '9007199254740992', '9007199254740993'],
  'F1: words that mean nothing': ['undefined', 'null', 'NaN', 'false', '0', ' ', '[object Object]'],
  'S5: NUL and its escapes': ['a\0b', 'ab', 'a\\0b', 'a%00b', '\u0001a%00b', '\u0001a\0b', '\0', '\0\0'],
  'S1: quotes, backslashes and braces': [
    `'`,
    `''`,
    '"',
    '\\',
    '\\\\',
    '{',
    '}',
    '{}',
    ',',
    '$1',
    '?',
    `E'\\'`,
    '--',
    ';',
  ],
  'F12: separators': ['a:b', 'a/b', 'a|b', 'a,b', 'a\u001fb'],
  'F15: a UUID in two cases': ['0190B0D8-7C3A-7C6E-9A5E-3B1F6D2E4C10', '0190b0d8-7c3a-7c6e-9a5e-3b1f6d2e4c10'],
  'F4: emoji and astral characters': ['👍', '👍🏽', '𐍈', '\u{10ffff}', '\ufffd', '\ufeffa', 'a'],
}

const lookalikes: readonly Case[] = Object.entries(LOOKALIKES).map(([what, ids]) => ({
  name: `${what}: each id is a message of its own`,
  run: async (world: World) => {
    const seen: string[] = []
    const reader = world.reader(async ({ tx, message }, { n }) => {
      seen.push(message.id)
      await world.database.effect(tx, `${n}`)
    })
    for (const [n, id] of ids.entries()) assertOutcome(await reader.deliver(id, { data: { n } }), 'processed')
    for (const [n, id] of ids.entries()) assertOutcome(await reader.deliver(id, { data: { n } }), 'duplicate')
    assert.deepEqual(seen, ids)
    await world.assertEffects(ids.map((_, n) => `${n}`))
    for (const id of ids) await world.assertPlaces(id, ['receipt'])
  },
}))

/** Delivers something that is no id; it has to end in failed under this reason, once, however often it comes. */
async function assertRefused(world: World, id: unknown, reason: 'missing-id' | 'invalid-id'): Promise<void> {
  const reader = world.reader()
  assertOutcome(await reader.deliver(id), 'failed', reason)
  assertOutcome(await reader.deliver(id), 'duplicate')
  assert.deepEqual(reader.calls, [])
  const failed = await reader.hapax.failed.list()
  assert.deepEqual(
    failed.map((each) => [each.reason, Buffer.from(each.message.data).toString()]),
    [[reason, '{"n":1}']],
  )
}

const MISSING: Readonly<Record<string, unknown>> = { undefined: undefined, null: null, 'an empty string': '' }

const INVALID: Readonly<Record<string, unknown>> = {
  'F4: a lone surrogate': 'a\ud800',
  'F4: a lone low surrogate': '\udc00a',
  'F5: a number': 7,
  'F5: a bigint': 7n,
  'F5: an object': { toString: () => 'a' },
  'F5: an array': ['a'],
  'F5: bytes': Buffer.from('a'),
  'F5: a boolean': true,
  'F6: 2049 bytes': 'x'.repeat(2049),
  'F6: 2049 bytes of two-byte characters': 'é'.repeat(1025),
  'F6: ten megabytes': 'x'.repeat(10 * 1024 * 1024),
}

const refused: readonly Case[] = [
  ...Object.entries(MISSING).map(([what, id]) => ({
    name: `F1: ${what} as id is refused and kept in failed`,
    run: (world: World) => assertRefused(world, id, 'missing-id'),
  })),
  ...Object.entries(INVALID).map(([what, id]) => ({
    name: `${what} as id is refused and kept in failed`,
    run: (world: World) => assertRefused(world, id, 'invalid-id'),
  })),
]

const others: readonly Case[] = [
  {
    name: 'F6: ids, sources, types and keys of 2048 bytes are taken, also into inbox and failed',
    run: async (world) => {
      const long = (end: string): string => `${'é'.repeat(1023)}x${end}`
      const reader = world.reader(() => Promise.reject(new Error('no')))
      for (const end of ['a', 'b']) {
        const message: Partial<IncomingMessage> = { source: long('s'), key: long('k') }
        assertOutcome(await reader.deliver(long(end), message), 'retrying')
        assertOutcome(await reader.deliver(long(end), { ...message, type: long('t') }), 'duplicate')
      }
      assertOutcome(await reader.deliver('c', { type: long('t') }), 'failed', 'unknown-type')
      await world.drain(reader)
      const failed = await reader.hapax.failed.list()
      assert.deepEqual(failed.map(({ message }) => message.id).sort(), ['c', long('a'), long('b')].sort())
      assert.ok(failed.some(({ message }) => message.type === long('t')))
      assert.ok(failed.some(({ message }) => message.key === long('k') && message.source === long('s')))
    },
  },
  {
    name: 'F11: the same id from two sources is two messages',
    run: async (world) => {
      const reader = world.reader(({ tx, message }) => world.database.effect(tx, message.source))
      for (const source of ['/a', '/b', '/A', '/a ', '/a', '/b']) await reader.deliver('1', { source })
      await world.assertEffects(['/a', '/b', '/A', '/a '])
    },
  },
  {
    name: 'F12: source and id are not joined by a separator',
    run: async (world) => {
      const reader = world.reader(({ tx, message }) => world.database.effect(tx, `${message.source}|${message.id}`))
      const pairs = [
        ['ab', 'c'],
        ['a', 'bc'],
        ['a:b', 'c'],
        ['a', 'b:c'],
      ] as const
      for (const [source, id] of pairs) assertOutcome(await reader.deliver(id, { source }), 'processed')
      await world.assertEffects(pairs.map(([source, id]) => `${source}|${id}`))
    },
  },
  {
    name: 'F10: consumers whose names look alike are different ones',
    run: async (world) => {
      const hapax = world.hapax()
      const names = ['billing', 'Billing', 'billing ', 'bílling', `bill'ing`, 'bill"ing', 'bill\\ing', 'bill{}ing']
      for (const name of names) {
        const reader = world.reader(({ tx }) => world.database.effect(tx, name), { hapax, name })
        assertOutcome(await reader.deliver('a'), 'processed')
        assertOutcome(await reader.deliver('a'), 'duplicate')
      }
      await world.assertEffects(names)
      assert.deepEqual((await hapax.status()).consumers.map(({ consumer }) => consumer).sort(), [...names].sort())
    },
  },
  {
    name: 'F1: missingId hash takes the payload as identity',
    run: async (world) => {
      const reader = world.reader(({ tx }, { n }) => world.database.effect(tx, `${n}`), { missingId: 'hash' })
      const deliver = (n: number) => reader.consumer.handle({ ...ping(undefined), data: { n } })
      const outcomes = [await deliver(1), await deliver(2), await deliver(1)]
      assert.deepEqual(statuses(outcomes), ['duplicate', 'processed', 'processed'])
      await world.assertEffects(['1', '2'])
    },
  },
  {
    name: 'F1: missingId as a function makes the id, and what it makes is checked',
    run: async (world) => {
      const reader = world.reader(undefined, { missingId: ({ subject }) => subject as string })
      assertOutcome(await reader.deliver(undefined, { subject: 'from the subject' }), 'processed')
      assertOutcome(await reader.deliver(undefined, { subject: 'from the subject' }), 'duplicate')
      assertOutcome(await reader.deliver(undefined), 'failed', 'missing-id')
      await world.assertEffects(['from the subject'])
    },
  },
  {
    name: 'S3: attributes and headers come back as they came, whatever their names',
    connection: true,
    run: async (world) => {
      const headers = JSON.parse('{"__proto__":"p","constructor":"c","a":"\\u0000","":"empty"}')
      const more: Partial<IncomingMessage> = {
        subject: 'sub\0ject',
        time: '2026-01-01T00:00:00Z',
        key: 'k\0ey',
        correlationId: 'c',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        headers,
      }
      const seen: unknown[] = []
      const reader = world.reader(({ message }) => void seen.push(message), { receive: 'store' })
      await reader.deliver('a\0', more)
      await world.drain(reader)
      assert.deepEqual(JSON.parse(JSON.stringify(seen)), JSON.parse(JSON.stringify([{ ...ping('a\0'), ...more }])))
    },
  },
  {
    name: 'S5: a payload is bytes: all of them come back',
    connection: true,
    run: async (world) => {
      const bytes = Uint8Array.from({ length: 70_000 }, (_, index) => index & 0xff)
      const seen: Buffer[] = []
      const reader = world.reader(({ message }) => void seen.push(Buffer.from(message.data as Uint8Array)), {
        receive: 'store',
      })
      for (const length of [1, 256, 70_000]) {
        const data = bytes.subarray(0, length)
        await reader.deliver(`${length}`, { data, datacontenttype: 'application/octet-stream' })
      }
      await world.drain(reader)
      assert.deepEqual(
        seen.map((data) => [data.length, data.equals(bytes.subarray(0, data.length))]).sort(),
        [
          [1, true],
          [256, true],
          [70_000, true],
        ].sort(),
      )
    },
  },
  {
    name: 'a message of almost one megabyte goes through inbox and failed',
    run: async (world) => {
      const text = 'é'.repeat(500_000)
      const reader = world.reader(() => Promise.reject(new Error('no')))
      await reader.deliver('a', { data: text })
      await world.drain(reader)
      const [failed] = await reader.hapax.failed.list()
      assert.equal(Buffer.from(failed?.message.data ?? []).toString(), JSON.stringify(text))
    },
  },
  {
    name: 'S4: a message beyond maxMessageBytes is refused and kept',
    run: async (world) => {
      const reader = world.reader(undefined, { hapax: world.hapax({ maxMessageBytes: 100 }) })
      assertOutcome(await reader.deliver('a', { data: 'x'.repeat(200) }), 'failed', 'too-large')
      await world.assertPlaces('a', ['failed', 'receipt'])
    },
  },
]

export const identity: readonly Case[] = [...lookalikes, ...refused, ...others]
