// Which transaction code is inside of, so that it can publish without having it.

import { HapaxError, type Surroundings, surroundings, transactionClosed } from '../base/index.ts'
import type { Published } from '../contracts/index.ts'
import type { Draft, MessageType, PublishOptions } from '../message/index.ts'
import type { Cause } from './cause.ts'

/** The publishes of one transaction, or of one of several handlers that overlap in it. */
export interface Publishes {
  publish<In>(type: MessageType<In, unknown>, data: In, options?: PublishOptions, cause?: Cause): Promise<Published>
  publishMany(drafts: readonly Draft[], cause?: Cause): Promise<readonly Published[]>
}

/** Names the cause of what code publishes. */
export type CauseOf = () => Cause | undefined

/** Whether what code was inside of has ended: code that outlives it, such as a timer, still has its context. */
export interface Span {
  readonly closed: boolean
  /** See `Surroundings.takes`. Absent: the code may take connections. */
  takes?(pool: object): Error | undefined
}

/** What code is inside of. */
export class Inside implements Surroundings {
  /** Another hapax does not publish here. */
  readonly owner: object
  /** Undefined: a leased handler, which has no transaction yet. */
  readonly publishes: Publishes | undefined
  readonly span: Span
  /** What makes the code publish. */
  readonly causeOf: CauseOf | undefined
  readonly outer: Inside | undefined

  constructor(owner: object, publishes: Publishes | undefined, span: Span, causeOf?: CauseOf) {
    this.owner = owner
    this.publishes = publishes
    this.span = span
    this.causeOf = causeOf
    this.outer = living(innermost())
  }

  /** Calls code that is inside of this. */
  run<Args extends unknown[], T>(call: (...args: Args) => T, ...args: Args): T {
    return surroundings.run(this, call, ...args)
  }

  /** Code that is called from here on is inside of this, until the function ends that an outer `run` has called. Half as dear as `run`. */
  enter(): void {
    surroundings.enterWith(this)
  }

  takes(pool: object): Error | undefined {
    return this.span.closed ? undefined : this.span.takes?.(pool)
  }

  unwatched(): Inside {
    const { owner, publishes, span, causeOf } = this
    return new Inside(owner, publishes, new Unwatched(span), causeOf)
  }
}

/** The span of a handler for what hapax does inside of it. */
class Unwatched implements Span {
  readonly #span: Span

  constructor(span: Span) {
    this.#span = span
  }

  get closed(): boolean {
    return this.#span.closed
  }
}

function innermost(): Inside | undefined {
  const inside = surroundings.getStore()
  return inside instanceof Inside ? inside : undefined
}

/** Publishes in the innermost transaction of this owner. Rejects if there is none. */
export function publishInside<T>(
  owner: object,
  publish: (publishes: Publishes, cause: Cause | undefined) => Promise<T>,
): Promise<T> {
  let inside = innermost()
  while (inside !== undefined && inside.owner !== owner) inside = inside.outer
  if (inside === undefined) return Promise.reject(notInside(NOWHERE))
  if (inside.publishes === undefined) return Promise.reject(notInside(LEASED))
  if (inside.span.closed) return Promise.reject(transactionClosed())
  return publish(inside.publishes, inside.causeOf?.())
}

/** Those that have ended are left out: each timer that sets the next one would make the chain longer. */
function living(inside: Inside | undefined): Inside | undefined {
  let each = inside
  while (each?.span.closed) each = each.outer
  return each
}

const NOWHERE =
  'is in neither hapax.transaction nor a handler: pass the transaction, as in hapax.publish(tx, type, data)'
const LEASED = 'is a leased handler, which has no transaction yet: use ctx.publish, or publish inside ctx.complete'

function notInside(what: string): HapaxError {
  return new HapaxError('not-in-transaction', `expected a transaction to publish in, but this code ${what}`)
}
