import type { Clock } from './clock.ts'

/**
 * Where messages run. Many may be on the floor at once; a message that is suspected of ending its process runs alone, so
 * that it takes no others along, and so that it is known who it was.
 */
export class Floor {
  readonly #clock: Clock
  readonly #waiting: (() => void)[] = []
  readonly #changed: () => void
  #count = 0
  #bytes = 0
  #closed = false
  #alone = false
  #openedAt: number

  /** `changed` is called when somebody leaves. */
  constructor(clock: Clock, changed: () => void) {
    this.#clock = clock
    this.#changed = changed
    this.#openedAt = clock.monotonic()
  }

  get empty(): boolean {
    return this.#count === 0
  }

  /** Whether something runs alone. */
  get alone(): boolean {
    return this.#alone
  }

  /** Whether others may enter now. */
  get open(): boolean {
    return !this.#closed && !this.#alone
  }

  /** Somebody wants to run alone: nobody enters until that has happened. Not too soon after the last time. */
  clear(everyMs: number): void {
    if (this.#clock.monotonic() - this.#openedAt >= everyMs) this.#closed = true
  }

  /** Lets others in again. */
  reopen(): void {
    if (this.#closed) this.#openedAt = this.#clock.monotonic()
    this.#closed = false
    for (const enter of this.#waiting.splice(0)) enter()
  }

  /** Whether this many bytes more may be on the floor; one message always may. */
  hasRoomFor(bytes: number): boolean {
    return this.#count === 0 || this.#bytes + bytes <= MAX_BYTES
  }

  /** Enters as soon as others may. */
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
    this.#changed()
  }
}

/** How much of messages may run at once in one worker. */
const MAX_BYTES = 64 * 1024 * 1024
