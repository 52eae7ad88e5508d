import { describe, expect, it } from 'vitest'
import type { Entry } from '../../src/contracts/store.ts'
import { type Chain, type GroupingOptions, grouping, nextTurn } from '../../src/worker/lines/grouping.ts'

let seq = 0
function entry(key: string | null, more: Partial<Entry> = {}): Entry {
  seq += 1
  return { seq: String(seq), type: 't', lane: 0, key, bytes: 10, dueMs: 0, held: false, deaths: 0, ...more }
}

const OPTIONS: GroupingOptions = {
  room: 100,
  roomBytes: 1_000_000,
  size: 3,
  bytes: 1_000,
  ready: ({ held, dueMs }) => !held && dueMs <= 0,
}

const shape = (entries: readonly Entry[], options: Partial<GroupingOptions> = {}) => {
  const { turns, apart, alone } = grouping(entries, { ...OPTIONS, ...options })
  const name = ({ key, seq: number }: Entry): string => `${key ?? ''}${number}`
  seq = 0
  return {
    turns: turns.map((turn) => turn.map((group) => group.map(name))),
    apart: apart.map(name),
    alone: alone.map(name),
  }
}

describe('grouping', () => {
  it('fills groups with what has no key', () => {
    expect(shape([entry(null), entry(null), entry(null), entry(null)]).turns).toEqual([[['1', '2', '3']], [['4']]])
  })

  it('takes a key from its first message on, without a gap', () => {
    const rows = [entry('a'), entry('a'), entry('a', { dueMs: 5 }), entry('a'), entry('b', { held: true }), entry('b')]
    expect(shape(rows).turns).toEqual([[['a1', 'a2']]])
  })

  it('puts a key into one group, or into groups that run one after the other', () => {
    const rows = [entry('a'), entry('a'), entry('b'), entry('b'), entry('c'), entry('c'), entry('c'), entry('c')]
    const turns = [[['c5', 'c6', 'c7'], ['c8']], [['a1', 'a2']], [['b3', 'b4']]]
    expect(new Set(shape(rows).turns.map(String))).toEqual(new Set(turns.map(String)))
  })

  it('takes no more than there is room for, in messages and in bytes, but always one', () => {
    const rows = () => [entry(null), entry(null), entry(null), entry(null)]
    expect(shape(rows(), { room: 2 }).turns.flat(2)).toEqual(['1', '2'])
    expect(shape(rows(), { roomBytes: 25 }).turns.flat(2)).toEqual(['1', '2'])
    expect(shape(rows(), { roomBytes: 1 }).turns.flat(2)).toEqual(['1'])
    expect(shape([entry('a'), entry('a'), entry('a')], { roomBytes: 25 }).turns.flat(2)).toEqual(['a1', 'a2'])
    expect(shape(rows(), { bytes: 20 }).turns).toEqual([[['1', '2']], [['3', '4']]])
  })

  it('K7: sets apart what was in hand at one death, and alone what was at two; one in a key holds what comes after it', () => {
    const rows = [entry(null, { deaths: 1 }), entry(null), entry('a', { deaths: 1 }), entry('a')]
    expect(shape(rows)).toEqual({ turns: [[['2']]], apart: ['1', 'a3'], alone: [] })
    const twice = [entry(null, { deaths: 2 }), entry('b', { deaths: 5 }), entry('b')]
    expect(shape(twice)).toEqual({ turns: [], apart: [], alone: ['1', 'b2'] })
    expect(shape([entry('a'), entry('a', { deaths: 1 }), entry('a')])).toEqual({
      turns: [[['a1']]],
      apart: [],
      alone: [],
    })
  })
})

describe('nextTurn', () => {
  const turn = (...keys: string[]): Chain => [keys.map((key) => entry(key))]
  const keys = (chain: Chain | undefined): readonly string[] | undefined =>
    chain?.map((group) => group.map(({ key }) => key).join(''))

  it('puts small groups together, up to the size and the bytes', () => {
    const queue = [turn('a'), turn('b', 'b'), turn('c'), turn('d'), turn('e', 'e', 'e')]
    expect(keys(nextTurn(queue, 4, 1_000))).toEqual(['abbc'])
    expect(keys(nextTurn(queue, 4, 30))).toEqual(['d'])
    expect(keys(nextTurn(queue, 4, 1_000))).toEqual(['eee'])
    expect(nextTurn(queue, 4, 1_000)).toBeUndefined()
  })

  it('lets the parts of a group that is too large run one after the other', () => {
    expect(keys(nextTurn([turn('a', 'a', 'b')], 2, 1_000))).toEqual(['aa', 'b'])
  })

  it('leaves turns of several groups as they are', () => {
    const chain: Chain = [...turn('a', 'a'), ...turn('a')]
    const queue = [turn('b'), chain, turn('c')]
    expect(keys(nextTurn(queue, 10, 1_000))).toEqual(['b'])
    expect(keys(nextTurn(queue, 10, 1_000))).toEqual(['aa', 'a'])
    expect(keys(nextTurn(queue, 10, 1_000))).toEqual(['c'])
  })
})
