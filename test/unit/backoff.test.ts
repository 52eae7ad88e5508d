import fc from 'fast-check'
import { HapaxError, Permanent, RetryAfter } from 'hapax'
import { describe, expect, it } from 'vitest'
import { retryDelay } from '../../src/base/backoff.ts'
import { judge } from '../../src/consumer/verdict.ts'

const random = (number: number) => ({ number: () => number, token: () => '', bytes: () => new Uint8Array(0) })
const policy = () =>
  fc
    .record({
      attempts: fc.integer({ min: 1, max: 100 }),
      minDelayMs: fc.integer({ min: 0, max: 100_000 }),
      span: fc.integer({ min: 0, max: 1_000_000 }),
      factor: fc.double({ min: 1, max: 10, noNaN: true }),
    })
    .map(({ span, ...rest }) => ({ ...rest, maxDelayMs: rest.minDelayMs + span }))
const chance = () => fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

describe('retryDelay', () => {
  it('stays between the least and the greatest delay, in whole milliseconds', () => {
    fc.assert(
      fc.property(policy(), fc.integer({ min: 1, max: 10_000 }), chance(), (each, attempt, number) => {
        const delay = retryDelay(each, attempt, random(number))
        expect(delay).toBeGreaterThanOrEqual(each.minDelayMs)
        expect(delay).toBeLessThanOrEqual(each.maxDelayMs)
        expect(Number.isInteger(delay)).toBe(true)
      }),
      { numRuns: 2000 },
    )
  })

  it('has a bound that grows with the attempts, and jitter over the whole of it', () => {
    const each = { attempts: 10, minDelayMs: 1_000, maxDelayMs: 600_000, factor: 2 }
    const most = [1, 2, 3, 4, 20].map((attempt) => retryDelay(each, attempt, random(1 - 2 ** -53)))
    expect(most).toEqual([2_000, 4_000, 8_000, 16_000, 600_000])
    expect([1, 2, 20].map((attempt) => retryDelay(each, attempt, random(0)))).toEqual([1_000, 1_000, 1_000])
  })
})

describe('judge', () => {
  const each = { attempts: 3, minDelayMs: 0, maxDelayMs: 0, factor: 2 }
  const of = (error: unknown, attempt = 1) => judge(error, attempt, each, random(0))

  it('retries until the attempts run out', () => {
    fc.assert(
      fc.property(policy(), fc.integer({ min: 1, max: 200 }), (given, attempt) => {
        const verdict = judge(new Error('no'), attempt, given, random(0))
        expect(verdict.kind).toBe(attempt >= given.attempts ? 'fail' : 'retry')
      }),
    )
    expect(of(new Error('no'), 3)).toMatchObject({ kind: 'fail', reason: 'attempts-exhausted' })
  })

  it('gives up at once where another attempt is pointless', () => {
    expect(of(new Permanent('no'))).toMatchObject({ kind: 'fail', reason: 'permanent' })
    for (const code of ['invalid-payload', 'broken-atomicity', 'expired', 'too-large', 'unknown-type'] as const) {
      expect(of(new HapaxError(code, 'no'))).toMatchObject({ kind: 'fail', reason: code })
    }
  })

  it('waits as long as RetryAfter says', () => {
    expect(of(new RetryAfter(5_000))).toMatchObject({ kind: 'retry', delayMs: 5_000 })
    expect(of(new RetryAfter(-1))).toMatchObject({ kind: 'retry', delayMs: 0 })
    expect(of(new RetryAfter(5_000), 3)).toMatchObject({ kind: 'fail', reason: 'attempts-exhausted' })
  })

  it('waits as usual where RetryAfter has no number, and ten years at most', () => {
    for (const delay of [Number.NaN, Number.POSITIVE_INFINITY, undefined, '5', {}]) {
      expect(of(new RetryAfter(delay as number))).toMatchObject({ kind: 'retry', delayMs: 0 })
    }
    expect(of(new RetryAfter(1e300))).toMatchObject({ delayMs: 315_360_000_000 })
  })

  it('stays a number after any count of attempts', () => {
    expect(judge(new Error('no'), 5_000, { ...each, attempts: 10_000 }, random(0.5))).toMatchObject({ delayMs: 0 })
  })

  it('takes whatever was thrown', () => {
    for (const thrown of [undefined, null, 'text', 7, {}, Symbol('s')]) {
      expect(of(thrown).error).toBeInstanceOf(Error)
      expect(of(thrown).kind).toBe('retry')
    }
  })
})
