interface Asking<Ask, Answer> {
  readonly ask: Ask
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/**
 * Collects what is asked for in one turn of the event loop, and asks for all of it at once; earlier if there is enough and nothing
 * under way, so that the answering side has work while this one goes on.
 */
export class Together<Ask, Answer> {
  readonly #answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>
  readonly #enough: number
  #asking: Asking<Ask, Answer>[] = []
  #underWay = 0
  #due = false

  /** `answer` gives one answer for each, in their order. */
  constructor(answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>, enough: number) {
    this.#answer = answer
    this.#enough = enough
  }

  ask(ask: Ask): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#asking.push({ ask, resolve, reject })
      if (this.#underWay === 0 && this.#asking.length >= this.#enough) void this.#send()
      else if (!this.#due) {
        this.#due = true
        setImmediate(this.#onTurn)
      }
    })
  }

  readonly #onTurn = (): void => {
    this.#due = false
    if (this.#asking.length > 0) void this.#send()
  }

  async #send(): Promise<void> {
    const asking = this.#asking
    this.#asking = []
    this.#underWay += 1
    try {
      const answers = await this.#answer(asking.map(({ ask }) => ask))
      for (let index = 0; index < asking.length; index++) asking[index]?.resolve(answers[index] as Answer)
    } catch (error) {
      for (const { reject } of asking) reject(error)
    } finally {
      this.#underWay -= 1
    }
  }
}
