// Trace contexts: those that messages carry, and those of this process.

import {
  type Context,
  context,
  createContextKey,
  createTraceState,
  INVALID_SPANID,
  INVALID_TRACEID,
  isSpanContextValid,
  ROOT_CONTEXT,
  type SpanContext,
  trace,
} from '@opentelemetry/api'
import type { Facts, TraceContext } from '../../base/index.ts'

/** The SDK makes no spans where this is set. Keys are the same for the same text, so that this one is the SDK's. */
const SUPPRESS_TRACING = createContextKey('OpenTelemetry SDK Context Key SUPPRESS_TRACING')
const UPKEEP = createContextKey('hapax upkeep')
const RECEIVED = createContextKey('hapax received')

/** The context of hapax's own work. Instrumentations of drivers make no spans in it, which would be traces of their own. */
export const UPKEEP_CONTEXT: Context = ROOT_CONTEXT.setValue(SUPPRESS_TRACING, true).setValue(UPKEEP, true)

/** The context that a new trace begins in: of the caller, unless that is hapax itself. */
export function outOfUpkeep(active: Context): Context {
  return active.getValue(UPKEEP) === true ? ROOT_CONTEXT : active
}

/** Lets attempts know which broker their messages came from. */
export function withReceived(base: Context, facts: Facts): Context {
  return base.setValue(RECEIVED, { system: facts.system, destination: facts.destination })
}

/** What a handler hands to other consumers does not come from the broker. */
export function withoutReceived(base: Context): Context {
  return base.deleteValue(RECEIVED)
}

/** The broker that the messages of the current work came from. */
export function receivedFrom(active: Context): Partial<Pick<Facts, 'system' | 'destination'>> {
  const place: unknown = active.getValue(RECEIVED)
  return typeof place === 'object' && place !== null ? place : {}
}

/** The span of a context, if it has one that others can know. */
export function spanContextOf(of: Context): SpanContext | undefined {
  const found = trace.getSpanContext(of)
  return found !== undefined && isSpanContextValid(found) ? found : undefined
}

/** What a message carries of the context in which it is published. */
export function traceContextOf(of: Context = context.active()): TraceContext | undefined {
  const found = spanContextOf(of)
  if (found === undefined) return undefined
  const { traceId, spanId, traceFlags, traceState } = found
  const traceparent = `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, '0')}`
  const tracestate = traceState?.serialize() ?? ''
  return tracestate === '' ? { traceparent } : { traceparent, tracestate }
}

/** What a message has brought. Undefined: nothing, or nothing that can be understood. */
export function remoteContext({ traceparent = '', tracestate }: Partial<TraceContext> = {}): SpanContext | undefined {
  if (!TRACEPARENT.test(traceparent)) return undefined
  const [traceId, spanId] = [traceparent.slice(3, 35), traceparent.slice(36, 52)]
  if (traceId === INVALID_TRACEID || spanId === INVALID_SPANID) return undefined
  const traceFlags = Number.parseInt(traceparent.slice(53, 55), 16) & 1
  const found: SpanContext = { traceId, spanId, traceFlags, isRemote: true }
  return tracestate === undefined ? found : { ...found, traceState: createTraceState(tracestate) }
}

/** Versions after 00 may have more at the end; ff is none. */
const TRACEPARENT =
  /^(?!ff)(?:00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$|(?!00)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-|$))/
