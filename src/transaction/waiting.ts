// What handlers have published and what is not written yet.

import { type HapaxError, Watched } from '../base/index.ts'
import type { LocalResult, LocalRow, OutboxRow, Unit } from '../contracts/index.ts'
import type { StoredMessage } from '../message/index.ts'
import type { OutsideQueries } from './outside.ts'

/** Stands for delivery to the consumers on the same database, where otherwise a relay is named. */
export const LOCAL: unique symbol = Symbol('local delivery')

/** A message ready to be written. */
export interface Prepared {
  readonly message: StoredMessage
  readonly relay: string | typeof LOCAL
  readonly delayMs: number
  /** Which of several handlers that overlap has published it. @default 0 */
  readonly slot?: number
}

/** Whether a message goes to the outbox. */
export function toRelay(prepared: Prepared): prepared is Prepared & OutboxRow {
  return prepared.relay !== LOCAL
}

/** Judges the connections that the handlers of a transaction take from the pool. */
export interface Watch {
  readonly outside: OutsideQueries
  readonly consumer: string
}

/** Messages that were published inside a transaction of hapax and are not written yet. They are written last, in one statement. */
export class Waiting {
  readonly unit: Pick<Unit<unknown>, 'mostBytes'>
  readonly waiting: Prepared[] = []
  readonly written: Prepared[] = []
  /** Undefined: nothing was published. */
  watched: Watching | undefined
  /** Local messages as they were written, and what became of them. */
  readonly local: { readonly rows: readonly LocalRow[]; readonly results: readonly LocalResult[] }[] = []
  running = 0
  slots = 0
  /** The transaction has settled, or is about to: what comes now would be lost. */
  closed = false
  /** The first outside query that was refused. */
  refused: HapaxError | undefined
  readonly #watch: Watch | undefined

  /** Without a watch, the code in the transaction may take connections. */
  constructor(unit: Pick<Unit<unknown>, 'mostBytes'>, watch?: Watch) {
    this.unit = unit
    this.#watch = watch
  }

  takes(pool: object): HapaxError | undefined {
    const error = this.#watch?.outside.takes(this.#watch.consumer, pool)
    this.refused ??= error
    return error
  }

  /** A publish that is never awaited must not end the process: its failure is reported when the handler has returned. */
  watch<T>(publishing: Promise<T>): Promise<T> {
    this.watched ??= { failed: [], telling: new Set() }
    const { failed, telling } = this.watched
    const watched = new Watched(publishing)
    const told: Promise<unknown> = publishing.catch(() => failed.push(watched)).finally(() => telling.delete(told))
    telling.add(told)
    return watched
  }
}

/** What becomes of the publishes of a transaction. */
export interface Watching {
  readonly failed: Watched<unknown>[]
  /** Those that have not reported yet how they ended. */
  readonly telling: Set<Promise<unknown>>
}

/** Messages are written in the order of their slots. */
export function slotOf({ slot = 0 }: Prepared): number {
  return slot
}

/** Whether a message would overtake one that waits. */
export function mayOvertake(now: Prepared, waiting: Prepared): boolean {
  return now.message.key !== null && now.message.key === waiting.message.key && now.relay === waiting.relay
}
