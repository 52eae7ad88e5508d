import { describe, expect, it } from 'vitest'
import { afterAwake, within } from '../../src/base/index.ts'
import { LeapingClock } from '../../src/testing/clock.ts'

const MINUTE = 60_000

describe('a time awake', () => {
  it('is not over after one standstill, however long, and is over after as much time in small steps', () => {
    const clock = new LeapingClock()
    let over = 0
    afterAwake(clock, MINUTE, () => {
      over += 1
    })
    clock.leap(10 * MINUTE)
    expect(over).toBe(0)
    for (let step = 0; step < 7; step++) clock.leap(MINUTE / 8)
    expect(over).toBe(1)
    clock.leap(10 * MINUTE)
    expect(over).toBe(1)
  })

  it('can be cancelled at any time', () => {
    const clock = new LeapingClock()
    let over = 0
    const cancel = afterAwake(clock, MINUTE, () => {
      over += 1
    })
    clock.leap(MINUTE)
    cancel()
    for (let step = 0; step < 8; step++) clock.leap(MINUTE)
    expect(over).toBe(0)
  })

  it('lets an answer count that came during a standstill', async () => {
    const clock = new LeapingClock()
    const answer = Promise.withResolvers<string>()
    const awake = within(clock, MINUTE, answer.promise, () => 'late', 'awake')
    const plain = within(clock, MINUTE, answer.promise, () => 'late')
    // As after a standstill: first the timers, then the sockets.
    clock.leap(2 * MINUTE)
    answer.resolve('answered')
    expect([await awake, await plain]).toEqual(['answered', 'late'])
  })
})
