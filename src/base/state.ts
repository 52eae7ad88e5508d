// What waits, as metrics and status pages show it.

/** What waits for a consumer. */
interface ConsumerState {
  readonly consumer: string
  /** Due or soon due, and never failed. */
  readonly waiting: number
  readonly retrying: number
  /** Keys that wait behind a message that failed for good. */
  readonly held: number
  readonly failed: number
  /** Outside calls of which nobody knows whether they happened. Undefined: the store does not tell. */
  readonly unknownEffects: number | undefined
  /** The age of its oldest message that is not held. Undefined: nothing waits, or the store does not tell. */
  readonly oldestMs: number | undefined
  /** How many live workers serve it. Undefined: the store does not know its workers. */
  readonly workers: number | undefined
}

/** What waits for a relay. */
interface RelayState {
  readonly relay: string
  readonly waiting: number
  readonly held: number
  readonly failed: number
  readonly oldestMs: number | undefined
  readonly workers: number
}

/** What waits in a database. Large numbers are estimates. */
export interface State {
  readonly consumers: readonly ConsumerState[]
  readonly relays: readonly RelayState[]
  /** Failed messages by reason. */
  readonly failed: readonly {
    readonly origin: 'inbox' | 'outbox'
    readonly scope: string
    readonly reason: string
    readonly count: number
  }[]
  readonly workers: { readonly alive: number; readonly stuck: number; readonly dead: number } | undefined
  /** About how many rows the tables have. */
  readonly rows: readonly { readonly table: string; readonly rows: number }[]
}

/** How long receipts of a consumer are kept, and how long its messages may come again. */
export interface Horizon {
  readonly consumer: string
  /** Infinity: for ever. */
  readonly retentionMs: number
  /** Undefined: no broker has said. */
  readonly redeliveryMs: number | undefined
}
