interface Asking<Ask, Answer> {
  readonly asks: readonly Ask[]
  resolve(answers: readonly Answer[]): void
  reject(error: unknown): void
}

/** Collects what is asked for in one turn of the event loop, and asks for all of it at once. */
export class Together<Ask, Answer> {
  readonly #answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>
  readonly #most: number
  #asking: Asking<Ask, Answer>[] = []

  /** `answer` gives one answer for each, in their order; who would make it more than `most` is asked for next. */
  constructor(answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>, most: number) {
    this.#answer = answer
    this.#most = most
  }

  /** The answers, in the order of what was asked for. */
  ask(asks: readonly Ask[]): Promise<readonly Answer[]> {
    return new Promise((resolve, reject) => {
      this.#asking.push({ asks, resolve, reject })
      if (this.#asking.length === 1) setImmediate(() => this.#flush())
    })
  }

  #flush(): void {
    const asking = this.#asking
    this.#asking = []
    let from = 0
    let count = 0
    for (const [index, { asks }] of asking.entries()) {
      if (count > 0 && count + asks.length > this.#most) {
        void this.#send(asking.slice(from, index))
        from = index
        count = 0
      }
      count += asks.length
    }
    void this.#send(from === 0 ? asking : asking.slice(from))
  }

  async #send(asking: readonly Asking<Ask, Answer>[]): Promise<void> {
    try {
      const [first] = asking
      const all = asking.length === 1 && first !== undefined ? first.asks : asking.flatMap(({ asks }) => asks)
      const answers = await this.#answer(all)
      let at = 0
      for (const { asks, resolve } of asking) {
        resolve(asks.length === answers.length ? answers : answers.slice(at, at + asks.length))
        at += asks.length
      }
    } catch (error) {
      for (const { reject } of asking) reject(error)
    }
  }
}
