import type { Clock } from '../base/index.ts'
import { asError, HapaxError } from '../base/index.ts'
import type { Lease, StoreInbox } from '../contracts/index.ts'

/** A lease that this process holds. Its signal tells the handler to stop when the lease is lost or time is up. */
export class HeldLease implements Lease {
  readonly seq: string
  readonly token: string
  readonly fence: number
  readonly #ended: (held: HeldLease) => void
  /** Made on first use: most handlers never ask for the signal. */
  #controller: AbortController | undefined
  #reason: Error | undefined
  #listener: ((reason: Error) => void) | undefined

  constructor({ seq, token, fence }: Lease, ended: (held: HeldLease) => void) {
    this.seq = seq
    this.token = token
    this.fence = fence
    this.#ended = ended
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    return this.#controller.signal
  }

  /** Why the handler was told to stop, if it was. */
  get reason(): Error | undefined {
    return this.#reason
  }

  throwIfAborted(): void {
    if (this.#reason !== undefined) throw this.#reason
  }

  /** Sets the one listener that is called before the signal is aborted. */
  onAbort(listener: ((reason: Error) => void) | undefined): void {
    this.#listener = listener
  }

  /** Tells the handler to stop. The lease is not renewed any more. Only the first reason counts. */
  abort(reason: Error): void {
    this.end()
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#listener?.(reason)
    this.#controller?.abort(reason)
  }

  /** Another process has the message, or has settled it. Returns the reason that the handler is told. */
  lose(): HapaxError {
    const lost = new HapaxError('lease-lost', 'the lease of this message has passed to another process', {
      fields: { fence: this.fence },
    })
    this.abort(lost)
    return lost
  }

  /** The lease is not renewed any more. */
  end(): void {
    this.#ended(this)
  }
}

/** Tells handlers that take too long to stop. All have the same limit, so that one timer, for the oldest, is enough. */
export class TimeLimit {
  readonly #clock: Clock
  readonly #ms: number
  /** What runs and until when. In the order of beginning, which is also the order of deadlines. */
  readonly #running = new Map<HeldLease, number>()
  #cancel: () => void = () => {}

  constructor(clock: Clock, ms: number) {
    this.#clock = clock
    this.#ms = ms
  }

  begin(held: HeldLease): void {
    this.#running.set(held, this.#clock.monotonic() + this.#ms)
    if (this.#running.size === 1) this.#cancel = this.#clock.after(this.#ms, this.#look)
  }

  end(held: HeldLease): void {
    if (this.#running.delete(held) && this.#running.size === 0) this.#cancel()
  }

  readonly #look = (): void => {
    const now = this.#clock.monotonic()
    for (const [held, until] of this.#running) {
      if (until > now) {
        this.#cancel = this.#clock.after(until - now, this.#look)
        return
      }
      this.#running.delete(held)
      held.abort(new HapaxError('handler-timeout', `the handler did not finish within ${this.#ms} ms`))
    }
  }
}

/**
 * Runs work under a lease. Rejects with the reason as soon as the work is told to stop, without waiting for it: a handler that ignores
 * its signal must not hold up the worker.
 */
export function underLease(
  held: HeldLease,
  limit: TimeLimit,
  stop: AbortSignal | undefined,
  work: () => Promise<unknown>,
): Promise<void> {
  if (stop?.aborted) held.abort(asError(stop.reason))
  // The lease may have been lost while the message waited for its turn: then the handler is not called.
  if (held.reason !== undefined) return Promise.reject(held.reason)
  return new Promise((resolve, reject) => {
    const stopped = stop && (() => held.abort(asError(stop.reason)))
    if (stopped !== undefined) stop?.addEventListener('abort', stopped, { once: true })
    const done = (): void => {
      limit.end(held)
      held.onAbort(undefined)
      if (stopped !== undefined) stop?.removeEventListener('abort', stopped)
    }
    const failed = (error: unknown): void => {
      done()
      reject(error)
    }
    limit.begin(held)
    held.onAbort(failed)
    work().then(() => {
      done()
      resolve()
    }, failed)
  })
}

/** What renewing leases needs. */
interface LeasesOptions {
  readonly store: Pick<StoreInbox, 'renew'>
  readonly clock: Clock
  readonly leaseMs: number
  report(error: Error): void
}

/** Renews the leases that this process holds, all in one statement, every third of a lease: two renewals may fail. */
export class Leases {
  readonly #options: LeasesOptions
  readonly #held = new Map<string, HeldLease>()
  #renewing: Promise<void> | undefined
  /** Cancels the next renewal. Undefined: none is planned, because nothing is held. */
  #cancel: (() => void) | undefined

  constructor(options: LeasesOptions) {
    this.#options = options
  }

  /** Renews this lease until it is ended. */
  hold(lease: Lease): HeldLease {
    // This process lost the lease and has taken the message again: the handler of the old lease has to stop.
    const before = this.#held.get(lease.seq)
    if (before !== undefined && before.token !== lease.token) before.lose()
    const held = new HeldLease(lease, this.#ended)
    this.#held.set(lease.seq, held)
    this.#cancel ??= this.#later()
    return held
  }

  readonly #ended = (held: HeldLease): void => {
    if (this.#held.get(held.seq) === held) this.#held.delete(held.seq)
    if (this.#held.size > 0) return
    // A pending timer would keep a process alive that has nothing to do.
    this.#cancel?.()
    this.#cancel = undefined
  }

  #later(): () => void {
    const { clock, leaseMs } = this.#options
    return clock.after(leaseMs / 3, () => void this.#renew())
  }

  /**
   * Resolves when no renewal is under way. A renewal that met the settling transaction of one message would wait for its row lock, and
   * the renewal of all other leases with it.
   */
  async notRenewing(): Promise<void> {
    await this.#renewing
  }

  async #renew(): Promise<void> {
    const underWay = (): void => {}
    this.#cancel = underWay
    const renewing = this.#renewAll([...this.#held.values()])
    this.#renewing = renewing
    await renewing
    if (this.#renewing === renewing) this.#renewing = undefined
    // If the last lease ended meanwhile, or a new one began, the timer has been cancelled or set already.
    if (this.#cancel === underWay) this.#cancel = this.#later()
  }

  /** A renewal that fails leaves it open whether the leases are lost. Each write checks its own lease, so that nothing is assumed here. */
  async #renewAll(leases: readonly HeldLease[]): Promise<void> {
    const { store, leaseMs, report } = this.#options
    try {
      const renewed = await store.renew(leases, leaseMs)
      for (const held of leases) if (!renewed.has(held.seq) && this.#held.get(held.seq) === held) held.lose()
    } catch (error) {
      report(asError(error))
    }
  }
}
