import { type Clock, positiveInteger } from '../base/index.ts'
import { LeapingClock } from '../testing/index.ts'

/** A clock that runs as usual and can be moved forward. */
export interface TestClock extends Clock {
  /** Moves the clock forward, and calls at once what was due by then, in its order. */
  advance(ms: number): void
}

/** A clock for `createHapax({ clock })` and `memory({ clock })`, so that a test need not wait for minutes to pass. */
export function testClock(): TestClock {
  return new Movable()
}

/** Unlike the clock of the suites, it also moves the time of day, which the memory store goes by. */
class Movable extends LeapingClock implements TestClock {
  #movedMs = 0

  override now(): number {
    return super.now() + this.#movedMs
  }

  advance(ms: number): void {
    const checked = positiveInteger('ms', ms, 1)
    this.#movedMs += checked
    this.leap(checked)
  }
}
