import { isObservable, lastValueFrom, type Observable } from 'rxjs'
import { HapaxError } from '../base/index.ts'

/**
 * One call of a method below interceptors, whatever they make of it. What the method wrote is in a transaction with what commits its
 * success: if it throws, or is still running in the end, the transaction must not commit, and it is not called again in it.
 */
export class Call {
  #result: Promise<unknown> | undefined
  #settled = false

  /** Whether the method was called. */
  get begun(): boolean {
    return this.#result !== undefined
  }

  /**
   * Calls the method; an Observable that it returns is a part of the call, until it completes. If an interceptor calls it again, it gets
   * what became of the first call.
   */
  once(method: () => unknown): Promise<unknown> {
    this.#result ??= this.#run(method)
    // Interceptors may leave it alone.
    this.#result.catch(() => {})
    return this.#result
  }

  /** Throws what the method threw, and if it is still running. */
  async finished(name: string): Promise<void> {
    if (this.begun && !this.#settled) {
      throw new HapaxError('unawaited-query', `an interceptor did not wait for ${name}, which is still running`)
    }
    await this.#result
  }

  async #run(method: () => unknown): Promise<unknown> {
    try {
      const result = await method()
      return isObservable(result) ? await lastOf(result) : result
    } finally {
      this.#settled = true
    }
  }
}

/** The last value, once it has completed. */
export function lastOf(values: Observable<unknown>): Promise<unknown> {
  return lastValueFrom(values, { defaultValue: undefined })
}

/** A function in place of a method. It inherits from it, so that Nest finds the metadata of the method on it. */
export function standIn<M extends (...args: never[]) => unknown>(method: M, made: M): M {
  Object.defineProperty(made, 'name', { value: method.name })
  return Object.setPrototypeOf(made, method)
}
