import type { Deliveries, Handle, Incoming } from '../../kit/index.ts'
import { arrivalOf, cut, type ReadingOptions } from '../wire.ts'
import type { Delivered, Wanted } from './member.ts'

/** The handle of an entry that was handed out. */
export interface EntryHandle extends Handle {
  readonly id: string
}

/**
 * The entries that a session has: those handed out, and a surplus beyond the room. XREADGROUP limits the count but not the bytes, so
 * the count is estimated from the size of earlier entries.
 */
export class Hand {
  readonly #deliveries: Deliveries<EntryHandle>
  readonly #reading: ReadingOptions
  readonly #handleOf: (id: string) => EntryHandle
  #surplus: Incoming<EntryHandle>[] = []
  #usualBytes: number | undefined

  constructor(deliveries: Deliveries<EntryHandle>, reading: ReadingOptions, handleOf: (id: string) => EntryHandle) {
    this.#deliveries = deliveries
    this.#reading = reading
    this.#handleOf = handleOf
  }

  /** How much to request. */
  get wanted(): Wanted {
    const { roomBytes: bytes } = this.#deliveries
    return { count: this.#wantedCount, bytes, maxBytes: this.#reading.maxBytes }
  }

  get #wantedCount(): number {
    const { room, roomBytes } = this.#deliveries
    if (this.#surplus.length > 0) return 0
    if (this.#usualBytes === undefined) return Math.min(room, FIRST)
    return Math.min(room, MOST, Math.max(1, Math.floor(roomBytes / this.#usualBytes)))
  }

  /** All unfinished entries, in the order of arrival. */
  get ids(): readonly string[] {
    return [...this.#deliveries.handles, ...this.#surplus.map(({ handle }) => handle)].map(({ id }) => id)
  }

  take(delivered: readonly Delivered[]): void {
    if (delivered.length === 0) return
    const known = new Set(this.ids)
    const fresh = delivered.filter(({ entry }) => !known.has(entry.id))
    this.#surplus.push(...fresh.map((each) => this.#incoming(each)))
    this.#learn(delivered)
    this.handOut()
  }

  /** Hands out what there is room for. */
  handOut(): void {
    const { room, roomBytes } = this.#deliveries
    let bytes = 0
    let count = 0
    while (count < Math.min(room, this.#surplus.length) && (count === 0 || bytes < roomBytes)) {
      bytes += this.#surplus[count]?.bytes ?? 0
      count += 1
    }
    this.#deliveries.hand(this.#surplus.splice(0, count))
  }

  /** Drops these entries, or all of them, because another reader has them now. */
  forget(ids?: ReadonlySet<string>): void {
    const isTheirs = ({ id }: EntryHandle): boolean => ids === undefined || ids.has(id)
    this.#surplus = this.#surplus.filter(({ handle }) => !isTheirs(handle))
    this.#deliveries.forget(isTheirs)
  }

  /** Drops the surplus, and returns its ids. */
  dropSurplus(): readonly string[] {
    return this.#surplus.splice(0).map(({ handle }) => handle.id)
  }

  #incoming({ entry: whole, ...delivery }: Delivered): Incoming<EntryHandle> {
    const entry = cut(whole, this.#reading.maxBytes)
    const arrival = arrivalOf(entry, this.#reading, delivery)
    return { arrival, bytes: entry.bytes, handle: this.#handleOf(entry.id) }
  }

  /** Rises at once and falls slowly: too many bytes are worse than a few more requests. */
  #learn(delivered: readonly Delivered[]): void {
    const bytes = delivered.reduce((sum, { entry }) => sum + entry.bytes, 0)
    this.#usualBytes = Math.max(1, bytes / delivered.length, 0.9 * (this.#usualBytes ?? 0))
  }
}

/** The first request, before the size of entries is known. */
const FIRST = 16
/** An upper bound, because large entries may follow small ones, and Redis sends as many as requested. */
const MOST = 100
