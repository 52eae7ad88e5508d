interface Asking<Ask, Answer> {
  readonly ask: Ask
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/** Collects what is asked for in one turn of the event loop, and asks for all of it at once. */
export class Together<Ask, Answer> {
  readonly #answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>
  readonly #most: number
  #asking: Asking<Ask, Answer>[] = []

  /** `answer` gives one answer for each of at most `most`, in their order. */
  constructor(answer: (asks: readonly Ask[]) => Promise<readonly Answer[]>, most: number) {
    this.#answer = answer
    this.#most = most
  }

  ask(ask: Ask): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#asking.push({ ask, resolve, reject })
      if (this.#asking.length === 1) setImmediate(() => this.#flush())
    })
  }

  #flush(): void {
    const asking = this.#asking
    this.#asking = []
    for (let at = 0; at < asking.length; at += this.#most) void this.#send(asking.slice(at, at + this.#most))
  }

  async #send(asking: readonly Asking<Ask, Answer>[]): Promise<void> {
    try {
      const answers = await this.#answer(asking.map(({ ask }) => ask))
      for (const [index, { resolve }] of asking.entries()) resolve(answers[index] as Answer)
    } catch (error) {
      for (const { reject } of asking) reject(error)
    }
  }
}
