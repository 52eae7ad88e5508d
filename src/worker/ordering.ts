import { asError, type Logger } from '../base/index.ts'
import { type Engine, persist } from '../transaction/index.ts'

/** The parts of a worker that `Ordering` needs. */
interface OrderingOptions<Tx> {
  readonly engine: Pick<Engine<Tx>, 'store' | 'clock' | 'random' | 'detached'> & {
    readonly logger: Pick<Logger, 'info'>
  }
  readonly consumers: readonly { readonly name: string; readonly ordered: boolean }[]
  report(error: Error): void
}

/**
 * Makes messages ordered that were stored without order: before `order` was switched on, or by processes in which it is still off. Otherwise
 * later messages of their keys would overtake them.
 */
export class Ordering<Tx> {
  readonly #options: OrderingOptions<Tx>
  #last: Promise<void> = Promise.resolve()
  #queued = false

  constructor(options: OrderingOptions<Tx>) {
    this.#options = options
  }

  /** Runs before the worker takes any message. */
  async add(): Promise<void> {
    const { engine, consumers } = this.#options
    for (const { name: consumer } of consumers.filter(({ ordered }) => ordered)) {
      const messages = await persist(engine, () => engine.store.inbox.addOrder(consumer))
      if (messages === 0) continue
      engine.logger.info({ consumer, messages }, 'messages that were stored without order are now ordered')
    }
  }

  /** Called when workers join or leave: one without order may have left messages behind. */
  addLater(): void {
    // One that has not begun sees what all of them have left; each may wait for locked rows, and the end of the worker for each.
    if (this.#queued) return
    this.#queued = true
    const { engine, report } = this.#options
    const add = (): Promise<void> => {
      this.#queued = false
      return engine.detached(() => this.add())
    }
    this.#last = this.#last.then(add).catch((error: unknown) => report(asError(error)))
  }

  /** Resolves when no run is in progress. */
  ended(): Promise<void> {
    return this.#last
  }
}
