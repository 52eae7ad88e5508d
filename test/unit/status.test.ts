import { describe, expect, it } from 'vitest'
import { spread } from '../../src/stores/sql/status.ts'

const known = (count: number) => ({ count, more: false })
const more = (weight?: number) => ({ count: 10_001, more: true, weight })

describe('what was counted in part', () => {
  it('is what the table has beside the rest', () => {
    expect(spread(1_005_000, [known(5_000), more()])).toEqual([5_000, 1_000_000])
  })

  it('is shared by weight, also if the weights are out of date', () => {
    expect(spread(100_000, [more(0.3), more(0.1), known(0)])).toEqual([75_000, 25_000, 0])
  })

  it('is shared evenly where nothing is known of one of them', () => {
    expect(spread(90_000, [more(0.2), more(0.4), more()])).toEqual([20_000, 40_000, 30_000])
    expect(spread(90_000, [more(), more()])).toEqual([45_000, 45_000])
  })

  it('is never less than what was counted', () => {
    expect(spread(undefined, [more(), known(3)])).toEqual([10_001, 3])
    expect(spread(12_000, [more(1), more(0)])).toEqual([12_000, 10_001])
    expect(spread(0, [more(0), known(3)])).toEqual([10_001, 3])
  })
})
