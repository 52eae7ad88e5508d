import type { Io } from './io.ts'
import { cut } from './text.ts'

const EVERY_MS = 100

/** One line on a terminal that is rewritten while something goes on; elsewhere nothing. It is not data: it goes to stderr. */
export class Progress {
  readonly #io: Io
  readonly #on: boolean
  #shownAt = Number.NEGATIVE_INFINITY
  #shown = false

  constructor(io: Io, on: boolean) {
    this.#io = io
    this.#on = on && io.err.isTTY === true
  }

  show(text: string): void {
    if (!this.#on || performance.now() - this.#shownAt < EVERY_MS) return
    this.#shownAt = performance.now()
    this.#shown = true
    this.#io.err.write(`\r\x1b[2K${cut(text, (this.#io.err.columns ?? 80) - 1)}`)
  }

  /** Takes the line away, before something else is written. */
  clear(): void {
    if (this.#shown) this.#io.err.write('\r\x1b[2K')
    this.#shown = false
    this.#shownAt = Number.NEGATIVE_INFINITY
  }
}
