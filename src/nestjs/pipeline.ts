import { AsyncLocalStorage } from 'node:async_hooks'
import type { ExternalContextCreator } from '@nestjs/core'
import { asError, fieldOf, HapaxError, messageOf, Permanent } from '../base/index.ts'
import type { Item } from '../contracts/index.ts'
import type { Marked } from './decorators.ts'
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
  found: Method & Pick<Marked, 'kind'>,
  enhancers: Required<HapaxEnhancers>,
): (data: unknown, ctx: unknown) => Promise<void> {
  const { method, kind } = found
  const around = { ...enhancers, filters: false }
  const pipeline =
    kind === 'many'
      ? withoutPipes(external, found, entryOf(method, eachPiped(external, found)), around)
      : withPipes(external, found, entryOf(method), around)
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

type Around = Required<HapaxEnhancers> & { readonly filters: boolean }
type Pipeline = (...args: unknown[]) => Promise<unknown>

function withPipes(
  external: ExternalContextCreator,
  found: Method,
  callback: Method['method'],
  around: Around,
): Pipeline {
  const { instance, name } = found
  Reflect.defineMetadata(PARAMS, paramsOf(found), instance.constructor, name)
  return external.create(instance, callback, name, PARAMS, DATA, undefined, undefined, around, HAPAX_CONTEXT)
}

function withoutPipes(
  external: ExternalContextCreator,
  found: Method,
  callback: Method['method'],
  around: Around,
): Pipeline {
  const { instance, name } = found
  return external.create(instance, callback, name, undefined, undefined, undefined, undefined, around, HAPAX_CONTEXT)
}

/** Where Nest finds the parameters that pipes take: the data, and never the context. */
const PARAMS = 'hapax:params'
const DATA = { exchangeKeyForValue: (_: number, __: unknown, args: readonly unknown[]) => args[0] }

/** Nest's number for the body of a request. Pipes such as ValidationPipe leave everything else as it is. */
const BODY = 3

/** Where Nest keeps what `@Body(pipe)` and `@Payload(pipe)` wrote. */
const PARAMETERS = '__routeArguments__'

interface Parameter {
  readonly index: number
  readonly pipes?: readonly unknown[]
  readonly schema?: unknown
}

function paramsOf({ instance, name }: Pick<Method, 'instance' | 'name'>): object {
  const decorated: Record<string, Parameter> = Reflect.getMetadata(PARAMETERS, instance.constructor, name) ?? {}
  const { pipes = [], schema } = Object.values(decorated).find(({ index }) => index === 0) ?? {}
  return { [`${BODY}:0`]: { index: 0, data: undefined, pipes, schema } }
}

/**
 * Passes the data of each message of a group to the pipes. Nest looks types up by the name of the method: by another name it finds none,
 * and does not take the type of the array for that of the data.
 */
function eachPiped(external: ExternalContextCreator, found: Method): (items: unknown) => Promise<unknown> {
  const { instance, name, method } = found
  const item = `${name} of an item`
  Reflect.defineMetadata(PARAMS, paramsOf(found), instance.constructor, item)
  const identity = Object.setPrototypeOf((data: unknown) => data, method)
  const pipe: Pipeline = external.create(
    instance,
    identity,
    item,
    PARAMS,
    DATA,
    undefined,
    undefined,
    { guards: false, interceptors: false, filters: false },
    HAPAX_CONTEXT,
  )
  return async (items) => {
    const piped: Item<unknown>[] = []
    for (const each of items as readonly Item<unknown>[]) piped.push({ ...each, data: await pipe(each.data) })
    return piped
  }
}

/** What Nest calls in place of the method. It inherits from it, so that guards find the metadata of the method on it. */
function entryOf(method: Method['method'], piped?: (data: unknown) => Promise<unknown>): Method['method'] {
  async function entry(this: unknown, data: unknown): Promise<unknown> {
    const call = calls.getStore()
    if (call === undefined) throw new HapaxError('broken-atomicity', `an interceptor called ${method.name} too late`)
    // What the first call wrote is still in the transaction: one that an interceptor makes again gets what became of the first.
    call.result ??= called(this, data, call)
    return call.result
  }
  async function called(self: unknown, data: unknown, call: Call): Promise<unknown> {
    try {
      const taken = piped === undefined ? data : await refusing(piped(data))
      return await method.call(self, taken, call.ctx)
    } finally {
      call.settled = true
    }
  }
  Object.defineProperty(entry, 'name', { value: method.name })
  return Object.setPrototypeOf(entry, method)
}

async function refusing<T>(piping: Promise<T>): Promise<T> {
  try {
    return await piping
  } catch (error) {
    throw refusal(error)
  }
}

/** Statuses that ask to come again. */
const TRANSIENT: readonly number[] = [408, 425, 429]

/** Guards and pipes refuse by exceptions of HTTP. To try again is pointless below 500: nothing about the message will have changed. */
function refusal(thrown: unknown): unknown {
  const status = resultOf(thrown, 'getStatus')
  if (typeof status !== 'number' || status < 400 || status > 499 || TRANSIENT.includes(status)) return thrown
  return new Permanent(reasonOf(thrown), { cause: thrown })
}

/** The message of an exception of ValidationPipe is the name of the exception: what is wrong is in its response, for each field. */
function reasonOf(thrown: unknown): string {
  const said = fieldOf(resultOf(thrown, 'getResponse'), 'message')
  const message = messageOf(asError(thrown))
  if (typeof said !== 'object' || said === null) return message
  const details = Array.isArray(said)
    ? said.map(String)
    : Object.entries(said).map(([field, each]) => `${field}: ${[each].flat().join(', ')}`)
  return details.length === 0 ? message : `${message}: ${details.join('; ')}`
}

function resultOf(object: unknown, name: string): unknown {
  const method = fieldOf(object, name)
  return typeof method === 'function' ? method.call(object) : undefined
}
