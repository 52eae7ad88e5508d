import type { RetryPolicy } from '../base/index.ts'
import { asError, HapaxError, isHapaxError, messageOf } from '../base/index.ts'
import type { Handler, Item, LeasedHandler, ManyHandler, PublishInHandler } from '../contracts/index.ts'
import type { MessageType } from '../message/index.ts'
import { decode, type Message, type StoredMessage, unpackAttributes } from '../message/index.ts'
import { causeOf, type Scope } from '../transaction/index.ts'

/** A handler as it was registered. */
export type Registered<Tx> = {
  readonly type: MessageType<never, unknown>
  /** Undefined: that of the consumer. */
  readonly retry: RetryPolicy | undefined
} & (
  | { readonly kind: 'one'; readonly call: Handler<never, Tx> }
  | { readonly kind: 'many'; readonly call: ManyHandler<never, Tx> }
  | { readonly kind: 'leased'; readonly call: LeasedHandler<never, Tx> }
)

/** A message as its handler gets it. */
export interface Content {
  readonly message: Message
  readonly data: unknown
}

/** A message that fits its handler. */
export interface Job<Tx> {
  readonly stored: StoredMessage
  readonly handler: Registered<Tx>
  readonly attempt: number
  /** The decoded message; anew for every call, because a handler that was rolled back may have changed it. */
  content(): Content | Promise<Content>
}

/** Decodes and checks a message for its handler; throws `invalid-payload`. */
export function prepareJob<Tx>(
  handler: Registered<Tx>,
  stored: StoredMessage,
  attempt: number,
): Job<Tx> | Promise<Job<Tx>> {
  const job = (first: Content): Job<Tx> => {
    let unused: Content | undefined = first
    const content = (): Content | Promise<Content> => {
      const current = unused ?? decodeFor(handler, stored)
      unused = undefined
      return current
    }
    return { stored, handler, attempt, content }
  }
  const first = decodeFor(handler, stored)
  return first instanceof Promise ? first.then(job) : job(first)
}

/** Decodes and checks a message for one call of its handler; throws `invalid-payload`. */
export function decodeFor<Tx>(handler: Registered<Tx>, stored: StoredMessage): Content | Promise<Content> {
  const attributes = unpackAttributes(stored)
  const value = decode(stored, attributes.datacontenttype)
  const message: Message = { ...attributes, data: value }
  try {
    const data = handler.type.parse(value)
    if (!(data instanceof Promise)) return { message, data }
    return data.then(
      (awaited) => ({ message, data: awaited }),
      (error: unknown) => refuse(stored, error),
    )
  } catch (error) {
    return refuse(stored, error)
  }
}

function refuse({ type }: StoredMessage, error: unknown): never {
  if (isHapaxError(error, 'invalid-payload')) throw error
  throw new HapaxError('invalid-payload', `the schema of ${type} threw: ${messageOf(asError(error))}`, { cause: error })
}

/** Calls the handlers in turn, or together; those of many get their messages as one array, where the first of them stands. */
export async function callHandlers<Tx>(jobs: readonly Job<Tx>[], scope: Scope<Tx>): Promise<void> {
  if (scope.together && jobs.length > 1) return callTogether(jobs, scope)
  const called = new Set<Registered<Tx>>()
  for (const job of jobs) {
    const { handler } = job
    if (handler.kind === 'leased') continue
    if (handler.kind === 'one') {
      const content = job.content()
      await callOne(handler.call, job, content instanceof Promise ? await content : content, scope)
    } else if (!called.has(handler)) {
      called.add(handler)
      await callMany(
        handler.call,
        jobs.filter((each) => each.handler === handler),
        scope,
      )
    }
  }
}

async function callTogether<Tx>(jobs: readonly Job<Tx>[], scope: Scope<Tx>): Promise<void> {
  const many = new Set(jobs.map((job) => job.handler).filter((handler) => handler.kind === 'many'))
  const ones = jobs.filter((job) => job.handler.kind === 'one')
  // None may go on alone while the transaction is being given up because of another.
  const ended = await Promise.allSettled([
    ...ones.map((job) => callHandlers([job], scope)),
    ...[...many].map((handler) =>
      callHandlers(
        jobs.filter((job) => job.handler === handler),
        { ...scope, together: false },
      ),
    ),
  ])
  const failed = ended.find((each) => each.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

/** Publishes because of this message. */
export function publishFor<Tx>(message: Message, { buffer }: Pick<Scope<Tx>, 'buffer'>): PublishInHandler {
  const cause = causeOf(message)
  return (type, data, options) => buffer.publish(type, data, options, cause)
}

function callOne<Tx>(call: Handler<never, Tx>, job: Job<Tx>, { message, data }: Content, scope: Scope<Tx>): unknown {
  const { tx, signal, logger } = scope
  const publish = publishFor(message, scope)
  return call(data as never, { tx, message, publish, signal, attempt: job.attempt, logger })
}

async function callMany<Tx>(call: ManyHandler<never, Tx>, jobs: readonly Job<Tx>[], scope: Scope<Tx>): Promise<void> {
  const { tx, buffer, signal, logger } = scope
  const items: Item<unknown>[] = []
  for (const job of jobs) {
    const { message, data } = await job.content()
    items.push({ message, data, publish: publishFor(message, scope) })
  }
  const publish: PublishInHandler = (type, data, options) => buffer.publish(type, data, options)
  await call(items as never, { tx, publish, signal, logger })
}

/** Smaller groups: halves for handlers of many, which find the culprit in few calls; else one by one. */
export function smaller<J extends { readonly handler: { readonly kind: Registered<never>['kind'] } }>(
  jobs: readonly J[],
): readonly (readonly J[])[] {
  const middle = Math.ceil(jobs.length / 2)
  const halves = jobs.some((job) => job.handler.kind === 'many')
  return halves ? [jobs.slice(0, middle), jobs.slice(middle)] : jobs.map((job) => [job])
}
