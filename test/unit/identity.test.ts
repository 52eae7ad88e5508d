import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { messageId, messageKey } from 'hapax'
import { describe, expect, it } from 'vitest'
import { fingerprint, keyRange, payloadId, sha256 } from '../../src/message/message.ts'

const runs = { numRuns: 1000 }
/** Any string that a sender may use: also with surrogate pairs, controls and U+0000. */
const text = () =>
  fc
    .string({
      unit: fc.oneof(fc.constantFrom('\0', ' ', "'", '%', 'é', '👍'), fc.string({ minLength: 1, maxLength: 1 })),
      minLength: 1,
    })
    .filter((each) => each.isWellFormed())
const uuidv7 = () => fc.uuid({ version: 7 })
const mixedCase = (value: string) =>
  fc
    .array(fc.boolean(), { minLength: 36, maxLength: 36 })
    .map((upper) => [...value].map((char, index) => (upper[index] ? char.toUpperCase() : char)).join(''))

/** The definition, written down a second time: UUIDv8 of the time of a UUIDv7 and the hash of the length-prefixed pair. */
function reference(source: string, id: string): string {
  const part = (value: string): Buffer => {
    const bytes = Buffer.from(value, 'utf8')
    return Buffer.concat([Buffer.from(`${bytes.length}:`), bytes, Buffer.from(',')])
  }
  const digest = createHash('sha256')
    .update(Buffer.concat([part(source), part(id)]))
    .digest()
  const v7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i.test(id)
  const key = Buffer.alloc(16)
  if (v7) Buffer.from(id.replaceAll('-', '').slice(0, 12), 'hex').copy(key)
  digest.copy(key, 6, 0, 10)
  key[6] = ((key[6] as number) & 0x0f) | 0x80
  key[8] = ((key[8] as number) & 0x3f) | 0x80
  return key.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

describe('messageKey', () => {
  it('is what the design says, for any source and id', () => {
    fc.assert(
      fc.property(text(), fc.oneof(text(), uuidv7().chain(mixedCase)), (source, id) => {
        expect(messageKey(source, id)).toBe(reference(source, id))
      }),
      runs,
    )
  })

  it('is a UUIDv8', () => {
    fc.assert(
      fc.property(text(), fc.oneof(text(), uuidv7()), (source, id) => {
        expect(messageKey(source, id)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      }),
      runs,
    )
  })

  it('begins with the time of a UUIDv7 in any case, and with zeros otherwise', () => {
    fc.assert(
      fc.property(uuidv7().chain(mixedCase), (id) => {
        expect(messageKey('/s', id).slice(0, 13)).toBe(id.slice(0, 13).toLowerCase())
      }),
      runs,
    )
    for (const id of [
      'a',
      '0190b0d8-7c3a-4c6e-9a5e-3b1f6d2e4c10',
      '0190b0d8-7c3a-7c6e-ca5e-3b1f6d2e4c10',
      '{0190b0d8-7c3a-7c6e-9a5e-3b1f6d2e4c10}',
      '0190b0d87c3a7c6e9a5e3b1f6d2e4c10',
      ' 190b0d8-7c3a-7c6e-9a5e-3b1f6d2e4c10',
    ]) {
      expect(messageKey('/s', id)).toMatch(/^00000000-0000-8/)
    }
  })

  it('keeps UUIDv7 ids in the order of their time', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2 ** 47 }),
        fc.integer({ min: 1, max: 2 ** 46 }),
        text(),
        (ms, more, source) => {
          const id = (time: number): string => {
            const digits = time.toString(16).padStart(12, '0')
            return `${digits.slice(0, 8)}-${digits.slice(8)}-7000-8000-000000000000`
          }
          expect(messageKey(source, id(ms)) < messageKey(source, id(ms + more))).toBe(true)
        },
      ),
      runs,
    )
  })

  it('depends on the exact bytes: case, spaces, accents and normal forms differ', () => {
    const lookalikes = ['abc', 'ABC', 'abc ', ' abc', 'ábc', 'a\u0301bc', 'abc\0', 'Abç', '1', '1.0', '01']
    expect(new Set(lookalikes.map((id) => messageKey('/s', id))).size).toBe(lookalikes.length)
    const upper = '0190B0D8-7C3A-7C6E-9A5E-3B1F6D2E4C10'
    expect(messageKey('/s', upper)).not.toBe(messageKey('/s', upper.toLowerCase()))
  })

  it('does not join source and id', () => {
    expect(messageKey('ab', 'c')).not.toBe(messageKey('a', 'bc'))
    fc.assert(
      fc.property(text(), text(), text(), (a, b, c) => {
        expect(messageKey(a + b, c)).not.toBe(messageKey(a, b + c))
      }),
      runs,
    )
  })

  it('is the same for the same pair and different for different ones', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(text(), text()), { selector: JSON.stringify, maxLength: 50 }), (pairs) => {
        const keys = pairs.map(([source, id]) => messageKey(source, id))
        expect(new Set(keys).size).toBe(pairs.length)
        expect(pairs.map(([source, id]) => messageKey(source, id))).toEqual(keys)
      }),
      { numRuns: 200 },
    )
  })

  it('has a known value, which must never change: receipts are found by it', () => {
    expect(messageKey('/shop', '1')).toBe(reference('/shop', '1'))
    expect(messageKey('/shop', '1')).toMatchInlineSnapshot(`"00000000-0000-8809-b36f-97667ba71ae4"`)
    expect(messageKey('/shop', '0190b0d8-7c3a-7c6e-9a5e-3b1f6d2e4c10')).toMatchInlineSnapshot(
      `"0190b0d8-7c3a-8795-afaf-0ea4d7a3761a"`,
    )
  })
})

describe('messageId', () => {
  const part = () => fc.oneof(text(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.bigInt(), fc.boolean())

  it('is a UUIDv8 that depends on the name and the typed parts', () => {
    fc.assert(
      fc.property(text(), fc.array(part(), { minLength: 1 }), (name, parts) => {
        const id = messageId(name, ...parts)
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        expect(messageId(name, ...parts)).toBe(id)
        expect(messageId(name, ...parts, 'more')).not.toBe(id)
        expect(messageId(`${name}.`, ...parts)).not.toBe(id)
      }),
      runs,
    )
  })

  it('tells apart what joins and conversions would merge', () => {
    const all = [
      messageId('a', 'b', 'c'),
      messageId('a', 'b,c'),
      messageId('a', 'bc'),
      messageId('ab', 'c'),
      messageId('a', 1),
      messageId('a', '1'),
      messageId('a', 1n),
      messageId('a', true),
      messageId('a', 'true'),
      messageId('a', 9007199254740992n),
      messageId('a', 9007199254740993n),
    ]
    expect(new Set(all).size).toBe(all.length)
  })

  it('refuses what has no one text', () => {
    const given = [
      undefined,
      null,
      {},
      [],
      Number.NaN,
      Number.POSITIVE_INFINITY,
      Symbol('a'),
      () => 1,
      '\ud800',
    ] as never[]
    for (const bad of given) {
      expect(() => messageId('a', 'fine', bad)).toThrow(/^expected parts\[1\] to be a well-formed string, /)
    }
    expect(() => messageId('', 'a')).toThrow('expected name to be a non-empty, well-formed string, got ""')
    expect(() => messageId('a')).toThrow('expected parts to be at least one value, got an array of 0')
  })
})

describe('fingerprint and payloadId', () => {
  it('differ when a byte differs, also where the bytes are a view', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 64 }), fc.nat(), (bytes, place) => {
        const at = place % bytes.length
        const changed = Uint8Array.from(bytes, (byte, index) => (index === at ? byte ^ 1 : byte))
        const view = new Uint8Array(Buffer.concat([Buffer.from('x'), bytes])).subarray(1)
        for (const digest of [fingerprint, (payload: Uint8Array) => payloadId('t', null, sha256(payload))]) {
          expect(digest(view)).toBe(digest(bytes))
          expect(digest(changed)).not.toBe(digest(bytes))
        }
      }),
      runs,
    )
    expect(fingerprint(new Uint8Array(0))).toMatch(/^[0-9a-f]{16}$/)
    expect(payloadId('t', 'k', sha256(new Uint8Array(0)))).toMatch(/^sha256:[0-9a-f]{64}$/)
    const ids = [payloadId('t', null, ''), payloadId('u', null, ''), payloadId('t', 'k', ''), payloadId('tk', null, '')]
    expect(new Set(ids).size).toBe(ids.length)
  })
})

describe('the keys of an id', () => {
  it('has the key of every source, if the id is a UUIDv7', () => {
    fc.assert(
      fc.property(text(), uuidv7().chain(mixedCase), (source, id) => {
        const key = messageKey(source, id)
        const range = keyRange(id)
        expect(range).toBeDefined()
        expect(key >= (range?.from ?? '') && key <= (range?.to ?? '')).toBe(true)
      }),
      runs,
    )
  })

  it('says nothing of other ids', () => {
    expect(keyRange('order-17')).toBeUndefined()
  })
})
