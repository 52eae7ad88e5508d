// The life of one message: every trace of it as a sentence, in the order of time.

import type { EffectRow, PastFailure, Trace } from '../../contracts/index.ts'
import { inTimeOrder, originOf } from '../../message/index.ts'
import type { MomentView } from '../api.ts'
import type { Seen } from '../route.ts'
import { errorOrNull, errorView, pastError } from './rows.ts'

/** The moments of a life, the oldest first. */
export function momentsOf(traces: readonly Trace[], seen: Seen): readonly MomentView[] {
  return inTimeOrder(traces.flatMap((trace) => [...attemptsOf(trace, traces), momentOf(trace, seen)]))
}

/** The trace in which it was published. */
export function traceIdOf(traces: readonly Trace[]): string | null {
  for (const each of traces) {
    const parent = 'traceparent' in each ? each.traceparent : null
    const [, traceId] = /^[\da-f]{2}-([\da-f]{32})-/.exec(parent ?? '') ?? []
    if (traceId !== undefined) return traceId
  }
  return null
}

/** The consumer, or the relay. */
export function scopeOf(trace: Trace): string {
  return 'relay' in trace ? trace.relay : trace.consumer
}

function momentOf(trace: Trace, seen: Seen): MomentView {
  const isDelivery = trace.where === 'effect' && originOf(trace.source) !== undefined
  return {
    // Attempts at a delivery stand before what became of it.
    at: (isDelivery ? trace.effect.lastAt : trace.at).toISOString(),
    where: trace.where,
    scope: scopeOf(trace),
    text: textOf(trace),
    error: trace.where === 'effect' ? errorOrNull(trace.effect.error, seen) : errorIn(trace, seen),
    actor: trace.where === 'audit' ? trace.actor : null,
    note: trace.where === 'audit' ? trace.note : null,
    seq: 'seq' in trace && typeof trace.seq === 'string' ? trace.seq : null,
  }
}

function errorIn(trace: Trace, seen: Seen): MomentView['error'] {
  return 'error' in trace && trace.error !== null ? errorView(trace.error, seen) : null
}

function textOf(trace: Trace): string {
  switch (trace.where) {
    case 'outbox':
      return `Written to the outbox for the relay ${trace.relay}${tries(trace.attempts)}${held(trace.heldAt)}.`
    case 'sent':
      return `The relay ${trace.relay} sent it, and the broker confirmed it.`
    case 'receipt':
      return `Taken by ${forWhom(trace)}.`
    case 'response':
      return `Answered with ${trace.status}, which is sent again until ${trace.expiresAt.toISOString()}.`
    case 'inbox':
      return `Put into the inbox of ${forWhom(trace)}${tries(trace.attempts)}${held(trace.heldAt)}.`
    case 'claim':
      return `Claimed for ${trace.consumer}${tries(trace.attempts)}.`
    case 'failed': {
      const replaced = trace.replacedBy === null ? '' : `; an edit put ${trace.replacedBy} in its place`
      return `Failed for good for ${forWhom(trace)} after ${times(trace.attempts)}: ${trace.reason}${replaced}.`
    }
    case 'effect':
      return effectText(trace.effect)
    case 'audit':
      return `${trace.actor}: ${trace.action}.`
  }
}

/** The copy of an event for an endpoint of outgoing webhooks belongs to the event. */
function forWhom(trace: Trace): string {
  const copy = originOf(trace.source)
  if (copy !== undefined) return `the endpoint ${copy.endpoint}`
  return trace.where === 'failed' && trace.origin === 'outbox' ? `the relay ${trace.consumer}` : scopeOf(trace)
}

const ENDS = {
  started: 'has begun, and its end is not known yet',
  done: 'was done',
  'not-done': 'was certainly not done',
  unknown: 'has an unknown end',
} as const

function effectText({ name, state, attempts }: EffectRow): string {
  if (name === '') return 'The handler kept notes on it.'
  return `The outside call '${name}' ${ENDS[state]}${attempts > 1 ? `, begun ${attempts} times` : ''}.`
}

function tries(attempts: number): string {
  return attempts === 0 ? '' : `; ${times(attempts)} so far`
}

function held(at: Date | null): string {
  return at === null ? '' : `; it holds its key since ${at.toISOString()}`
}

function times(attempts: number): string {
  return attempts === 1 ? '1 attempt' : `${attempts} attempts`
}

/** The failures that a place remembers. Of a message that is held, the failed store remembers the same. */
function attemptsOf(trace: Trace, traces: readonly Trace[]): readonly MomentView[] {
  if (!('history' in trace)) return []
  const isHeld = 'heldAt' in trace && trace.heldAt !== null
  if (isHeld && traces.some((each) => each.where === 'failed' && each.held && each.origin === trace.where)) return []
  return trace.history.map((failure) => ({
    at: failure.at.toISOString(),
    where: 'attempt',
    scope: scopeOf(trace),
    text: attemptText(failure, forWhom(trace)),
    error: pastError(failure),
    actor: null,
    note: null,
    seq: null,
  }))
}

function attemptText({ attempt, kind, worker }: PastFailure, who: string): string {
  if (kind === 'lost') return `Interrupted for ${who} on ${worker}, without using up an attempt.`
  return attempt === 0 ? `Not accepted for ${who} on ${worker}.` : `Attempt ${attempt} for ${who} failed on ${worker}.`
}
