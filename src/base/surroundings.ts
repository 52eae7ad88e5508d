// Which handler the running code belongs to, for pools: a connection taken there is not the one of the handler's transaction.

import { AsyncLocalStorage } from 'node:async_hooks'

/** What code is inside of, as far as pools are concerned. */
export interface Surroundings {
  /** The code takes a connection from this pool. Returns the error with which it is refused; undefined: it gets one. */
  takes(pool: object): Error | undefined
  /** The same surroundings for hapax, which may take connections. */
  unwatched(): Surroundings
}

export const surroundings: AsyncLocalStorage<Surroundings> = new AsyncLocalStorage()

/** Calls what takes a connection for hapax itself, wherever that is caused from. */
export function unwatched<Args extends unknown[], T>(call: (...args: Args) => T, ...args: Args): T {
  const around = surroundings.getStore()
  return around === undefined ? call(...args) : surroundings.run(around.unwatched(), call, ...args)
}

/** A pool, and the method by which everybody takes connections from it: one that takes a callback, or returns a promise. */
export interface Taking {
  readonly pool: object
  readonly method: string
}

const watched = new WeakSet<object>()

/**
 * Watches who takes connections from a pool. Not by its event `acquire`: that comes in the context in which another caller released a connection, and
 * `mysql2` has none for a caller who had to wait.
 */
export function watchPool({ pool, method }: Taking): void {
  if (watched.has(pool)) return
  watched.add(pool)
  const take: unknown = Reflect.get(pool, method)
  if (typeof take !== 'function') return
  Reflect.set(pool, method, function (this: unknown, ...args: unknown[]): unknown {
    const refusal = surroundings.getStore()?.takes(pool)
    return refusal === undefined ? take.apply(this, args) : refused(refusal, args.at(-1))
  })
}

function refused(refusal: Error, callback: unknown): Promise<never> | undefined {
  if (typeof callback !== 'function') return Promise.reject(refusal)
  queueMicrotask(() => callback(refusal, undefined, () => {}))
  return undefined
}
