import { AsyncLocalStorage } from 'node:async_hooks'
import type { ExternalContextCreator } from '@nestjs/core'
import { asError, fieldOf, HapaxError, messageOf, Permanent } from '../base/index.ts'
import type { Item } from '../contracts/index.ts'
import { Call, standIn } from './call.ts'
import type { Marked } from './decorators.ts'
import type { HapaxEnhancers } from './options.ts'

/** What `context.getType()` returns in guards and interceptors around methods that take messages. */
export const HAPAX_CONTEXT = 'hapax'

/** A call for a message. Nest passes on only what pipes took, and they must not take the context: it travels beside them. */
class MessageCall extends Call {
  readonly ctx: unknown

  constructor(ctx: unknown) {
    super()
    this.ctx = ctx
  }
}

const calls = new AsyncLocalStorage<MessageCall>()

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
  const { instance, name, method } = found
  const entry = entryOf(method, pipesOf(external, found))
  const around = { ...enhancers, filters: false }
  // By the name of the method Nest would find its parameters, which are piped by the entry.
  const whole = `${name} of a message`
  const pipeline: Pipeline = external.create(
    instance,
    entry,
    whole,
    '',
    undefined,
    undefined,
    undefined,
    around,
    HAPAX_CONTEXT,
  )
  return async (data, ctx) => {
    const call = new MessageCall(ctx)
    try {
      await calls.run(call, () => pipeline(data, ctx))
    } catch (error) {
      throw call.begun ? error : refusal(error)
    }
    await call.finished(method.name)
  }
}

type Pipeline = (...args: unknown[]) => Promise<unknown>

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

/** The pipes of a method: for its data, or for the data of each message of a group. What they refuse has failed for good. */
function pipesOf(
  external: ExternalContextCreator,
  found: Method & Pick<Marked, 'kind'>,
): (given: unknown) => Promise<unknown> {
  const { instance, kind, method } = found
  // Nest looks types up by the name of the method: by another one it does not take the type of an array for that of its items.
  const name = kind === 'many' ? `${found.name} of an item` : found.name
  Reflect.defineMetadata(PARAMS, paramsOf(found), instance.constructor, name)
  const identity = standIn(method, (data: unknown) => data)
  const piped: Pipeline = external.create(
    instance,
    identity,
    name,
    PARAMS,
    DATA,
    undefined,
    undefined,
    NONE,
    HAPAX_CONTEXT,
  )
  const pipe = async (data: unknown): Promise<unknown> => {
    try {
      return await piped(data)
    } catch (error) {
      throw refusal(error)
    }
  }
  if (kind !== 'many') return pipe
  return async (items) => {
    const all: Item<unknown>[] = []
    for (const each of items as readonly Item<unknown>[]) all.push({ ...each, data: await pipe(each.data) })
    return all
  }
}

const NONE = { guards: false, interceptors: false, filters: false }

/** What Nest calls in place of the method. */
function entryOf(method: Method['method'], pipe: (data: unknown) => Promise<unknown>): Method['method'] {
  return standIn(method, async function (this: unknown, data: unknown): Promise<unknown> {
    const call = calls.getStore()
    if (call === undefined) throw new HapaxError('broken-atomicity', `an interceptor called ${method.name} too late`)
    return call.once(async () => method.call(this, await pipe(data), call.ctx))
  })
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
