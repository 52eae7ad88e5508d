import { tagOf } from '../cluster.ts'
import { refusal } from '../errors.ts'
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
  readonly #leaseMs: number
  readonly #key: string
  #names: readonly string[]

  /** `previous` are names under which the same reader may have had the turn before it lost its link: it takes over from them at once. */
  constructor(
    link: Link,
    group: Group,
    names: { readonly name: string; readonly previous: readonly string[] },
    leaseMs: number,
  ) {
    this.#link = link
    this.#group = group
    this.#name = names.name
    this.#names = names.previous
    this.#leaseMs = leaseMs
    const { stream, group: reading } = group
    // In the slot of the stream, where it is in a cluster. As JSON, because a name may contain any separator.
    this.#key = `hapax-single:{${tagOf(stream)}}${JSON.stringify([stream, reading])}`
  }

  /**
   * Takes the turn and all unfinished entries. Resolves with those that were removed from the stream, or with undefined if another
   * reader has the turn.
   */
  async begin(): Promise<readonly string[] | undefined> {
    const gone = await this.#run('BEGIN', [`${this.#leaseMs}`, ...this.#names]).catch((error: unknown) => {
      // Without a reply it may have been done.
      if (refusal(error) === undefined) this.#names = [...this.#names, this.#name].slice(-MOST_NAMES)
      throw error
    })
    this.#names = gone === null ? [] : [this.#name]
    return gone === null ? undefined : texts(gone)
  }

  /** The names under which this reader may have the turn. */
  get names(): readonly string[] {
    return this.#names
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
    return run(this.#link, script, [stream, this.#key], [group, this.#name, ...words])
  }
}

/** So many replies in a row are hardly lost. */
const MOST_NAMES = 10
