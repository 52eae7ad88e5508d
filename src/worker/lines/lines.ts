import type { InboxLine } from './inbox.ts'
import type { Line } from './line.ts'
import type { OutboxLine } from './outbox.ts'
import type { SubscriptionLine } from './subscription.ts'

/** What decides which lines may be moved. */
interface LinesOptions {
  /** Whether no handler can run here. */
  isStuck(): boolean
  /** Whether a person has paused a consumer (`inbox`) or a relay (`outbox`). */
  isPaused(origin: 'inbox' | 'outbox', scope: string): boolean
}

/** The lines and readers of a worker, and which of them it may move at the moment. */
export class Lines<Tx> {
  readonly #options: LinesOptions
  inboxes: readonly InboxLine<Tx>[] = []
  relays: readonly OutboxLine<Tx>[] = []
  readers: readonly SubscriptionLine[] = []

  constructor(options: LinesOptions) {
    this.#options = options
  }

  get all(): readonly Line[] {
    return [...this.inboxes, ...this.relays]
  }

  /** Inboxes that nobody has paused. */
  get servedInboxes(): readonly InboxLine<Tx>[] {
    return this.inboxes.filter(({ consumer }) => !this.#options.isPaused('inbox', consumer))
  }

  /** Relays that nobody has paused. */
  get servedRelays(): readonly OutboxLine<Tx>[] {
    return this.relays.filter(({ relay }) => !this.#options.isPaused('outbox', relay))
  }

  /** All lines that nobody has paused. */
  get served(): readonly Line[] {
    return [...this.servedInboxes, ...this.servedRelays]
  }

  /** Inboxes whose handlers can run. */
  get movableInboxes(): readonly InboxLine<Tx>[] {
    return this.#options.isStuck() ? [] : this.servedInboxes
  }

  /** The lines that can make progress. Relays need no handler, so that they continue while handlers are stuck. */
  get movable(): readonly Line[] {
    return [...this.movableInboxes, ...this.servedRelays]
  }

  /** Whether nothing is in hand. */
  get idle(): boolean {
    return [...this.all, ...this.readers].every((each) => each.idle)
  }

  /** Releases all that has not begun. */
  drop(): void {
    for (const line of this.all) line.drop()
  }

  /** Releases what has not begun and may not begin now, and has readers rest or read accordingly. */
  settle(): void {
    const movable = new Set(this.movable)
    for (const line of this.all) if (!movable.has(line)) line.drop()
    this.rest()
  }

  /** Readers rest while no handler can run, or while their consumer is paused. */
  rest(): void {
    const { isStuck, isPaused } = this.#options
    for (const reader of this.readers) reader.rest(isStuck() || isPaused('inbox', reader.horizon.consumer))
  }
}
