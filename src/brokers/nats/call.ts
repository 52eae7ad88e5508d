import type { Confirmation, Settle } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'

/** One call of `publish`. Each of its messages settles once. */
export class Call {
  readonly messages: readonly OutgoingMessage[]
  readonly #settle: Settle
  readonly #over: () => void
  readonly #open: boolean[]
  #left: number
  /** Called when the answers are no longer waited for. */
  onEnd: () => void = () => {}
  /** Ends the time limit. */
  cancel: () => void = () => {}

  /** `over` is called when all of its messages are settled. */
  constructor(messages: readonly OutgoingMessage[], settle: Settle, over: () => void) {
    this.messages = messages
    this.#settle = settle
    this.#over = over
    this.#open = messages.map(() => true)
    this.#left = messages.length
  }

  get isOver(): boolean {
    return this.#left === 0
  }

  settle(index: number, confirmation: Confirmation): void {
    if (this.#open[index] !== true) return
    this.#open[index] = false
    this.#left -= 1
    this.#settle(index, confirmation)
    if (this.#left === 0) this.#over()
  }

  /** Settles all that are open. */
  end(confirmation: Confirmation): void {
    this.onEnd()
    for (const index of this.messages.keys()) this.settle(index, confirmation)
  }
}
