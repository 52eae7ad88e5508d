import type { Clock } from './clock.ts'
import { type Detached, detached } from './detached.ts'

/** How a batcher collects, and what it does with a batch. */
interface BatcherOptions<Item> {
  /** Processes one batch. If it rejects, items that were put meanwhile are dropped. */
  run(items: readonly Item[]): Promise<unknown>
  /** The most items of one batch. @default no limit */
  readonly most?: number
  /**
   * What a batch waits for: the rest of the current `moment` (a microtask), the current `turn` of the event loop, or company, for a
   * limited time. @default 'moment'
   */
  readonly gather?: 'moment' | 'turn' | Company
  /** Whether a batch may begin while another one is under way. @default false */
  readonly overlap?: boolean
  /** A batch is not part of the work that put its first item. @default outside any asynchronous context */
  readonly detached?: Detached
  /** Called with items that no batch will take, because the batch before them failed. */
  dropped?(items: readonly Item[]): void
}

/** How long a batch waits for company, and when it has enough. */
interface Company {
  readonly clock: Clock
  readonly ms: number
  enough(waiting: number): boolean
}

/** Collects single items into batches. One batch at a time, unless they may overlap: so a busy caller does not use up the pool. */
export class Batcher<Item> {
  readonly #options: BatcherOptions<Item>
  readonly #waiting: Item[] = []
  #underWay = 0
  #collecting = false
  #enough: (() => void) | undefined

  constructor(options: BatcherOptions<Item>) {
    this.#options = options
  }

  /** The items that wait or are under way. */
  get size(): number {
    return this.#waiting.length + this.#underWay
  }

  /** Adds an item. Returns the work that begins with it, if none was going on. */
  put(item: Item): Promise<void> | undefined {
    this.#waiting.push(item)
    const { overlap, detached: detach = detached } = this.#options
    if (!this.#collecting) return detach(overlap ? this.#once : this.#all)
    if (this.#isEnough()) this.#enough?.()
    return undefined
  }

  readonly #once = async (): Promise<void> => {
    this.#collecting = true
    await this.#gathered()
    this.#collecting = false
    await this.#run(this.#waiting.splice(0))
  }

  readonly #all = async (): Promise<void> => {
    const { most = Number.POSITIVE_INFINITY } = this.#options
    this.#collecting = true
    try {
      while (this.#waiting.length > 0) {
        await this.#gathered()
        await this.#run(this.#waiting.splice(0, most))
      }
    } finally {
      this.#collecting = false
      this.#options.dropped?.(this.#waiting.splice(0))
    }
  }

  async #run(items: readonly Item[]): Promise<void> {
    this.#underWay += items.length
    try {
      await this.#options.run(items)
    } finally {
      this.#underWay -= items.length
    }
  }

  async #gathered(): Promise<void> {
    const { gather = 'moment' } = this.#options
    if (gather === 'turn') return new Promise((resolve) => setImmediate(resolve))
    await null
    if (gather === 'moment' || this.#isEnough()) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = gather.clock.after(gather.ms, resolve)
    this.#enough = resolve
    await promise
    cancel()
  }

  #isEnough(): boolean {
    const { gather } = this.#options
    return typeof gather === 'object' && gather.enough(this.#waiting.length)
  }
}

/** Turns a function of many questions into a function of one, by collecting the questions that are asked at the same time. */
export function collected<Question, Reply>(
  options: Pick<BatcherOptions<never>, 'most' | 'gather' | 'overlap' | 'detached'>,
  ask: (questions: readonly Question[]) => Promise<readonly Reply[]>,
): (question: Question) => Promise<Reply> {
  interface Pending {
    readonly question: Question
    resolve(reply: Reply): void
    reject(error: unknown): void
  }
  const run = async (pending: readonly Pending[]): Promise<void> => {
    try {
      const replies = await ask(pending.map(({ question }) => question))
      if (replies.length !== pending.length) {
        throw new Error(`expected ${pending.length} replies, got ${replies.length}`)
      }
      for (const [index, reply] of replies.entries()) pending[index]?.resolve(reply)
    } catch (error) {
      for (const { reject } of pending) reject(error)
    }
  }
  const batcher = new Batcher<Pending>({ ...options, run })
  return (question) =>
    new Promise((resolve, reject) => {
      void batcher.put({ question, resolve, reject })
    })
}
