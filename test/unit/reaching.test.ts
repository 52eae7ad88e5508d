import { beforeEach, expect, it } from 'vitest'
import { Reaching } from '../../src/worker/lines/sending.ts'

let now = 0
let told: boolean[] = []
let reasons: (string | undefined)[] = []
const error = new Error('no answer')
const clock = { now: () => now, monotonic: () => now, after: () => () => {} }

beforeEach(() => {
  now = 0
  told = []
  reasons = []
})

const reaching = (): Reaching =>
  new Reaching({
    clock,
    tell: (reached) => told.push(reached),
    failing: (failure) => reasons.push(failure?.message),
  })

it('K9: leaves messages to others after ten seconds without an answer, and tries again after longer and longer pauses', () => {
  const watched = reaching()
  const changes: number[] = []
  for (let count = 0; now < 400_000; now += 1_000) {
    watched.look()
    watched.missed(error)
    for (; count < told.length; count++) changes.push(now / 1_000)
  }
  // Away at 10, and with the first failure of every later try at once.
  expect(changes).toEqual([10, 40, 40, 100, 100, 220, 220])
  expect(told).toEqual([false, true, false, true, false, true, false])
})

it('takes everything back as soon as the destination answers, and is patient again', () => {
  const watched = reaching()
  watched.missed(error)
  now += 10_000
  watched.missed(error)
  watched.reached()
  watched.missed(error)
  now += 9_999
  watched.missed(error)
  expect(told).toEqual([false, true])
})

it('says nothing while the destination answers in between', () => {
  const watched = reaching()
  for (let second = 0; second < 100; second++) {
    now += 1_000
    if (second % 5 === 0) watched.reached()
    else watched.missed(error)
  }
  expect(told).toEqual([])
})

it('says why it fails after three seconds, once, and that it no longer does', () => {
  const watched = reaching()
  for (const second of [0, 2_999]) {
    now = second
    watched.missed(error)
  }
  expect(reasons).toEqual([])
  for (const second of [3_000, 4_000, 60_000]) {
    now = second
    watched.missed(new Error(`at ${second}`))
  }
  expect(reasons).toEqual(['at 3000'])
  watched.reached()
  watched.reached()
  expect(reasons).toEqual(['at 3000', undefined])
})
