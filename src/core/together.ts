interface Asking<Ask, Answer> {
  readonly asks: readonly Ask[]
  resolve(answers: readonly Answer[]): void
  reject(error: unknown): void
}

/**
 * Collects what is asked for in one turn of the event loop, and asks for all of it at once; as soon as there is enough, so that the
 * answering side has work while this one goes on.
 */
export class Together<Ask, Answer> {
  readonly #answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>
  readonly #enough: number
  #asking: Asking<Ask, Answer>[] = []
  #count = 0
  #due = false

  /** `answer` gives one answer for each, in their order. */
  constructor(answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>, enough: number) {
    this.#answer = answer
    this.#enough = enough
  }

  /** The answers, in the order of what was asked for. */
  ask(asks: readonly Ask[]): Promise<readonly Answer[]> {
    return new Promise((resolve, reject) => {
      this.#asking.push({ asks, resolve, reject })
      this.#count += asks.length
      if (this.#count >= this.#enough) this.#flush()
      else if (!this.#due) {
        this.#due = true
        setImmediate(this.#onTurn)
      }
    })
  }

  readonly #onTurn = (): void => {
    this.#due = false
    if (this.#count > 0) this.#flush()
  }

  #flush(): void {
    const asking = this.#asking
    this.#asking = []
    this.#count = 0
    void this.#send(asking)
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
