import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeText, encodeText } from '../../src/message/message.ts'
import { asBytes, asHex, asText, asUuid, uuidBytes } from '../../src/stores/sql/values.ts'

/** Texts full of what the encoding treats in a special way. */
const text = () =>
  fc.string({
    unit: fc.oneof(fc.constantFrom('\0', '\u0001', '%', '0', '2', '5', '%00', '%25'), fc.string({ maxLength: 1 })),
  })

describe('encodeText', () => {
  it('can be undone, and never makes U+0000', () => {
    fc.assert(
      fc.property(text(), (value) => {
        const stored = encodeText(value)
        expect(stored).not.toContain('\0')
        expect(decodeText(stored)).toBe(value)
      }),
      { numRuns: 5000 },
    )
  })

  it('keeps different texts apart', () => {
    fc.assert(
      fc.property(text(), text(), (one, two) => {
        expect(encodeText(one) === encodeText(two)).toBe(one === two)
      }),
      { numRuns: 5000 },
    )
  })

  it('leaves ordinary text as it is', () => {
    for (const value of ['', 'order-1', '100 %', '%00', 'é👍']) expect(encodeText(value)).toBe(value)
  })
})

describe('columns', () => {
  it('reads what drivers answer: text or bytes', () => {
    const uuid = '0190b0d8-7c3a-8c6e-9a5e-3b1f6d2e4c10'
    for (const value of [
      uuid,
      uuid.toUpperCase(),
      uuid.replaceAll('-', ''),
      uuidBytes(uuid),
      new Uint8Array(uuidBytes(uuid)),
    ]) {
      expect(asUuid(value)).toBe(uuid)
    }
    expect(asText(Buffer.from('é'))).toBe('é')
    expect(asText(new Uint8Array(Buffer.from('é')))).toBe('é')
    expect(asHex(Uint8Array.of(0, 255))).toBe('00ff')
    expect(() => asBytes('text')).toThrow('expected bytes from the database, got "')
  })
})
