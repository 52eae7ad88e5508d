import { expect, it } from 'vitest'
import type { Entry, Look, Share } from '../../src/contracts/index.ts'
import { Reach } from '../../src/worker/lines/reach.ts'

const STALE_MS = 200

/** An idle worker that looks at other lanes whenever it may, in which these rows are overdue. */
function idle(overdue: Set<string>, recorded: ReadonlySet<string>) {
  const clock = { now: 0, monotonic: () => clock.now }
  const reach = new Reach({ clock, random: { number: () => 0 } } as never, STALE_MS)
  const own = { limit: 10 } as Share
  const looks: number[] = []
  const look = (): readonly string[] => {
    const shares = reach.of([own], [own])
    if (shares.length > 0) looks.push(clock.now)
    const entries = [...overdue].map((seq) => ({ seq }) as Entry)
    const answers = [{ entries: [] }, ...shares.map(() => ({ entries }))] as unknown as readonly Look[]
    reach.finds(answers)
    const taken = reach.take(0, 10, ({ seq }) => !recorded.has(seq)).map(({ seq }) => seq)
    for (const seq of taken) overdue.delete(seq)
    return taken
  }
  return { clock, reach, look, looks }
}

it('takes a row that is still there some time after it was first seen', () => {
  const { clock, reach, look } = idle(new Set(['a']), new Set())
  expect(look()).toEqual([])
  expect(reach.nextMs).toBe(STALE_MS)
  clock.now = 199
  expect(look()).toEqual([])
  clock.now = 200
  expect(look()).toEqual(['a'])
})

it('does not let rows wait for those that another worker has recorded, for example before it died', () => {
  const overdue = new Set(['recorded'])
  const { clock, look } = idle(overdue, new Set(['recorded']))
  for (; clock.now <= 1_000; clock.now += 100) expect(look()).toEqual([])
  overdue.add('new')
  const from = clock.now
  while (overdue.has('new')) {
    look()
    clock.now += 100
  }
  expect(clock.now - from).toBeLessThanOrEqual(2 * STALE_MS + 200)
})

it('leaves a recorded row alone for a second', () => {
  const { clock, reach, look, looks } = idle(new Set(['recorded']), new Set(['recorded']))
  look()
  while (clock.now < 5_000) {
    clock.now += reach.nextMs ?? Number.NaN
    look()
  }
  expect(looks.length).toBeLessThanOrEqual(7)
})
