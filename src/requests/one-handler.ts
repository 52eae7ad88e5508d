// What scopes of leased handlers have in common, whatever the store: another process may go on with a request, so that it has to know the
// handler, and the request has to fit into a message.

import { HapaxError } from '../base/index.ts'
import type { HttpHandler } from '../contracts/index.ts'
import type { Keyed } from './accept.ts'
import type { Answer } from './core.ts'
import { handlerOption } from './options.ts'
import { methodNotAllowed, problem } from './problems.ts'

/** The one handler of a scope. */
export class OneHandler<Context> {
  readonly #scope: string
  #handle: HttpHandler<Context> | undefined

  constructor(scope: string) {
    this.#scope = scope
  }

  /** Undefined: none was registered in this process. */
  get current(): HttpHandler<Context> | undefined {
    return this.#handle
  }

  register(handle: HttpHandler<Context>): void {
    handlerOption(handle)
    if (this.#handle !== undefined) {
      const what = `expected one handler of ${this.#scope}, got a second one: with mode leased, each handler needs a scope of its own`
      throw new HapaxError('duplicate-handler', what)
    }
    this.#handle = handle
  }
}

/** What `handle` of such a scope does. */
export function refuseHandle(): Promise<never> {
  const what = 'handle() cannot be used with mode leased, where another process may go on with a request: use handler()'
  return Promise.reject(new HapaxError('invalid-option', what))
}

/** What a request without a key gets. */
export function keyless(): Promise<Answer> {
  return Promise.resolve({ outcome: 'rejected', response: methodNotAllowed() })
}

/** What a request gets that is too large to be kept as a message. Undefined: it is not. */
export function tooLarge({ message }: Keyed, maxBytes: number): Answer | undefined {
  if (message.data.byteLength + Buffer.byteLength(message.attributes) <= maxBytes) return undefined
  return { outcome: 'rejected', response: problem('too-large', `The request may have ${maxBytes} bytes at most.`) }
}
