import { beforeEach, expect, it } from 'vitest'
import { Floor } from '../../src/core/floor.ts'
import type { Entry } from '../../src/core/store.ts'
import { type SuspectLine, Suspects } from '../../src/core/suspects.ts'

let now = 0
let running = true
let noting: () => Promise<void> = async () => {}
const clock = { now: () => now, monotonic: () => now, after: () => () => {} }

beforeEach(() => {
  now = 10_000
  running = true
  noting = async () => {}
})

const entry = (seq: string): Entry => ({ seq, bytes: 1 }) as Entry

/** An inbox with suspects; what it begins runs until it is told to end. */
class Inbox implements SuspectLine {
  readonly floor = new Floor(clock)
  readonly begun: string[] = []
  running: readonly Promise<void>[] = []
  suspects: readonly Entry[]
  end: () => void = () => {}

  constructor(...seqs: readonly string[]) {
    this.suspects = seqs.map(entry)
  }

  takeSuspect(): Entry | undefined {
    const [first, ...others] = this.suspects
    this.suspects = others
    return first
  }

  giveBack(suspect: Entry): void {
    this.suspects = [suspect, ...this.suspects]
  }

  unnoted(): void {}

  beginAlone({ seq, bytes }: Entry): void {
    this.begun.push(seq)
    this.floor.enter(bytes, true)
    this.running = [
      new Promise((resolve) => {
        this.end = () => {
          this.floor.leave(bytes)
          resolve()
        }
      }),
    ]
  }
}

function careFor(line: Inbox): Suspects {
  const membership = { note: () => noting() }
  const worker = { lines: () => [line], isRunning: () => running, changed: () => {} }
  // The floor has been open for long.
  now += 10_000
  return new Suspects({ clock, floor: line.floor, membership, ...worker })
}

async function over(suspects: Suspects): Promise<void> {
  while (suspects.current !== undefined) await Promise.resolve()
}

it('begins with one suspect after the other, while nobody else may enter', async () => {
  const line = new Inbox('1', '2')
  const suspects = careFor(line)
  await suspects.begin()
  expect([line.begun, suspects.current, line.floor.open]).toEqual([['1'], '1', false])
  line.end()
  await over(suspects)
  expect(line.floor.open).toBe(false)
  await suspects.begin()
  expect(line.begun).toEqual(['1', '2'])
  line.end()
  await over(suspects)
  expect([suspects.begin(), line.floor.open]).toEqual([undefined, true])
})

it('waits until the floor is empty, and lets nobody else in meanwhile', async () => {
  const line = new Inbox('1')
  const suspects = careFor(line)
  line.floor.enter(1)
  expect([suspects.begin(), line.begun, line.floor.open]).toEqual([undefined, [], false])
  line.floor.leave(1)
  await suspects.begin()
  expect(line.begun).toEqual(['1'])
})

it('leaves a floor that does not become empty to the others, for longer and longer', () => {
  const line = new Inbox('1')
  const suspects = careFor(line)
  line.floor.enter(1)
  const closed: number[] = []
  for (let second = 0; second < 40; second++) {
    suspects.begin()
    if (!line.floor.open) closed.push(second)
    now += 1_000
  }
  expect(closed).toEqual([0, 1, 2, 7, 8, 9, 18, 19, 20, 37, 38, 39])
})

it('leaves the floor to the others after a while, although there are more suspects', async () => {
  const line = new Inbox('1', '2')
  const suspects = careFor(line)
  await suspects.begin()
  now += 2_001
  line.end()
  await over(suspects)
  expect([suspects.begin(), line.floor.open]).toEqual([undefined, true])
  now += 2_000
  await suspects.begin()
  expect(line.begun).toEqual(['1', '2'])
})

it('gives it back if the worker stops while it is being noted', async () => {
  const line = new Inbox('1')
  const suspects = careFor(line)
  noting = async () => {
    running = false
  }
  await suspects.begin()
  expect([line.begun, line.suspects.length, suspects.current]).toEqual([[], 1, undefined])
})

it('gives it back if somebody enters while it is being noted', async () => {
  const line = new Inbox('1')
  const suspects = careFor(line)
  noting = async () => line.floor.enter(1)
  await suspects.begin()
  expect([line.begun, line.suspects.length, suspects.current]).toEqual([[], 1, undefined])
})

it('gives it back if it cannot be noted', async () => {
  const line = new Inbox('1')
  const suspects = careFor(line)
  noting = () => Promise.reject(new Error('no database'))
  await expect(suspects.begin()).rejects.toThrow('no database')
  expect([line.begun, line.suspects.length, suspects.current]).toEqual([[], 1, undefined])
})

it('lets the others in when the worker stops', () => {
  const line = new Inbox('1')
  const suspects = careFor(line)
  line.floor.enter(1)
  suspects.begin()
  expect(line.floor.open).toBe(false)
  suspects.stop()
  expect(line.floor.open).toBe(true)
})
