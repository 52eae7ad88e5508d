import { beforeEach, expect, it } from 'vitest'
import type { Entry } from '../../src/contracts/store.ts'
import { Floor } from '../../src/transaction/floor.ts'
import { type SuspectLine, Suspects } from '../../src/worker/suspects.ts'

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
  readonly floor: Floor
  readonly begun: string[] = []
  running: readonly Promise<void>[] = []
  suspects: readonly Entry[]
  end: () => void = () => {}

  constructor(...seqs: readonly string[]) {
    this.floor = new Floor(clock)
    this.suspects = seqs.map(entry)
  }

  /** Another line of the same process. */
  beside(...seqs: readonly string[]): Inbox {
    return Object.assign(new Inbox(...seqs), { floor: this.floor, begun: this.begun })
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
          this.end = () => {}
          this.floor.leave(bytes)
          resolve()
        }
      }),
    ]
  }
}

function careFor(line: Inbox, ...others: readonly Inbox[]): Suspects {
  const membership = { note: () => noting() }
  const worker = { lines: () => [line, ...others], isRunning: () => running, changed: () => {} }
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

it('K7: closes a floor that does not become empty for longer and longer, and leaves it to the others for as long', () => {
  const line = new Inbox('1')
  const suspects = careFor(line)
  line.floor.enter(1)
  const closed: number[] = []
  for (let second = 0; second < 40; second++) {
    suspects.begin()
    if (!line.floor.open) closed.push(second)
    now += 1_000
  }
  expect(closed).toEqual([0, 1, 2, 7, 8, 9, 10, 11, 20, 21, 22, 23, 24, 25, 26, 27, 28])
})

it('K7: has an empty floor after a while, although the others take nine seconds each and more of them come at any time', async () => {
  const line = new Inbox('1')
  const suspects = careFor(line)
  const ends: number[] = []
  const began = now
  while (line.begun.length === 0 && now - began < 300_000) {
    for (const _ of ends.splice(0, ends.filter((end) => end <= now).length)) line.floor.leave(1)
    if (line.floor.open && ends.length < 4) {
      line.floor.enter(1)
      ends.push(now + 9_000)
    }
    await suspects.begin()
    now += 500
  }
  expect(line.begun).toEqual(['1'])
  expect(now - began).toBeLessThan(60_000)
})

it('K7: lines take turns', async () => {
  const first = new Inbox('a1', 'a2', 'a3')
  const second = first.beside('b1', 'b2')
  const third = first.beside('c1')
  const suspects = careFor(first, second, third)
  for (let run = 0; run < 6; run++) {
    await suspects.begin()
    for (const line of [first, second, third]) line.end()
    await over(suspects)
  }
  expect(first.begun).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
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
