import type { Signal } from '../../../base/index.ts'
import type { Delivered, Wanted } from './member.ts'
import { blockMs, type Desk, type Reading } from './reading.ts'
import type { Turn } from './turn.ts'

/**
 * Reads alone, in the order of the stream. Whoever has the turn may read, and that is looked at in the same step in which
 * entries are given out: a reader that was taken for dead gets nothing new. Its successor begins with everything that is not
 * finished. Should the first one be alive and still at that, both store the same messages in the same order, and one of them
 * finds duplicates.
 */
export class SingleReading implements Reading {
  readonly #desk: Desk
  readonly #turn: Turn
  readonly #wake: Signal
  /** Where to go on in what was not finished, or `>` for new entries; undefined while somebody else has the turn. */
  #cursor: string | undefined
  #keptAt = 0

  /** `wake` ends a pause. */
  constructor(desk: Desk, turn: Turn, wake: Signal) {
    this.#desk = desk
    this.#turn = turn
    this.#wake = wake
  }

  async next(wanted: Wanted): Promise<readonly Delivered[]> {
    if (this.#cursor === undefined && !(await this.#begin())) return []
    const found = await this.#turn.next(this.#cursor ?? '>', wanted)
    // The turn may have been lost meanwhile: then nothing may be handed out behind what was dropped.
    if (found === undefined || this.#cursor === undefined) {
      this.#lose()
      return []
    }
    this.#cursor = found.cursor
    this.#desk.reportGone(found.gone)
    if (found.last !== undefined) await this.#somethingNew(found.last)
    return found.delivered
  }

  /** Says that the reader is alive. */
  async tend(): Promise<void> {
    const { clock, claimAfterMs } = this.#desk.settings
    const now = clock.monotonic()
    if (this.#cursor === undefined || now < this.#keptAt + claimAfterMs / 3) return
    this.#keptAt = now
    if (!(await this.#turn.keep())) this.#lose()
  }

  /** It stays where it is: whoever has the turn next begins with it. */
  giveBack(): void {}

  async leave(): Promise<void> {
    this.#desk.reportGone(await this.#desk.member.leave())
    await this.#turn.end()
  }

  async #begin(): Promise<boolean> {
    const { settings, reportGone } = this.#desk
    this.#keptAt = settings.clock.monotonic()
    const gone = await this.#turn.begin()
    if (gone === undefined) {
      await this.#wake.wait(settings.clock, Math.min(STANDBY_MS, settings.claimAfterMs / 6))
      return false
    }
    reportGone(gone)
    this.#cursor = '0-0'
    return true
  }

  #lose(): void {
    this.#cursor = undefined
    this.#desk.hand.forget()
  }

  /** Waits until there is an entry behind this one. What comes is not looked at: only the turn gives it out. */
  async #somethingNew(last: string): Promise<void> {
    const { settings, reading } = this.#desk
    const ms = blockMs(settings)
    await reading.call(['XREAD', 'COUNT', '1', 'BLOCK', `${ms}`, 'STREAMS', settings.stream, last], ms)
  }
}

/** How often others look whether the turn is free. */
const STANDBY_MS = 500
