import type { Detached } from '../base/index.ts'
import type { Entry, Origin } from '../contracts/index.ts'
import type { Committed } from '../transaction/index.ts'
import { InboxLine } from './lines/inbox.ts'
import type { OutboxLine } from './lines/outbox.ts'

/** What handing over needs of its worker. */
interface HandoverOptions<Tx> {
  readonly detached: Detached
  inboxes(): readonly InboxLine<Tx>[]
  relays(): readonly OutboxLine<Tx>[]
  /** Whether the worker runs and is known to others. */
  isAble(): boolean
  /** Whether its handlers cannot run. */
  isStuck(): boolean
  /** Begins with what the lines have in hand. */
  begin(): void
}

/** Passes what was committed to the lines of a worker that it is for. */
export class Handover<Tx> {
  readonly #options: HandoverOptions<Tx>

  constructor(options: HandoverOptions<Tx>) {
    this.#options = options
  }

  /** Hands over rows that were committed, by this process or another, so that no look is needed. Returns whether one is needed nevertheless. */
  take(rows: readonly Committed[]): boolean {
    const { isAble, isStuck, begin, detached } = this.#options
    if (!isAble()) return true
    const entries = new Map<InboxLine<Tx>, Entry[]>()
    let mustLook = false
    for (const row of rows) {
      const line = this.#lineOf(row.table, row.scope)
      if (line instanceof InboxLine && row.entry !== undefined && !isStuck()) {
        entries.set(line, [...(entries.get(line) ?? []), row.entry])
      } else if (line?.owns((lane) => lane === row.lane)) mustLook = true
    }
    for (const [line, own] of entries) mustLook = line.handOver(own) || mustLook
    // News of other processes come in the context of a connection.
    if (entries.size > 0) detached(begin)
    return mustLook
  }

  /** Whether a row is for this worker. */
  serves({ table, scope, lane }: Committed): boolean {
    return this.#options.isAble() && this.#lineOf(table, scope)?.owns((own) => own === lane) === true
  }

  #lineOf(table: Origin, scope: string): InboxLine<Tx> | OutboxLine<Tx> | undefined {
    const { inboxes, relays } = this.#options
    return table === 'inbox'
      ? inboxes().find((line) => line.consumer === scope)
      : relays().find((line) => line.relay === scope)
  }
}
