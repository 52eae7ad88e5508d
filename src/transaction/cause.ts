// The trace of what is published: to the work that publishes it, and to the message that a handler handles.

import type { TraceContext } from '../base/index.ts'
import type { MessageAttributes, PublishOptions } from '../message/index.ts'
import { isAttribute } from './publish-options.ts'

/** The trace of a message to the one that caused it: set on what a handler publishes. */
export interface Cause {
  readonly correlationId: string
  readonly causationId: string
  readonly traceparent?: string
  readonly tracestate?: string
}

/**
 * The trace attributes for messages that are published because of this one. A third-party sender may have written anything into them.
 * What could not be published is left out, so that no handler fails because of it.
 */
export function causeOf({ id, correlationId, traceparent, tracestate }: MessageAttributes): Cause {
  const cause = { causationId: id, correlationId: isAttribute(correlationId) ? correlationId : id }
  return { ...cause, ...contextOf({ traceparent, tracestate }) }
}

/** W3C Trace Context, any version. A malformed one is dropped, which begins a new trace. */
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-|$)/

/** A context that can be published; undefined if it cannot. */
export function contextOf(
  given: { traceparent?: unknown; tracestate?: unknown } | undefined,
): TraceContext | undefined {
  const { traceparent, tracestate } = given ?? {}
  if (!isAttribute(traceparent) || !TRACEPARENT.test(traceparent)) return undefined
  return { traceparent, ...(isAttribute(tracestate) && { tracestate }) }
}

/**
 * What a message carries: the options of the caller, then the context in which it is published, then what its cause passes on. A
 * tracestate belongs to its traceparent: with another parent, the inherited state does not apply.
 */
export function withCause(
  cause: Cause | undefined,
  options: PublishOptions,
  captured?: TraceContext | undefined,
): PublishOptions {
  if (options.traceparent === undefined && captured === undefined) return { ...cause, ...options }
  const { traceparent: _, tracestate: __, ...others } = cause ?? {}
  return options.traceparent === undefined ? { ...others, ...options, ...captured } : { ...others, ...options }
}
