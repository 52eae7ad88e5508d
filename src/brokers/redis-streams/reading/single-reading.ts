import type { Signal } from '../../../base/index.ts'
import type { Delivered, Wanted } from './member.ts'
import { blockMs, type Desk, type Reading } from './reading.ts'
import type { Turn } from './turn.ts'

/**
 * Reads alone, in the order of the stream. Only the holder of the turn may read, and the script that returns entries checks that in
 * the same step: a reader that was presumed dead gets nothing new. Its successor begins with all unfinished entries. If the first
 * one is alive after all, both store the same messages in the same order, and one of them finds duplicates.
 */
export class SingleReading implements Reading {
  readonly #desk: Desk
  readonly #turn: Turn
  readonly #wake: Signal
  /** Where to continue among unfinished entries, or `>` for new ones; undefined while another reader has the turn. */
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
    // The turn may have been lost meanwhile. Then nothing may be handed out after the entries that were dropped.
    if (found === undefined || this.#cursor === undefined) {
      this.#lose()
      return []
    }
    this.#cursor = found.cursor
    this.#desk.reportGone(found.gone)
    if (found.last !== undefined) await this.#somethingNew(found.last)
    return found.delivered
  }

  /** Prolongs the turn. */
  async tend(): Promise<void> {
    const { clock, claimAfterMs } = this.#desk.settings
    const now = clock.monotonic()
    if (this.#cursor === undefined || now < this.#keptAt + claimAfterMs / 3) return
    this.#keptAt = now
    if (!(await this.#turn.keep())) this.#lose()
  }

  /** Nothing to do: the next holder of the turn begins with unfinished entries. */
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

  /** Waits until there is an entry after this one. The entry itself is ignored: only the script may return it. */
  async #somethingNew(last: string): Promise<void> {
    const { settings, reading } = this.#desk
    const ms = blockMs(settings)
    await reading.call(['XREAD', 'COUNT', '1', 'BLOCK', `${ms}`, 'STREAMS', settings.stream, last], ms)
  }
}

/** How often a standby checks whether the turn is free. */
const STANDBY_MS = 500
