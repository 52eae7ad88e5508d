import type { Member } from './reading/member.ts'

/** Tells Redis what became of entries: whatever is answered in one turn goes out together. */
export class Answers {
  readonly #member: Member
  readonly #failed: (error: unknown) => void
  readonly #lost: (ids: readonly string[]) => void
  #acked: string[] = []
  #returned: string[] = []
  #turn: ReturnType<typeof setImmediate> | undefined

  /** `lost` hears of entries that were given back and are gone from the stream. */
  constructor(member: Member, on: { failed(error: unknown): void; lost(ids: readonly string[]): void }) {
    this.#member = member
    this.#failed = on.failed
    this.#lost = on.lost
  }

  ack(id: string): void {
    this.#acked.push(id)
    this.#soon()
  }

  giveBack(ids: readonly string[]): void {
    this.#returned.push(...ids)
    this.#soon()
  }

  /** Sends what has not been sent yet. */
  async flush(): Promise<void> {
    clearImmediate(this.#turn)
    this.#turn = undefined
    const acked = chunks(this.#acked)
    const returned = chunks(this.#returned)
    this.#acked = []
    this.#returned = []
    const sent = [
      ...acked.map((ids) => this.#member.ack(ids)),
      ...returned.map(async (ids) => this.#lost(await this.#member.giveBack(ids))),
    ]
    for (const each of await Promise.allSettled(sent)) if (each.status === 'rejected') this.#failed(each.reason)
  }

  #soon(): void {
    this.#turn ??= setImmediate(() => void this.flush())
  }
}

/** Lists of a length that Redis works through in no time. */
export function chunks<T>(all: readonly T[]): readonly (readonly T[])[] {
  const count = Math.ceil(all.length / CHUNK)
  return Array.from({ length: count }, (_, index) => all.slice(index * CHUNK, (index + 1) * CHUNK))
}

const CHUNK = 500
