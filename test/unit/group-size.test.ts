import { describe, expect, it } from 'vitest'
import { GroupSize, sharing } from '../../src/consumer/group-size.ts'

const handler = { kind: 'one' }
const jobs = (count: number) => Array.from({ length: count }, () => ({ handler }))

/** Full groups, whose messages take so long each. */
function run(groups: GroupSize, times: number, msEach: number): readonly number[] {
  return Array.from({ length: times }, () => {
    const { size } = groups
    groups.committed(jobs(size), { handlersMs: size * msEach, repeated: false })
    return size
  })
}

describe('GroupSize', () => {
  it('is what the options say, whatever happens', () => {
    const groups = new GroupSize(7)
    groups.failed()
    groups.committed(jobs(7), { handlersMs: 10_000, repeated: true })
    expect([groups.size, groups.next(1, 10), groups.automatic, groups.mostConflicts(7)]).toEqual([
      7,
      7,
      false,
      undefined,
    ])
    expect(groups.mayShare(handler)).toBe(true)
  })

  it('is at most the maximum of the store, except with onMany', () => {
    const groups = new GroupSize(200, 50)
    expect([groups.size, groups.next(300, 1)]).toEqual([50, 50])
    expect(run(new GroupSize(undefined, 50), 8, 0)).toEqual([1, 2, 4, 8, 16, 32, 50, 50])
    groups.forMany()
    expect(groups.size).toBe(200)
  })

  it('doubles while handlers are quick, up to 100', () => {
    expect(run(new GroupSize(undefined), 9, 0)).toEqual([1, 2, 4, 8, 16, 32, 64, 100, 100])
  })

  it('begins with 100 for handlers of many, and grows up to 500', () => {
    const groups = new GroupSize(undefined)
    groups.forMany()
    expect(run(groups, 4, 0)).toEqual([100, 200, 400, 500])
    groups.failed()
    expect(groups.size).toBe(100)
  })

  it('settles at what takes 50 ms', () => {
    expect(run(new GroupSize(undefined), 7, 1).slice(5)).toEqual([32, 50])
    expect(run(new GroupSize(undefined), 5, 10).slice(2)).toEqual([4, 5, 5])
    expect(run(new GroupSize(undefined), 3, 40)).toEqual([1, 1, 1])
  })

  it('shrinks at once when handlers become slow, and to what fits', () => {
    const groups = new GroupSize(undefined)
    run(groups, 8, 0)
    expect(run(groups, 2, 5)).toEqual([100, 10])
    expect(run(groups, 2, 1_000)).toEqual([10, 1])
    expect(groups.size).toBe(1)
  })

  it('does not grow by small groups, nor by several that end together', () => {
    const groups = new GroupSize(undefined)
    run(groups, 5, 0)
    expect(groups.size).toBe(32)
    for (let times = 0; times < 10; times++) groups.committed(jobs(16), { handlersMs: 1, repeated: false })
    expect(groups.size).toBe(32)
    for (let times = 0; times < 3; times++) groups.committed(jobs(32), { handlersMs: 200, repeated: false })
    expect(groups.size).toBe(8)
  })

  it('begins again after a failure, the more reluctantly the more often', () => {
    const groups = new GroupSize(undefined)
    const untilGrown = (): number => {
      groups.failed()
      let messages = 0
      for (; groups.size === 1; messages++) run(groups, 1, 0)
      return messages
    }
    expect([untilGrown(), untilGrown(), untilGrown()]).toEqual([17, 33, 65])
    for (let times = 0; times < 20; times++) groups.failed()
    expect(untilGrown()).toBe(1_025)
  })

  it('forgives failures that are rare', () => {
    const groups = new GroupSize(undefined)
    for (let times = 0; times < 20; times++) groups.failed()
    run(groups, 3_000, 0)
    groups.failed()
    expect(run(groups, 18, 0).at(-1)).toBe(2)
  })

  it('takes a conflict for a failure, also if the group succeeded after it', () => {
    const groups = new GroupSize(undefined)
    run(groups, 8, 0)
    groups.committed(jobs(100), { handlersMs: 1, repeated: true })
    expect(groups.size).toBe(1)
    expect(groups.mostConflicts(2)).toBe(3)
    expect(groups.mostConflicts(1)).toBeUndefined()
  })

  it('does not count groups that were taken before a failure', () => {
    const groups = new GroupSize(undefined)
    run(groups, 8, 0)
    groups.failed()
    for (let times = 0; times < 9; times++) groups.committed(jobs(100), { handlersMs: 1, repeated: false })
    expect(run(groups, 17, 0).at(-1)).toBe(1)
  })

  it('spreads what few messages there are over the free places', () => {
    const groups = new GroupSize(undefined)
    run(groups, 8, 0)
    expect([groups.next(5, 10), groups.next(25, 10), groups.next(5_000, 10), groups.next(3, 0)]).toEqual([1, 3, 100, 3])
  })

  it('lets a handler share a transaction once it has succeeded by itself, and handlers of many at once', () => {
    const groups = new GroupSize(undefined)
    expect([groups.mayShare(handler), groups.mayShare({ kind: 'many' })]).toEqual([false, true])
    groups.committed(jobs(1), { handlersMs: 1, repeated: false })
    expect([groups.mayShare(handler), groups.mayShare({ kind: 'one' })]).toEqual([true, false])
  })
})

describe('sharing', () => {
  it('keeps the order, and asks again for each part', () => {
    const seen = new Set(['a'])
    const parts: string[] = []
    for (const part of sharing(['a', 'a', 'b', 'b', 'a', 'b', 'c'], (item) => seen.has(item))) {
      parts.push(part.join(''))
      for (const item of part) seen.add(item)
    }
    expect(parts).toEqual(['aa', 'b', 'bab', 'c'])
  })
})
