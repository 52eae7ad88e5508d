import { describe, expect, test } from 'vitest'
import type { Clock } from '../../src/base/index.ts'
import { Deadline } from '../../src/transaction/deadline.ts'

const PHASES = { openingMs: 10, handlerMs: 100, commitMs: 50 }

/** A clock that stands still until it is told, and shows the timers that are set. */
class HandClock implements Clock {
  readonly timers = new Set<{ readonly at: number; readonly call: () => void }>()
  set = 0
  #now = 0

  now(): number {
    return this.#now
  }

  monotonic(): number {
    return this.#now
  }

  after(ms: number, call: () => void): () => void {
    const timer = { at: this.#now + ms, call }
    this.timers.add(timer)
    this.set += 1
    return () => this.timers.delete(timer)
  }

  pass(ms: number): void {
    this.#now += ms
    for (const timer of [...this.timers]) {
      if (timer.at > this.#now || !this.timers.delete(timer)) continue
      timer.call()
    }
  }
}

describe('deadlines', () => {
  test('of one clock share a timer, and each ends in its own time', () => {
    const clock = new HandClock()
    const [first, second] = [new Deadline(clock, PHASES), new Deadline(clock, PHASES)]
    first.opening()
    clock.pass(5)
    second.opening()
    expect(clock.timers.size).toBe(1)
    clock.pass(5)
    expect([first.aborted, second.aborted]).toEqual([true, false])
    expect(first.reason).toMatchObject({ code: 'store-unavailable' })
    clock.pass(5)
    expect(second.aborted).toBe(true)
    expect(clock.timers.size).toBe(0)
  })

  test('leave no timer behind, which would keep the process alive', () => {
    const clock = new HandClock()
    const deadline = new Deadline(clock, PHASES)
    deadline.opening()
    deadline.handler()
    deadline.commit()
    // The timer of the first phase serves the others: it is set again only if it fires too early.
    expect(clock.set).toBe(1)
    deadline.done()
    expect(clock.timers.size).toBe(0)
    deadline.commit()
    expect(clock.timers.size).toBe(0)
  })

  test('are extended by the next phase', () => {
    const clock = new HandClock()
    const deadline = new Deadline(clock, PHASES)
    deadline.opening()
    deadline.handler()
    clock.pass(99)
    expect(deadline.aborted).toBe(false)
    deadline.commit()
    clock.pass(49)
    expect(deadline.aborted).toBe(false)
    clock.pass(1)
    expect(deadline.reason).toMatchObject({ code: 'commit-unknown' })
  })

  test('that end before the timer fires make it fire sooner', () => {
    const clock = new HandClock()
    const [slow, quick] = [new Deadline(clock, PHASES), new Deadline(clock, PHASES)]
    slow.handler()
    quick.opening()
    expect(clock.timers.size).toBe(1)
    clock.pass(10)
    expect([slow.aborted, quick.aborted]).toEqual([false, true])
  })

  test('show the same abort to listeners, to a signal that was asked for, and to one that is asked for later', () => {
    const clock = new HandClock()
    const deadline = new Deadline(clock, PHASES)
    const { signal } = deadline
    const heard: string[] = []
    const gone = (): void => void heard.push('removed')
    deadline.addEventListener('abort', () => void heard.push('kept'))
    deadline.addEventListener('abort', gone)
    deadline.removeEventListener('abort', gone)
    deadline.handler()
    clock.pass(100)
    expect(heard).toEqual(['kept'])
    expect(signal.reason).toMatchObject({ code: 'handler-timeout' })
    expect(deadline.signal).toBe(signal)
    expect(() => deadline.throwIfAborted()).toThrow('the handler did not finish')

    const late = new Deadline(clock, PHASES)
    late.handler()
    clock.pass(100)
    expect(late.signal.reason).toBe(late.reason)
  })

  test('end with the signal around them, also when that was aborted before', () => {
    const outer = new AbortController()
    const deadline = new Deadline(new HandClock(), PHASES, outer.signal)
    outer.abort(new Error('stopped'))
    expect(deadline.reason).toBe(outer.signal.reason)
    expect(new Deadline(new HandClock(), PHASES, outer.signal).aborted).toBe(true)
  })

  test('that one listener breaks do not keep the others from ending', () => {
    const clock = new HandClock()
    const [first, second] = [new Deadline(clock, PHASES), new Deadline(clock, PHASES)]
    first.addEventListener('abort', () => {
      throw new Error('a listener')
    })
    first.opening()
    second.opening()
    expect(() => clock.pass(10)).toThrow('a listener')
    clock.pass(0)
    expect(second.aborted).toBe(true)
  })
})
