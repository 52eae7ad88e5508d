import { AsyncLocalStorage } from 'node:async_hooks'
import type { ExternalContextCreator } from '@nestjs/core'
import { asError, fieldOf, HapaxError, messageOf, Permanent } from '../base/index.ts'
import type { HapaxEnhancers } from './options.ts'

/** What `context.getType()` returns in guards and interceptors around methods that take messages. */
export const HAPAX_CONTEXT = 'hapax'

/** One call of a method through Nest. */
interface Call {
  readonly ctx: unknown
  /** What the method returned; undefined: it was not called. */
  result: Promise<unknown> | undefined
  settled: boolean
}

/** Pipes take the first argument only, and Nest passes on only what pipes took: the context travels beside it. */
const calls = new AsyncLocalStorage<Call>()

/** Which arguments pipes take: the data, and never the context. */
const PARAMS = 'hapax:params'
const DATA_ONLY = { '0:0': { index: 0, data: undefined, pipes: [] } }

/** A method of a provider that takes messages. */
export interface Method {
  readonly instance: object
  readonly name: string
  readonly method: (...args: unknown[]) => unknown
}

/**
 * A method with Nest's guards, interceptors and pipes around it. Exception filters do not apply: they make responses, and a message has
 * none. If the method throws, or is still running in the end, the attempt has failed, whatever an interceptor makes of it: what was
 * written before must not commit.
 */
export function throughNest(
  external: ExternalContextCreator,
  { instance, name, method }: Method,
  enhancers: Required<HapaxEnhancers>,
): (data: unknown, ctx: unknown) => Promise<void> {
  Reflect.defineMetadata(PARAMS, DATA_ONLY, instance.constructor, name)
  const pipeline = external.create(
    instance,
    entryOf(method),
    name,
    PARAMS,
    { exchangeKeyForValue: (index: number, _: unknown, args: readonly unknown[]) => args[index] },
    undefined,
    undefined,
    { ...enhancers, filters: false },
    HAPAX_CONTEXT,
  )
  return async (data, ctx) => {
    const call: Call = { ctx, result: undefined, settled: false }
    try {
      await calls.run(call, () => pipeline(data, ctx))
    } catch (error) {
      throw call.result === undefined ? refusal(error) : error
    }
    if (call.result !== undefined && !call.settled) {
      throw new HapaxError('unawaited-query', `an interceptor did not wait for ${method.name}, which is still running`)
    }
    await call.result
  }
}

/** What Nest calls in place of the method. It inherits from it, so that guards find the metadata of the method on it. */
function entryOf(method: Method['method']): Method['method'] {
  async function entry(this: unknown, data: unknown): Promise<unknown> {
    const call = calls.getStore()
    if (call === undefined) throw new HapaxError('broken-atomicity', `an interceptor called ${method.name} too late`)
    // What the first call wrote is still in the transaction: one that an interceptor makes again gets what became of the first.
    call.result ??= called(this, data, call)
    return call.result
  }
  async function called(self: unknown, data: unknown, call: Call): Promise<unknown> {
    try {
      return await method.call(self, data, call.ctx)
    } finally {
      call.settled = true
    }
  }
  Object.defineProperty(entry, 'name', { value: method.name })
  return Object.setPrototypeOf(entry, method)
}

/** Guards and pipes refuse by exceptions of HTTP. To try again is pointless below 500: nothing about the message will have changed. */
function refusal(thrown: unknown): unknown {
  const getStatus = fieldOf(thrown, 'getStatus')
  const status: unknown = typeof getStatus === 'function' ? getStatus.call(thrown) : undefined
  if (typeof status !== 'number' || status < 400 || status > 499) return thrown
  return new Permanent(messageOf(asError(thrown)), { cause: thrown })
}
