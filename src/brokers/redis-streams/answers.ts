import type { Member } from './reading/member.ts'

/** Acks and returns entries. Answers of one turn of the event loop go out together, as few commands. */
export class Answers {
  readonly #member: Member
  readonly #failed: (error: unknown) => void
  readonly #lost: (ids: readonly string[]) => void
  #acked: string[] = []
  #returned: string[] = []
  #turn: ReturnType<typeof setImmediate> | undefined

  /** `lost` is called with entries that were given back but had been removed from the stream. */
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

  /** Sends what has not been sent yet. Never rejects: errors go to `failed`. */
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

/** Splits a list, because Redis does nothing else while it runs one command. */
export function chunks<T>(all: readonly T[]): readonly (readonly T[])[] {
  const count = Math.ceil(all.length / CHUNK)
  return Array.from({ length: count }, (_, index) => all.slice(index * CHUNK, (index + 1) * CHUNK))
}

const CHUNK = 500
