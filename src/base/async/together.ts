interface Asking<Ask, Answer> {
  readonly ask: Ask
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/**
 * Collects what is asked for in one turn of the event loop, and asks for all of it at once. Not in pieces, although the answering
 * side could begin with them: one that writes to a disk before it answers would do that for each piece.
 */
export class Together<Ask, Answer> {
  readonly #answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>
  #asking: Asking<Ask, Answer>[] = []

  /** `answer` gives one answer for each, in their order. */
  constructor(answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>) {
    this.#answer = answer
  }

  ask(ask: Ask): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#asking.length === 0) setImmediate(() => void this.#send())
      this.#asking.push({ ask, resolve, reject })
    })
  }

  async #send(): Promise<void> {
    const asking = this.#asking
    this.#asking = []
    try {
      const answers = await this.#answer(asking.map(({ ask }) => ask))
      for (let index = 0; index < asking.length; index++) asking[index]?.resolve(answers[index] as Answer)
    } catch (error) {
      for (const { reject } of asking) reject(error)
    }
  }
}
