// How the handlers of a group are called: in turn, overlapping, or together.

import { boundLogger, type Logger, present } from '../base/index.ts'
import type { HandlerContext, Item, PublishInHandler, View } from '../contracts/index.ts'
import type { Message } from '../message/index.ts'
import { causeOf, OUT_OF_TURN, type Scope } from '../transaction/index.ts'
import { Borders } from './borders.ts'
import type { Content, HandlerOfMany, Job, OneHandler, Registered } from './handlers.ts'
import { callOverlapping, type Step } from './overlapping.ts'
import { ref } from './reporter.ts'

/** Calls the handlers in turn, overlapping, or together. A handler of many is called once, at the place of its first message. */
export function callHandlers<Tx>(jobs: readonly Job<Tx>[], scope: Scope<Tx>): unknown {
  if (jobs.length === 1) return callAlone(present(jobs[0], 'a message to handle'), scope)
  const reach = scope.reach()
  // Only where statements can be observed, so that a savepoint is noticed.
  if (scope.together && reach === 'none') return callTogether(jobs, scope)
  // Whoever finds the transaction by the user's `around` sends its statements past the views.
  const views = scope.buffer.enter && scope.views?.()
  if (views === undefined) return inTurn(jobs, scope)
  return scope.buffer.around(undefined, callOverlapping, steps(jobs, scope), views, scope)
}

/** Resolves to what the handler returns, or returns it. */
function callAlone<Tx>(job: Job<Tx>, scope: Scope<Tx>): unknown {
  const { handler } = job
  if (handler.kind !== 'one') return inTurn([job], scope)
  const content = job.content()
  if (content instanceof Promise) return content.then((decoded) => callOne(handler, job, decoded, scope))
  return callOne(handler, job, content, scope)
}

function inTurn<Tx>(jobs: readonly Job<Tx>[], scope: Scope<Tx>): Promise<void> {
  return scope.buffer.around(undefined, callInTurn<Tx>, jobs, scope)
}

async function callInTurn<Tx>(jobs: readonly Job<Tx>[], scope: Scope<Tx>): Promise<void> {
  const called = new Set<Registered<Tx>>()
  const borders = new Borders(scope)
  for (const job of jobs) {
    const { handler } = job
    if (called.has(handler)) continue
    if (borders.isDue(handler)) await borders.set()
    if (handler.kind === 'one') {
      const content = job.content()
      await callNext(handler, job, content instanceof Promise ? await content : content, scope)
    } else if (handler.kind === 'many') {
      called.add(handler)
      await callMany(
        handler,
        jobs.filter((each) => each.handler === handler),
        scope,
      )
    }
    if (jobs.length === 1) return
    // A statement of the last handler is noticed at the end of the transaction; those of the others may have ended by then.
    scope.assertAwaited?.()
    borders.ended(handler, scope.reach())
  }
}

function steps<Tx>(jobs: readonly Job<Tx>[], scope: Scope<Tx>): readonly Step<Tx>[] {
  const found: Step<Tx>[] = []
  const called = new Set<Registered<Tx>>()
  for (const job of jobs) {
    const { handler } = job
    if (handler.kind === 'one') found.push(new OneStep(handler, job, scope))
    else if (handler.kind === 'many' && !called.has(handler)) {
      called.add(handler)
      const many = jobs.filter((each) => each.handler === handler)
      const call = (view: View<Tx>): unknown => callMany(handler, many, inView(scope, view))
      found.push({ handler, apart: true, key: null, prepare: () => undefined, call })
    }
  }
  return found
}

/** One message for its handler. */
class OneStep<Tx> implements Step<Tx> {
  readonly handler: OneHandler<Tx>
  readonly apart = false
  readonly #job: Job<Tx>
  readonly #scope: Scope<Tx>
  #content: Content | undefined

  constructor(handler: OneHandler<Tx>, job: Job<Tx>, scope: Scope<Tx>) {
    this.handler = handler
    this.#job = job
    this.#scope = scope
  }

  get key(): string | null {
    return this.#scope.ordered ? this.#job.stored.key : null
  }

  prepare(): Promise<void> | undefined {
    const content = this.#job.content()
    if (!(content instanceof Promise)) {
      this.#content = content
      return undefined
    }
    return content.then((awaited) => {
      this.#content = awaited
    })
  }

  call(view: View<Tx>): unknown {
    return callNext(
      this.handler,
      this.#job,
      present(this.#content, 'the content of a message'),
      inView(this.#scope, view),
    )
  }
}

function inView<Tx>({ buffer, deadline, logger, consumer, observe }: Scope<Tx>, { tx }: View<Tx>): CallScope<Tx> {
  return { tx, deadline, logger, consumer, buffer: buffer.slot(tx), ...(observe && { observe }) }
}

/** Calls all handlers of a group at the same time, on its one transaction. */
async function callTogether<Tx>(jobs: readonly Job<Tx>[], scope: Scope<Tx>): Promise<void> {
  const many = new Set(jobs.map((job) => job.handler).filter((handler) => handler.kind === 'many'))
  const ones = jobs.filter((job) => job.handler.kind === 'one')
  // Waits for all, also when one fails: none may still use the transaction while it is rolled back.
  const ended = await Promise.allSettled([
    ...ones.map(async (job) => callHandlers([job], scope)),
    ...[...many].map((handler) =>
      callMany(
        handler,
        jobs.filter((job) => job.handler === handler),
        scope,
      ),
    ),
  ])
  const failed = ended.find((each) => each.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  // With interleaved handlers, the owner of a savepoint cannot be determined.
  if (ones.length + many.size > 1 && scope.reach() !== 'none') throw OUT_OF_TURN
}

/** What one call needs of its scope. */
type CallScope<Tx> = Pick<Scope<Tx>, 'tx' | 'deadline' | 'logger' | 'consumer' | 'observe'> & Publishing<Tx>

interface Publishing<Tx> {
  readonly buffer: ReturnType<Scope<Tx>['buffer']['slot']>
}

/** A `publish` that names this message as the cause. */
export function publishFor<Tx>(message: Message, { buffer }: Publishing<Tx>): PublishInHandler {
  return (type, data, options) => buffer.publish(type, data, options, causeOf(message))
}

/** What a handler of one message receives; a class, so that a logger is made only for a handler that logs. */
class OneContext<Tx> implements HandlerContext<Tx> {
  readonly tx: Tx
  readonly message: Message
  readonly publish: PublishInHandler
  readonly signal: AbortSignal
  readonly attempt: number
  readonly #scope: CallScope<Tx>

  constructor(message: Message, attempt: number, scope: CallScope<Tx>) {
    this.tx = scope.tx
    this.message = message
    this.publish = publishFor(message, scope)
    this.signal = scope.deadline.signal
    this.attempt = attempt
    this.#scope = scope
  }

  get logger(): Logger {
    const { consumer, logger } = this.#scope
    return boundLogger(logger, { consumer, about: ref(this.message), attempt: this.attempt })
  }
}

function callOne<Tx>(
  { call }: OneHandler<Tx>,
  job: Job<Tx>,
  { message, data }: Content,
  scope: CallScope<Tx>,
): unknown {
  const { buffer, observe } = scope
  const context = new OneContext(message, job.attempt, scope)
  const calling = (): unknown => buffer.around(() => causeOf(message), call, data, context)
  return observe === undefined ? calling() : observe([job.stored], calling)
}

/** The same inside an outer `around`, which makes it cheaper. */
function callNext<Tx>(handler: OneHandler<Tx>, job: Job<Tx>, content: Content, scope: CallScope<Tx>): unknown {
  const { enter } = scope.buffer
  if (scope.observe !== undefined || enter === undefined) return callOne(handler, job, content, scope)
  const { call } = handler
  const { message, data } = content
  enter(() => causeOf(message))
  return call(data, new OneContext(message, job.attempt, scope))
}

async function callMany<Tx>(
  { call }: HandlerOfMany<Tx>,
  jobs: readonly Job<Tx>[],
  scope: CallScope<Tx>,
): Promise<void> {
  const { tx, buffer, deadline, consumer, observe } = scope
  const items: Item<unknown>[] = []
  for (const job of jobs) {
    const content = job.content()
    const { message, data } = content instanceof Promise ? await content : content
    items.push({ message, data, publish: publishFor(message, scope) })
  }
  const publish: PublishInHandler = (type, data, options) => buffer.publish(type, data, options)
  const logger = boundLogger(scope.logger, { consumer })
  const context = { tx, publish, signal: deadline.signal, logger }
  // Of many messages none is the cause.
  const calling = (): unknown => buffer.around(undefined, call, items, context)
  if (observe === undefined) await calling()
  else {
    const messages = jobs.map(({ stored }) => stored)
    await observe(messages, calling)
  }
}
