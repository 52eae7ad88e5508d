import { describe, expect, it, test } from 'vitest'
import { Child } from '../../support/child.ts'
import { durableStores, makePlace } from '../../support/databases.ts'
import type { CheckerJob, CheckerReport } from './checker-child.ts'
import { ledgerTables, openLedger } from './ledger.ts'
import { type Effect, type History, judge, type Verdict } from './verdict.ts'

/** Two keys, three messages each, a message every 100 ms and its effect 50 ms later. */
function good(): History & { effects: Effect[] } {
  const sent = ['a', 'b', 'a', 'b', 'a', 'b'].map((key, index) => {
    return { id: `m-${index}`, key, n: Math.floor(index / 2) + 1, at: index * 100 }
  })
  const effects = sent.map((each) => ({ ...each, at: each.at + 50, seen: each.n - 1, worker: 0 }))
  return {
    planned: sent.map(({ id }) => id),
    sent,
    effects,
    failed: [],
    ordered: true,
    kills: [210],
    silenceLimitMs: 1_000,
  }
}

function at<T>(list: readonly T[], index: number): T {
  return list[index] as T
}

function swapped<T>(list: readonly T[], one: number, other: number): T[] {
  return list.map((each, index) => (index === one ? at(list, other) : index === other ? at(list, one) : each))
}

type Break = (history: ReturnType<typeof good>) => Partial<History>

const broken: Record<string, [keyof Verdict | 'silence', Break]> = {
  'a message without an effect': ['lost', ({ effects }) => ({ effects: effects.slice(0, -1) })],
  'nothing at all': ['lost', () => ({ effects: [] })],
  'a message with two effects': ['doubled', ({ effects }) => ({ effects: [...effects, at(effects, 5)] })],
  'two effects by two workers at once': [
    'doubled',
    ({ effects }) => ({
      effects: effects.flatMap((each, index) => (index === 2 ? [each, { ...each, worker: 1 }] : each)),
    }),
  ],
  'an effect of a message that nobody sent': [
    'unexpected',
    ({ effects }) => ({ effects: [...effects, { ...at(effects, 5), id: 'm-99', n: 4, seen: 3 }] }),
  ],
  'an effect under another key': [
    'unexpected',
    ({ effects }) => ({ effects: effects.map((each, index) => (index === 0 ? { ...each, key: 'c' } : each)) }),
  ],
  'an effect with another content': [
    'unexpected',
    ({ effects }) => ({ effects: effects.map((each, index) => (index === 5 ? { ...each, n: 4, seen: 3 } : each)) }),
  ],
  'a later message of a key before an earlier one': [
    'inverted',
    ({ effects }) => ({ effects: swapped(effects, 0, 2) }),
  ],
  'the last two of a key swapped': ['inverted', ({ effects }) => ({ effects: swapped(effects, 3, 5) })],
  'an effect beside the one before it, not after': [
    'early',
    ({ effects }) => ({ effects: effects.map((each, index) => (index === 2 ? { ...each, seen: 0 } : each)) }),
  ],
  'an effect that saw a later one': [
    'early',
    ({ effects }) => ({ effects: effects.map((each, index) => (index === 0 ? { ...each, seen: 2 } : each)) }),
  ],
  'a message that was planned and never sent': ['unsent', ({ planned }) => ({ planned: [...planned, 'm-6'] })],
  'a key whose numbers have a gap': [
    'misnumbered',
    ({ sent }) => ({ sent: sent.map((each, index) => (index === 5 ? { ...each, n: 4 } : each)) }),
  ],
  'a key with one number twice': [
    'misnumbered',
    ({ sent }) => ({ sent: sent.map((each, index) => (index === 4 ? { ...each, n: 2 } : each)) }),
  ],
  'a message in the failed store': ['failed', () => ({ failed: ['m-3'] })],
  'work that nobody does for too long': [
    'silence',
    ({ effects }) => ({ effects: effects.map((each, index) => (index === 5 ? { ...each, at: 1_600 } : each)) }),
  ],
}

describe('the checker', () => {
  it('has no complaint about a good history', () => {
    expect(judge(good())).toMatchObject({ complaints: [], effects: 6, keys: 2, silenceMs: 50, afterKillMs: 40 })
  })

  it('lets effects of different keys come in any order', () => {
    expect(judge({ ...good(), effects: swapped(good().effects, 0, 1) }).complaints).toEqual([])
  })

  it('lets effects come in any order where none is asked for', () => {
    expect(judge({ ...good(), ordered: false, effects: swapped(good().effects, 0, 2) }).complaints).toEqual([])
  })

  it('takes no silence for a stop when there is no work', () => {
    const { sent, effects, ...rest } = good()
    const later = <T extends { at: number }>(list: readonly T[]): T[] =>
      list.map((each, index) => (index > 2 ? { ...each, at: each.at + 5_000 } : each))
    expect(judge({ ...rest, sent: later(sent), effects: later(effects) })).toMatchObject({
      complaints: [],
      silenceMs: 50,
    })
  })

  test.each(Object.entries(broken))('rejects %s', (_name, [complaint, breaks]) => {
    const history = good()
    const verdict = judge({ ...history, ...breaks(history) })
    expect(verdict.complaints).toContainEqual(
      expect.stringContaining(complaint === 'silence' ? 'no effect for' : complaint),
    )
  })
})

describe.each(durableStores().filter((store) => store !== 'sqlite'))('%s: the checker', (store) => {
  it('judges by what is in its tables', async () => {
    await using rig = await makePlace(store)
    const { place } = rig
    const { sent, effects } = ledgerTables(place)
    const job: CheckerJob = {
      place,
      ordered: true,
      keys: 2,
      messages: 3,
      silenceLimitMs: 20_000,
      restMs: 100,
    }
    const checker = new Child<CheckerReport>(new URL('./checker-child.ts', import.meta.url), job, 120_000)
    expect(await checker.next()).toEqual({ said: 'ready' })
    const ledger = await openLedger(place)
    await ledger.query(
      `insert into ${sent} (id, name, n, copies) values ('m-0', 'key-0', 1, 1), ('m-1', 'key-0', 2, 0), ('m-2', 'key-1', 1, 0)`,
    )
    await ledger.query(
      `insert into ${effects} (id, name, n, seen, worker) values ('m-1', 'key-0', 2, 0, 0), ('m-0', 'key-0', 1, 0, 0), ('m-0', 'key-0', 1, 2, 0)`,
    )
    await ledger.close()
    checker.tell({ order: 'rest' })
    expect(await checker.next()).toEqual({ said: 'rested', left: [] })
    checker.tell({ order: 'judge' })
    expect(await checker.next()).toMatchObject({
      said: 'verdict',
      copies: 1,
      verdict: { lost: ['m-2'], doubled: ['m-0'], inverted: ['m-0', 'm-0'], early: ['m-1', 'm-0'], effects: 3 },
    })
    expect(await checker.ended).toMatchObject({ code: 0, errors: '' })
  })
})
