import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LowWater, type Place } from '../../src/brokers/kit/low-water.ts'

describe('LowWater', () => {
  it('E4: never passes a position that is not finished, and reaches every one that nothing holds up', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), count: fc.integer({ min: 1, max: 800 }) }),
      fc.record({ kind: fc.constant('finish' as const), which: fc.nat(), count: fc.integer({ min: 1, max: 800 }) }),
      fc.record({ kind: fc.constant('advance' as const) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const water = new LowWater<number>()
        const places: Place<number>[] = []
        let mark = -1
        let passed = 0
        const advance = (): void => {
          const moved = water.advance()
          const firstOpen = places.findIndex(({ finished }) => !finished)
          const last = (firstOpen === -1 ? places.length : firstOpen) - 1
          if (moved === undefined) expect(mark).toBe(last)
          else {
            expect(moved.position).toBe(last)
            expect(moved.count).toBe(last - mark)
            mark = moved.position
            passed += moved.count
          }
          expect(water.size).toBe(places.length - passed)
        }
        for (const each of steps) {
          if (each.kind === 'add') for (let n = 0; n < each.count; n++) places.push(water.add(places.length))
          else if (each.kind === 'advance') advance()
          else for (let n = 0; n < each.count; n++) finish(places, each.which + 7 * n)
        }
        advance()
        expect(water.advance()).toBeUndefined()
      }),
      { numRuns: 300 },
    )
  })

  it('says nothing while the first position is open, whatever is finished behind it', () => {
    const water = new LowWater<string>()
    const places = ['a', 'b', 'c'].map((position) => water.add(position))
    for (const place of places.slice(1)) place.finished = true
    expect(water.advance()).toBeUndefined()
    ;(places[0] as Place<string>).finished = true
    expect(water.advance()).toEqual({ position: 'c', count: 3 })
    expect(water.advance()).toBeUndefined()
    expect(water.size).toBe(0)
  })
})

function finish(places: readonly Place<number>[], which: number): void {
  const place = places[which % Math.max(1, places.length)]
  if (place !== undefined) place.finished = true
}
