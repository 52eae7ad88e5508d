import type { Clock } from '../base/index.ts'
import { asError, HapaxError } from '../base/index.ts'
import type { Lease, StoreInbox } from '../contracts/index.ts'

/** A lease in the hands of this process. Its signal tells the handler when to stop. */
export class HeldLease implements Lease {
  readonly seq: string
  readonly token: string
  readonly fence: number
  readonly #ended: (held: HeldLease) => void
  /** Made when somebody asks for it: most handlers do not. */
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

  /** Who is told first; there is one at a time. */
  onAbort(listener: ((reason: Error) => void) | undefined): void {
    this.#listener = listener
  }

  /** Tells the handler to stop. It is not prolonged any more. */
  abort(reason: Error): void {
    this.end()
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#listener?.(reason)
    this.#controller?.abort(reason)
  }

  /** Another process has it, or has settled it. */
  lose(): HapaxError {
    const lost = new HapaxError('lease-lost', 'the lease of this message has passed to another process', {
      fields: { fence: this.fence },
    })
    this.abort(lost)
    return lost
  }

  /** From now on it is not prolonged. */
  end(): void {
    this.#ended(this)
  }
}

/** Tells work that takes too long to stop. One timer is enough for all of it: it has the same time. */
export class TimeLimit {
  readonly #clock: Clock
  readonly #ms: number
  /** What runs and until when, in the order in which it began. */
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

/** The result of work under a lease, unless it is told to stop; then it is not waited for. */
export function underLease(
  held: HeldLease,
  limit: TimeLimit,
  stop: AbortSignal | undefined,
  work: () => Promise<void>,
): Promise<void> {
  if (stop?.aborted) held.abort(asError(stop.reason))
  // It may have been lost while it waited for its turn: then the handler is not called.
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

/** What prolongs leases. */
interface LeasesOptions {
  readonly store: Pick<StoreInbox, 'renew'>
  readonly clock: Clock
  readonly leaseMs: number
  report(error: Error): void
}

/** Prolongs the leases that this process holds, all of them at once, three times per lease. */
export class Leases {
  readonly #options: LeasesOptions
  readonly #held = new Map<string, HeldLease>()
  #renewing: Promise<void> | undefined
  /** Ends the wait for the next renewal; undefined: there is none, because nothing is held. */
  #cancel: (() => void) | undefined

  constructor(options: LeasesOptions) {
    this.#options = options
  }

  /** Holds on to a lease until it is ended. */
  hold(lease: Lease): HeldLease {
    // This process has lost it meanwhile, and taken it again.
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
    // A process that has nothing in hand must be able to end.
    this.#cancel?.()
    this.#cancel = undefined
  }

  #later(): () => void {
    const { clock, leaseMs } = this.#options
    return clock.after(leaseMs / 3, () => void this.#renew())
  }

  /**
   * Resolves when no renewal is under way. One that met the transaction that settles a message would wait for its end, and all other
   * leases with it.
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
    // Whoever has emptied it meanwhile, or begun anew, has seen to it.
    if (this.#cancel === underWay) this.#cancel = this.#later()
  }

  /** When the database does not answer nothing is known: whoever writes next is told whether the lease is still theirs. */
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
