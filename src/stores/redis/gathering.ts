import type { Replies, Script } from './commands.ts'

/** What a script does to one key. `head` is often the same for neighbours. */
export interface Item {
  readonly key: string
  readonly head: string
  readonly word: string | undefined
}

/** Runs a script on many keys, each of them once. */
type Run = (what: Script, words: readonly string[], items: readonly Item[]) => Promise<Replies>

/** A caller, which reads the results for its items, in their order. */
interface Caller {
  readonly items: readonly Item[]
  read(replies: Replies): void
  resolve(): void
  reject(error: unknown): void
}

/** What is asked of one script, with the same words. */
interface Gathered {
  readonly what: Script
  readonly words: readonly string[]
  readonly callers: Caller[]
  readonly keys: Set<string>
}

/**
 * Collects what several callers ask of a script until the code that runs now has come to its end, and asks for it in one call:
 * to both sides a call costs many times what a key in it costs.
 */
export class Gathering {
  readonly #run: Run
  readonly #most: number
  readonly #open = new Map<string, Gathered>()

  constructor(run: Run, most: number) {
    this.#run = run
    this.#most = most
  }

  ask(what: Script, words: readonly string[], items: readonly Item[], read: (replies: Replies) => void): Promise<void> {
    const { callers, keys } = this.#room(what, words, items)
    for (const { key } of items) keys.add(key)
    return new Promise((resolve, reject) => callers.push({ items, read, resolve, reject }))
  }

  /** Where these have room, and none of their keys is asked for already. */
  #room(what: Script, words: readonly string[], items: readonly Item[]): Gathered {
    const id = JSON.stringify([what.sha, ...words])
    const open = this.#open.get(id)
    const fits = open && open.keys.size + items.length <= this.#most && !items.some(({ key }) => open.keys.has(key))
    if (fits) return open
    const gathered: Gathered = { what, words, callers: [], keys: new Set() }
    this.#open.set(id, gathered)
    process.nextTick(() => {
      if (this.#open.get(id) === gathered) this.#open.delete(id)
      void this.#send(gathered)
    })
    return gathered
  }

  async #send({ what, words, callers }: Gathered): Promise<void> {
    try {
      const replies = await this.#run(
        what,
        words,
        callers.flatMap(({ items }) => items),
      )
      for (const caller of callers) {
        caller.read(replies)
        caller.resolve()
      }
    } catch (error) {
      // It has no effect on callers whose promise is resolved already.
      for (const { reject } of callers) reject(error)
    }
  }
}
