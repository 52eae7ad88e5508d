import { type Clock, pause } from './clock.ts'
import { asError, HapaxError } from './errors.ts'
import type { Lease, Store } from './store.ts'

/** A lease in the hands of this process. Its signal tells the handler when to stop. */
export class HeldLease implements Lease {
  readonly seq: string
  readonly token: string
  readonly fence: number
  readonly #controller = new AbortController()
  readonly #end: () => void

  constructor({ seq, token, fence }: Lease, end: (held: HeldLease) => void) {
    this.seq = seq
    this.token = token
    this.fence = fence
    this.#end = () => end(this)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Tells the handler to stop. It is not prolonged any more. */
  abort(reason: Error): void {
    this.end()
    this.#controller.abort(reason)
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
    this.#end()
  }
}

/** How long the work under a lease may go on. */
export interface LeaseLimits {
  readonly clock: Clock
  readonly maxDurationMs: number
  /** Ends it before its time. */
  readonly stop: AbortSignal | undefined
}

/** The result of work under a lease, unless it is told to stop; then it is not waited for. */
export function underLease(held: HeldLease, limits: LeaseLimits, work: () => Promise<void>): Promise<void> {
  const { clock, maxDurationMs, stop: outer } = limits
  return new Promise((resolve, reject) => {
    const late = (): void =>
      held.abort(new HapaxError('handler-timeout', `the handler did not finish within ${maxDurationMs} ms`))
    const cancel = clock.after(maxDurationMs, late)
    const stop = (): void => held.abort(asError(outer?.reason))
    const aborted = (): void => reject(held.signal.reason)
    const done = (): void => {
      cancel()
      outer?.removeEventListener('abort', stop)
      held.signal.removeEventListener('abort', aborted)
    }
    outer?.addEventListener('abort', stop, { once: true })
    held.signal.addEventListener('abort', aborted, { once: true })
    if (outer?.aborted) stop()
    // It may have been lost while it waited for its turn: then the handler is not called.
    if (held.signal.aborted) {
      done()
      return aborted()
    }
    work().finally(done).then(resolve, reject)
  })
}

/** What prolongs leases. */
interface LeasesOptions {
  readonly store: Pick<Store<never>, 'renew'>
  readonly clock: Clock
  readonly leaseMs: number
  report(error: Error): void
}

/** Prolongs the leases that this process holds, all of them at once, three times per lease. */
export class Leases {
  readonly #options: LeasesOptions
  readonly #held = new Set<HeldLease>()
  #renewing = false

  constructor(options: LeasesOptions) {
    this.#options = options
  }

  /** Holds on to a lease until it is ended. */
  hold(lease: Lease): HeldLease {
    // This process has lost it meanwhile, and taken it again.
    for (const each of this.#held) if (each.seq === lease.seq && each.token !== lease.token) each.lose()
    const held = new HeldLease(lease, (each) => this.#held.delete(each))
    this.#held.add(held)
    if (!this.#renewing) {
      this.#renewing = true
      void this.#renew()
    }
    return held
  }

  async #renew(): Promise<void> {
    const { clock, leaseMs } = this.#options
    for (;;) {
      await pause(clock, leaseMs / 3)
      if (this.#held.size === 0) break
      await this.#renewAll([...this.#held])
    }
    this.#renewing = false
  }

  /** When the database does not answer nothing is known: whoever writes next is told whether the lease is still theirs. */
  async #renewAll(leases: readonly HeldLease[]): Promise<void> {
    const { store, leaseMs, report } = this.#options
    try {
      const renewed = await store.renew(leases, leaseMs)
      for (const held of leases) if (!renewed.has(held.seq) && this.#held.has(held)) held.lose()
    } catch (error) {
      report(asError(error))
    }
  }
}
