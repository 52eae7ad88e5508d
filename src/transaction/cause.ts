// The trace of what a handler publishes to the message that it handles.

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
  if (!isAttribute(traceparent) || !TRACEPARENT.test(traceparent)) return cause
  return { ...cause, traceparent, ...(isAttribute(tracestate) && { tracestate }) }
}

/** W3C Trace Context, any version. A malformed one is dropped, which begins a new trace. */
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-|$)/

/** A tracestate belongs to its traceparent: with another parent, the inherited state does not apply. */
export function withCause(cause: Cause | undefined, options: PublishOptions): PublishOptions {
  if (cause === undefined || options.traceparent === undefined) return { ...cause, ...options }
  const { tracestate: _, ...others } = cause
  return { ...others, ...options }
}
