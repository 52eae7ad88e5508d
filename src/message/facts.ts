// Messages as an instrument sees them.

import type { MessageFacts, Messages, TraceContext } from '../base/index.ts'
import type { IncomingMessage, LeavingMessage } from './message.ts'

/** Describes stored messages when they are asked for. `attemptOf` tells which attempt each is at, by its place. */
export function factsOfStored(
  stored: readonly LeavingMessage[],
  attemptOf?: (index: number) => number | undefined,
): Messages {
  return described(stored, (each, index) => {
    const { id, source, type, key, data, attributes } = each
    const [attempt, trace] = [attemptOf?.(index), storedTrace(attributes)]
    const known = { id, source, type, bytes: data.byteLength }
    return { ...known, ...(key !== null && { key }), ...(attempt && { attempt }), ...(trace && { trace }) }
  })
}

/** Describes messages as they came. What is no text is left out: a third-party sender may have written anything. */
export function factsOfIncoming(incoming: readonly IncomingMessage[], bytes: readonly number[]): Messages {
  return described(incoming, ({ id, source, type, key, traceparent, tracestate }, index) => {
    const trace = traceOf({ traceparent, tracestate })
    const known = { id: textOf(id), source: textOf(source), type: textOf(type), bytes: bytes[index] ?? 0 }
    return { ...known, ...(typeof key === 'string' && { key }), ...(trace && { trace }) }
  })
}

function described<T>(items: readonly T[], describe: (item: T, index: number) => MessageFacts): Messages {
  return {
    size: items.length,
    *[Symbol.iterator]() {
      for (const [index, item] of items.entries()) yield describe(item, index)
    },
  }
}

/** The trace context of a stored message. The text is cheaper to search than to parse; inside a string the quotes would be escaped. */
export function storedTrace(attributes: string): TraceContext | undefined {
  const traceparent = PLAIN.exec(attributes)?.[1]
  if (traceparent !== undefined) return { traceparent }
  if (!attributes.includes('"traceparent"')) return undefined
  try {
    return traceOf(JSON.parse(attributes))
  } catch {
    return undefined
  }
}

/** A traceparent as hapax writes it: without a tracestate, and before all headers. */
const PLAIN = /^\{[^{}]*?"traceparent":"([0-9a-f-]{55})"(?!,"tracestate")/

function traceOf(read: { readonly traceparent?: unknown; readonly tracestate?: unknown }): TraceContext | undefined {
  const { traceparent, tracestate } = read
  if (typeof traceparent !== 'string') return undefined
  return typeof tracestate === 'string' ? { traceparent, tracestate } : { traceparent }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
