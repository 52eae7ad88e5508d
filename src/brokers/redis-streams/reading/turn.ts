import { type Link, listOf, type Reply } from '../link.ts'
import { run } from '../scripts.ts'
import { entriesOf } from '../wire.ts'
import { type Delivered, type Group, texts, type Wanted, wordsOf } from './member.ts'

/** What the holder of the turn got. */
export interface Found {
  /** Where to go on. */
  readonly cursor: string
  readonly delivered: readonly Delivered[]
  readonly gone: readonly string[]
  /** The last entry that was ever given out, if there is none behind it. */
  readonly last: string | undefined
}

/** The turn to read a group alone: a key in Redis that holds the name of the reader, and expires unless it is kept. */
export class Turn {
  readonly #link: Link
  readonly #group: Group
  readonly #name: string
  readonly #previous: string
  readonly #leaseMs: number

  /** `previous` is the name that the same reader had before it lost its link: it may take the turn over. */
  constructor(link: Link, group: Group, names: { readonly name: string; readonly previous: string }, leaseMs: number) {
    this.#link = link
    this.#group = group
    this.#name = names.name
    this.#previous = names.previous
    this.#leaseMs = leaseMs
  }

  /**
   * Takes the turn and everything that is not finished, whoever had it. Answers which of that is gone from the stream;
   * undefined: somebody else has the turn.
   */
  async begin(): Promise<readonly string[] | undefined> {
    const gone = await this.#run('BEGIN', [this.#previous, `${this.#leaseMs}`])
    return gone === null ? undefined : texts(gone)
  }

  /** Says that the holder is alive; false: it was taken for dead. */
  async keep(): Promise<boolean> {
    return (await this.#run('KEEP', [`${this.#leaseMs}`])) === 1
  }

  /** Entries behind the cursor, in order; undefined: somebody else has the turn. */
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
