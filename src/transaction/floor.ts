import type { Clock } from '../base/index.ts'

/**
 * Admits messages to run in this process. Many run at once, but a message that is suspected of crashing its process runs alone: so it
 * takes no others down with it, and a crash proves that it was the cause.
 */
export class Floor {
  readonly #clock: Clock
  readonly #listeners = new Set<() => void>()
  readonly #waiting: (() => void)[] = []
  #count = 0
  #bytes = 0
  #alone = false
  /** Whether a caller did not get in for lack of room. */
  #tight = false
  /** The caller that wants the floor to itself, and since when. */
  #closed: { readonly by: object; readonly since: number } | undefined
  #openedAt: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#openedAt = clock.monotonic()
  }

  /** Called when a waiting caller may find the floor empty, or with more room. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  get empty(): boolean {
    return this.#count === 0
  }

  /** Whether others may enter now. */
  get open(): boolean {
    return this.#closed === undefined && !this.#alone
  }

  /**
   * Closes the floor for a caller that wants to run alone: nothing else enters until it has run. Not within `everyMs` of the last
   * time, and not for longer than `patienceMs`. Returns whether the floor is closed for this caller.
   */
  clear(by: object, everyMs: number, patienceMs: number): boolean {
    const now = this.#clock.monotonic()
    if (this.#closed === undefined && now - this.#openedAt >= everyMs) this.#closed = { by, since: now }
    if (this.#closed?.by !== by) return false
    if (this.#count === 0 || now - this.#closed.since <= patienceMs) return true
    this.reopen(by)
    return false
  }

  /** Opens the floor again, if it was closed for this caller. */
  reopen(by: object): void {
    if (this.#closed?.by !== by) return
    this.#closed = undefined
    this.#openedAt = this.#clock.monotonic()
    this.#admit()
  }

  /** Whether this many more bytes may run at once. A single message always may, whatever its size. */
  hasRoomFor(bytes: number): boolean {
    const room = this.#count === 0 || this.#bytes + bytes <= MAX_BYTES
    if (!room) this.#tight = true
    return room
  }

  /** Enters as soon as the floor is open. */
  async enterWhenOpen(bytes: number): Promise<void> {
    while (!this.open) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.enter(bytes)
  }

  enter(bytes: number, alone = false): void {
    this.#count += 1
    this.#bytes += bytes
    this.#alone = alone
  }

  leave(bytes: number): void {
    this.#count -= 1
    this.#bytes -= bytes
    this.#alone = false
    this.#admit()
    if (!this.#tight && !(this.#closed && this.empty)) return
    this.#tight = false
    for (const listener of this.#listeners) listener()
  }

  #admit(): void {
    if (this.open) for (const enter of this.#waiting.splice(0)) enter()
  }
}

/** How much of messages may run at once in one process. */
const MAX_BYTES = 64 * 1024 * 1024
