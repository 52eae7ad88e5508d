import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { systemRandom, uuidv7Source, uuidv7Time } from '../../src/base/random.ts'

/** Ids minted while the clock shows these times, one after the other. */
function minted(times: readonly number[]): string[] {
  let place = 0
  const clock = { now: () => times[place++] as number, monotonic: () => 0, after: () => () => {} }
  const mint = uuidv7Source(clock, systemRandom)
  return times.map(() => mint())
}

describe('uuidv7Source', () => {
  it('mints UUIDv7 with the time of the clock', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 48 - 1 }), (time) => {
        const [id] = minted([time]) as [string]
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        expect(Number.parseInt(uuidv7Time(id) as string, 16)).toBe(time)
      }),
    )
  })

  it('rises whatever the clock does', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1_000_000, max: 1_000_010 }), { minLength: 2, maxLength: 100 }),
        (times) => {
          const ids = minted(times)
          expect(ids).toEqual([...ids].sort())
          expect(new Set(ids).size).toBe(ids.length)
        },
      ),
    )
  })

  it('rises through more ids than one millisecond can count', () => {
    const ids = minted(Array.from({ length: 20_000 }, () => 1_700_000_000_000))
    expect(ids).toEqual([...ids].sort())
    expect(new Set(ids).size).toBe(ids.length)
  })
})

describe('uuidv7Time', () => {
  const each = (ids: fc.Arbitrary<string>, time: (id: string) => string | undefined): void =>
    fc.assert(
      fc.property(ids, (id) => {
        expect(uuidv7Time(id)).toBe(time(id))
      }),
    )

  it('knows a UUIDv7 and nothing else', () => {
    each(fc.uuid({ version: 7 }), (id) => id.replaceAll('-', '').slice(0, 12))
    each(fc.uuid({ version: [1, 4, 8] }), () => undefined)
    each(fc.string(), () => undefined)
  })
})
