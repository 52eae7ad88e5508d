import type { Io } from './io.ts'
import { cut } from './text.ts'

/** Faster than this, rewriting the line costs time and is unreadable. */
const EVERY_MS = 100

/** One line on a terminal, rewritten while work goes on; nothing elsewhere. It goes to stderr, because stdout is for data. */
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

  /** Erases the line, before other output. */
  clear(): void {
    if (this.#shown) this.#io.err.write('\r\x1b[2K')
    this.#shown = false
    this.#shownAt = Number.NEGATIVE_INFINITY
  }
}
