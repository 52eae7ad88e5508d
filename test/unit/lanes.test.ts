import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ALL_LANES, LANES, laneOf, lanesOf, nextLanesOf } from '../../src/message/lanes.ts'
import type { StoredMessage } from '../../src/message/message.ts'
import { Rotation } from '../../src/worker/lines/hand.ts'

const ids = () => fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 20 })

describe('lanes', () => {
  it('each belong to exactly one worker', () => {
    fc.assert(
      fc.property(ids(), (workers) => {
        const all = workers.flatMap((worker) => lanesOf(worker, workers))
        expect([...all].sort((a, b) => a - b)).toEqual(ALL_LANES)
      }),
    )
  })

  it('change hands only from or to the worker that comes or goes, whatever the order of the list', () => {
    fc.assert(
      fc.property(ids(), fc.uuid(), (workers, comer) => {
        fc.pre(!workers.includes(comer))
        const joined = [comer, ...workers].reverse()
        for (const worker of workers) {
          const before = new Set(lanesOf(worker, workers))
          expect(lanesOf(worker, joined).every((lane) => before.has(lane))).toBe(true)
        }
      }),
    )
  })

  it('have one next worker each, to which they pass when their owner goes', () => {
    fc.assert(
      fc.property(ids(), (workers) => {
        const all = workers.flatMap((worker) => nextLanesOf(worker, workers))
        expect([...all].sort((a, b) => a - b)).toEqual(workers.length > 1 ? ALL_LANES : [])
        for (const owner of workers) {
          const left = workers.filter((each) => each !== owner)
          for (const lane of lanesOf(owner, workers)) {
            const next = left.find((worker) => lanesOf(worker, left).includes(lane))
            expect(next === undefined || nextLanesOf(next, workers).includes(lane)).toBe(true)
          }
        }
      }),
    )
  })

  it('are about even: none of four workers has less than a tenth', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.uuid(), { minLength: 4, maxLength: 4 }), (workers) => {
        for (const worker of workers) expect(lanesOf(worker, workers).length).toBeGreaterThanOrEqual(3)
      }),
      // About one set in a hundred thousand is less even by chance: so the same ones each time.
      { seed: 1, numRuns: 1_000 },
    )
  })

  it('are the same in every version, so that workers of two versions agree', () => {
    const lanes = [1, 9, 10, 18, 20, 29, 33, 37, 39, 45, 48, 49, 51, 58, 59, 60, 61, 62]
    expect(lanesOf('c', ['a', 'b', 'c'])).toEqual(lanes)
  })

  it('keep a key together where order counts, and spread it where not', () => {
    const message = (key: string | null, last: string) =>
      ({ key, messageKey: `00000000-0000-8000-8000-0000000000${last}` }) as StoredMessage
    expect(laneOf(message('a', '01'), true)).toBe(laneOf(message('a', '02'), true))
    expect(laneOf(message('a', '01'), false)).not.toBe(laneOf(message('a', '02'), false))
    expect(laneOf(message(null, '41'), true)).toBe(0x41 % LANES)
  })
})

describe('a rotation', () => {
  it('is over when every lane has come to its end, also where lanes differ in length', () => {
    const rotation = new Rotation()
    const pages = new Map([
      [0, 3],
      [1, 2],
    ])
    const at = new Map([...pages.keys()].map((lane) => [lane, 0]))
    let looks = 0
    do {
      const after = new Map<number, string>()
      for (const [lane, count] of pages) {
        const page = rotation.after.has(lane) ? (at.get(lane) ?? 0) + 1 : 1
        at.set(lane, page)
        if (page < count) after.set(lane, String(page))
      }
      rotation.seen(after)
      looks += 1
    } while (rotation.unfinished && looks < 100)
    expect(looks).toBe(3)
  })
})
