import { type Link, listOf, type Reply } from '../link.ts'
import { run } from '../scripts.ts'
import { entriesOf } from '../wire.ts'
import { type Delivered, type Group, texts, type Wanted, wordsOf } from './member.ts'

/** Entries for the holder of the turn. */
export interface Found {
  /** Where the next read continues. */
  readonly cursor: string
  readonly delivered: readonly Delivered[]
  readonly gone: readonly string[]
  /** The last delivered entry, if there is none after it. */
  readonly last: string | undefined
}

/** The right to read a group alone: a key in Redis with the name of the reader, which expires unless it is prolonged. */
export class Turn {
  readonly #link: Link
  readonly #group: Group
  readonly #name: string
  readonly #previous: string
  readonly #leaseMs: number

  /** `previous` is the name of the same reader before it lost its link; it may take over that turn at once. */
  constructor(link: Link, group: Group, names: { readonly name: string; readonly previous: string }, leaseMs: number) {
    this.#link = link
    this.#group = group
    this.#name = names.name
    this.#previous = names.previous
    this.#leaseMs = leaseMs
  }

  /**
   * Takes the turn and all unfinished entries. Resolves with those that were removed from the stream, or with undefined if another
   * reader has the turn.
   */
  async begin(): Promise<readonly string[] | undefined> {
    const gone = await this.#run('BEGIN', [this.#previous, `${this.#leaseMs}`])
    return gone === null ? undefined : texts(gone)
  }

  /** Prolongs the turn. False: it was lost, because the holder was presumed dead. */
  async keep(): Promise<boolean> {
    return (await this.#run('KEEP', [`${this.#leaseMs}`])) === 1
  }

  /** Entries after the cursor, in order; undefined if another reader has the turn. */
  async next(cursor: string, wanted: Wanted): Promise<Found | undefined> {
    const reply = await this.#run('NEXT', [cursor, ...wordsOf(wanted)])
    if (reply === null) return undefined
    const [next, entries, counted, gone, last, sizes] = listOf(reply)
    const counts = listOf(counted)
    const after = String(next)
    const delivered = entriesOf(entries, sizes).map((entry, index) => {
      return { entry, deliveryCount: Number(counts[index]), redelivered: cursor !== '>' && after !== '>' }
    })
    return { cursor: after, delivered, gone: texts(gone), last: last == null ? undefined : String(last) }
  }

  async end(): Promise<void> {
    await this.#run('END', [])
  }

  #run(script: Parameters<typeof run>[1], words: readonly string[]): Promise<Reply> {
    const { stream, group } = this.#group
    // As JSON, because a name may contain any separator.
    const key = `hapax-single:${JSON.stringify([stream, group])}`
    return run(this.#link, script, [stream, key], [group, this.#name, ...words])
  }
}
