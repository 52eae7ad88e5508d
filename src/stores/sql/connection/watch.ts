import { systemClock, transactionClosed, within } from '../../../base/index.ts'
import type { DoomOf } from '../../../contracts/index.ts'
import { doomed, leftOpen, unawaited } from './driver.ts'

/** How long statements that were not awaited may delay the reuse of a connection; then it is destroyed. */
const SETTLE_MS = 1_000

/** Watches one transaction: counts the statements that run, remembers what doomed it, and is closed when it settles. */
export class TransactionWatch {
  readonly #doomOf: DoomOf
  readonly #isBusy: () => boolean
  #closed = false
  #running = 0
  readonly #waiting: (() => void)[] = []
  #doom: { kind: 'conflict' | 'lost'; error: unknown } | undefined

  /** `isBusy`: whether the client has something under way that is not tracked here, such as a cursor. */
  constructor(doomOf: DoomOf, isBusy: () => boolean) {
    this.#doomOf = doomOf
    this.#isBusy = isBusy
  }

  get closed(): boolean {
    return this.#closed
  }

  close(): void {
    this.#closed = true
  }

  /** The link is gone: whatever the handler does with the error, this transaction cannot commit. */
  lose(error: unknown): void {
    this.#doom ??= { kind: 'lost', error }
  }

  assertOpen(): void {
    if (this.#closed) throw transactionClosed()
  }

  /** Whether it can no longer commit. */
  get doomed(): boolean {
    return this.#doom !== undefined
  }

  assertNotDoomed(): void {
    if (this.#doom !== undefined) throw doomed(this.#doom.kind, this.#doom.error)
  }

  /** Throws what keeps this transaction from committing, if anything does. */
  assertSound(): void {
    this.assertNotDoomed()
    this.assertAwaited()
  }

  /** Throws if something is under way. */
  assertAwaited(): void {
    if (this.#running > 0) throw unawaited(this.#running)
    if (this.#isBusy()) throw leftOpen()
  }

  /** Whether the client takes a statement at once, or after a moment. */
  async settled(): Promise<boolean> {
    const idle = this.idle()
    if (idle !== undefined) await within(systemClock, SETTLE_MS, idle, () => {})
    return this.#running === 0 && !this.#isBusy()
  }

  /** Runs the body of the transaction; afterwards its handle is dead, and what doomed it comes before what it threw. */
  async during<T>(body: () => Promise<T>): Promise<T> {
    try {
      const end = await body()
      this.assertSound()
      return end
    } catch (error) {
      this.assertNotDoomed()
      throw error
    } finally {
      this.close()
    }
  }

  /** `sender`: counts what runs of one of several handlers. */
  track<T>(result: Promise<T>, sender?: { running: number }): Promise<T> {
    this.#running += 1
    if (sender !== undefined) sender.running += 1
    // Both outcomes are handled here: a rejected query that is not awaited must not end the process.
    result.then(
      () => this.#settled(sender),
      (error: unknown) => {
        const kind = this.#doomOf(error)
        if (kind !== undefined) this.#doom ??= { kind, error }
        this.#settled(sender)
      },
    )
    return result
  }

  /** Resolves when none of the handler's statements runs any more: a client takes one at a time. */
  idle(): Promise<void> | undefined {
    if (this.#running === 0) return undefined
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
    })
  }

  #settled(sender: { running: number } | undefined): void {
    this.#running -= 1
    if (sender !== undefined) sender.running -= 1
    if (this.#running === 0) for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** The client as handlers may have it: `usable` is asked before every use, and what it starts is tracked. */
  guard<Client extends object>(client: Client, usable: () => void, nested: readonly PropertyKey[] = []): Client {
    return new Proxy(client, {
      get: (target, name) => {
        usable()
        const value: unknown = Reflect.get(target, name, target)
        if (nested.includes(name) && typeof value === 'object' && value !== null) return this.guard(value, usable)
        if (typeof value !== 'function') return value
        return (...args: unknown[]) => {
          usable()
          const result: unknown = value.apply(target, args)
          return result instanceof Promise ? this.track(result) : result
        }
      },
    })
  }
}
