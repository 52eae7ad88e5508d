import type { Clock } from '../../base/index.ts'
import type { RawClient } from './client.ts'

/**
 * The way to a stream whose slot is being moved: the server that had it names the one that has it already (`ASK`), while the cluster still
 * names the first one. (If only some of a command's keys are there, it says `TRYAGAIN`.) It leads there for a while only. Later the same
 * slot may be on its way again, and the stream in the old place: what is added in the new one then would be a second stream.
 */
export class Detour {
  readonly #clock: Clock
  #place: string | undefined
  #until = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Where to go instead of to the master of the slot. */
  get place(): string | undefined {
    return this.#clock.monotonic() < this.#until ? this.#place : undefined
  }

  /** A link was lost with this reply: the next one goes where it says, or where the cluster says. */
  follow(reply: string): void {
    this.#place = /\bASK \d+ (\S+)/.exec(reply)?.[1]
    this.#until = this.#clock.monotonic() + FRESH_MS
  }
}

/**
 * The same client at the end of a detour. A server to which a slot is being moved serves only those who ask, command by command.
 * As soon as it has the slot, that is over.
 */
export function asking(client: RawClient, stream: string, clock: Clock): RawClient {
  let lastAt = clock.monotonic()
  let isImporting = true
  let isProbing = false

  const probe = async (): Promise<void> => {
    isProbing = true
    // Refused as long as the slot is on its way.
    isImporting = await client.send(['EXISTS', stream]).then(
      () => false,
      () => true,
    )
    isProbing = false
  }
  const ask = (): void => {
    if (!isProbing) void probe()
    client.send(['ASKING']).catch(() => {})
  }
  return {
    ...client,
    send: async (words) => {
      const now = clock.monotonic()
      if (isImporting && now > lastAt + FRESH_MS)
        throw new Error('the way to a slot that was being moved may be out of date')
      lastAt = now
      if (isImporting) ask()
      return client.send(words)
    },
  }
}

/** More than a blocking read takes. */
const FRESH_MS = 10_000
