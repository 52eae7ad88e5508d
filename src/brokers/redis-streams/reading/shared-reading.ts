import { type Answers, chunks } from '../answers.ts'
import { listOf } from '../link.ts'
import { entriesOf } from '../wire.ts'
import type { Delivered, Wanted } from './member.ts'
import { blockMs, type Desk, type Reading } from './reading.ts'

/** Reads together with other readers. Redis gives each entry to one of them. */
export class SharedReading implements Reading {
  readonly #desk: Desk
  readonly #answers: Answers
  #cursor = BEGINNING
  #keptAt: number

  constructor(desk: Desk, answers: Answers) {
    this.#desk = desk
    this.#answers = answers
    this.#keptAt = desk.settings.clock.monotonic()
  }

  async next({ count }: Wanted): Promise<readonly Delivered[]> {
    const { settings, reading, member } = this.#desk
    const ms = blockMs(settings)
    const from = ['GROUP', settings.group, member.name, 'COUNT', `${count}`, 'BLOCK', `${ms}`]
    const reply = await reading.call(['XREADGROUP', ...from, 'STREAMS', settings.stream, '>'], ms)
    if (reply === null) return []
    // The reply has one pair for the one stream: its name and its entries.
    const [stream] = listOf(reply)
    const [, entries] = listOf(stream)
    return entriesOf(entries).map((entry) => ({ entry, deliveryCount: 1, redelivered: false }))
  }

  /** In this order, so that a reader never claims its own entries. */
  async tend(): Promise<void> {
    await this.#keep()
    await this.#claim()
  }

  giveBack(ids: readonly string[]): void {
    this.#answers.giveBack(ids)
  }

  async leave(): Promise<void> {
    this.#desk.reportGone(await this.#desk.member.leave())
  }

  /** Resets the idle time of entries in hand, so that others do not claim them however long a handler takes. */
  async #keep(): Promise<void> {
    const { settings, member, hand, reportGone } = this.#desk
    const now = settings.clock.monotonic()
    if (now < this.#keptAt + settings.claimAfterMs / 3) return
    this.#keptAt = now
    for (const ids of chunks(hand.ids)) {
      const { taken, gone } = await member.keep(ids)
      hand.forget(new Set(taken))
      reportGone(gone)
    }
  }

  async #claim(): Promise<void> {
    const { settings, control, member, hand, take, reportGone } = this.#desk
    for (let page = 0; page < PAGES && !this.#desk.stopping; page++) {
      const { wanted } = hand
      // Nothing to claim, but a dead link has to be noticed.
      if (wanted.count === 0) return void (await control.call(['PING']))
      const { next, delivered, gone } = await member.claim(settings.claimAfterMs, this.#cursor, wanted)
      this.#cursor = next
      reportGone(gone)
      take(delivered)
      if (next === BEGINNING) return
    }
  }
}

const BEGINNING = '0-0'
/** Claims in a row. */
const PAGES = 10
