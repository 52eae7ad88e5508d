import { type Link, listOf, type Reply } from '../link.ts'
import { run } from '../scripts.ts'
import { type Entry, entriesOf } from '../wire.ts'

/** A group of a stream. */
export interface Group {
  readonly stream: string
  readonly group: string
}

/** A delivered entry, and what is known of earlier deliveries. */
export interface Delivered {
  readonly entry: Entry
  readonly deliveryCount: number
  readonly redelivered: boolean
}

/** The prefix of consumer names of hapax. */
export const PREFIX = 'hapax-'
/** The consumer that holds returned entries, which any reader may claim at once. */
const RETURNED = `${PREFIX}returned`
/** An idle time beyond any `claimAfterMs`: a year. */
const LONG_IDLE = '31536000000'

/** A reader as Redis sees it: a consumer of a group, with its pending entries. */
export class Member {
  readonly name: string
  readonly #link: Link
  readonly #group: Group

  constructor(link: Link, group: Group, name: string) {
    this.#link = link
    this.#group = group
    this.name = name
  }

  async ack(ids: readonly string[]): Promise<void> {
    const { stream, group } = this.#group
    await this.#link.call(['XACK', stream, group, ...ids])
  }

  /** Resets the idle time of these entries. Resolves with those that another reader has now, and those removed from the stream. */
  async keep(ids: readonly string[]): Promise<{ readonly taken: readonly string[]; readonly gone: readonly string[] }> {
    const [taken, gone] = listOf(await this.#run('HAND_OVER', [this.name, this.name, '0', ...ids]))
    return { taken: texts(taken), gone: texts(gone) }
  }

  /** Lets other readers claim these at once. Resolves with those that were removed from the stream. */
  async giveBack(ids: readonly string[]): Promise<readonly string[]> {
    const [, gone] = listOf(await this.#run('HAND_OVER', [this.name, RETURNED, LONG_IDLE, ...ids]))
    return texts(gone)
  }

  /** Takes over entries that have been idle for this long. `next` is where the search continues. */
  async claim(idleMs: number, cursor: string, wanted: Wanted): Promise<Claimed> {
    const words = [this.name, `${idleMs}`, cursor, ...wordsOf(wanted)]
    const [next, found, counted, gone, sizes] = listOf(await this.#run('CLAIM', words))
    const counts = listOf(counted)
    const delivered = entriesOf(found, sizes).map((entry, index) => {
      return { entry, deliveryCount: Number(counts[index]), redelivered: true }
    })
    return { next: String(next), delivered, gone: texts(gone) }
  }

  /** Returns all entries and leaves the group. Resolves with those that were removed from the stream. */
  async leave(): Promise<readonly string[]> {
    return texts(await this.#run('LEAVE', [this.name, RETURNED, LONG_IDLE]))
  }

  /** Deletes dead readers without pending entries. Resolves with the id up to which the group is finished. */
  async tidy(idleMs: number): Promise<string> {
    return String(await this.#run('TIDY', [PREFIX, `${idleMs}`]))
  }

  #run(script: Parameters<typeof run>[1], words: readonly string[]): Promise<Reply> {
    const { stream, group } = this.#group
    return run(this.#link, script, [stream], [group, ...words])
  }
}

/** How much may come at once. */
export interface Wanted {
  readonly count: number
  readonly bytes: number
  /** Of a larger entry, only the beginning is read. */
  readonly maxBytes: number
}

/** The same as arguments of a script. */
export function wordsOf({ count, bytes, maxBytes }: Wanted): readonly string[] {
  return [count, bytes, maxBytes].map((each) => `${Math.min(each, Number.MAX_SAFE_INTEGER)}`)
}

/** What a reader took over from others. */
export interface Claimed {
  readonly next: string
  readonly delivered: readonly Delivered[]
  readonly gone: readonly string[]
}

/** A list reply as strings. */
export function texts(reply: Reply | undefined): readonly string[] {
  return listOf(reply).map(String)
}
