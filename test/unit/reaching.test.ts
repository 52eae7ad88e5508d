import { beforeEach, expect, it } from 'vitest'
import { Reaching } from '../../src/worker/lines/sending.ts'

let now = 0
let told: boolean[] = []
const clock = { now: () => now, monotonic: () => now, after: () => () => {} }

beforeEach(() => {
  now = 0
  told = []
})

const reaching = (): Reaching => new Reaching({ clock, tell: (reached) => told.push(reached) })

it('K9: leaves messages to others after ten seconds without an answer, and tries again after longer and longer pauses', () => {
  const watched = reaching()
  const changes: number[] = []
  for (let count = 0; now < 400_000; now += 1_000) {
    watched.look()
    watched.missed()
    for (; count < told.length; count++) changes.push(now / 1_000)
  }
  // Away at 10, and with the first failure of every later try at once.
  expect(changes).toEqual([10, 40, 40, 100, 100, 220, 220])
  expect(told).toEqual([false, true, false, true, false, true, false])
})

it('takes everything back as soon as the destination answers, and is patient again', () => {
  const watched = reaching()
  watched.missed()
  now += 10_000
  watched.missed()
  watched.reached()
  watched.missed()
  now += 9_999
  watched.missed()
  expect(told).toEqual([false, true])
})

it('says nothing while the destination answers in between', () => {
  const watched = reaching()
  for (let second = 0; second < 100; second++) {
    now += 1_000
    if (second % 5 === 0) watched.reached()
    else watched.missed()
  }
  expect(told).toEqual([])
})
