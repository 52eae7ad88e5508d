// The failures of a message, as `failed show` and `explain` print them.

import { safe } from '../base/index.ts'
import type { Trace } from '../contracts/index.ts'
import { originOf, type Past, type PastFailure } from '../message/index.ts'
import { type Io, line, paint } from './io/io.ts'
import { table } from './io/table.ts'
import { plural, when } from './io/text.ts'

/** Prints the failures of a message as a table, the oldest first. */
export function tellHistory({ failures, history }: Past, io: Io): void {
  if (history.length === 0) return
  const earlier = failures - history.length
  const title = earlier === 0 ? plural(failures, 'failure') : `${plural(failures, 'failure')}, ${notKept(earlier)}`
  line(io, paint(io, 'dim', title))
  table(
    io,
    [
      { title: 'when' },
      { title: 'attempt', align: 'right' },
      { title: 'worker', shrinkTo: 12 },
      { title: 'error', shrinkTo: 20 },
    ],
    history.map((failure) => [when(failure.at), attemptOf(failure), safe(failure.worker), safe(errorOf(failure))]),
  )
  line(io)
}

/** What used up no attempt has no number. */
function attemptOf({ attempt, kind }: PastFailure): string {
  return attempt === 0 || kind === 'lost' ? '-' : String(attempt)
}

/** The code comes first: it tells errors apart, and what stands last is cut off. */
function errorOf({ name, code, message }: PastFailure): string {
  if (code === undefined) return `${name}: ${message}`
  return `${name === 'HapaxError' ? code : `${name} (${code})`}: ${message}`
}

/** A line in the life of a message. */
export interface Moment {
  readonly at: Date
  readonly text: string
}

/** The failures that a place remembers. Of a message that is held, the failed store remembers the same. */
export function momentsOf(trace: Trace, traces: readonly Trace[]): readonly Moment[] {
  if (!('history' in trace)) return []
  const isHeld = 'heldAt' in trace && trace.heldAt !== null
  if (isHeld && traces.some((each) => each.where === 'failed' && each.held && each.origin === trace.where)) return []
  const { failures, history } = trace
  const who = scopeOf(trace)
  const earlier = failures - history.length
  const [first] = history
  const cut = first !== undefined && earlier > 0 ? [{ at: first.at, text: `${notKept(earlier)}, for ${who}` }] : []
  return [
    ...cut,
    ...history.map((failure) => ({ at: failure.at, text: `${whatOf(failure, who)}: ${errorOf(failure)}` })),
  ]
}

function whatOf({ attempt, kind, worker }: PastFailure, who: string): string {
  if (kind === 'lost') return `interrupted for ${who} on ${worker}, without using up an attempt`
  return attempt === 0 ? `not accepted for ${who} on ${worker}` : `attempt ${attempt} for ${who} failed on ${worker}`
}

function scopeOf(trace: Extract<Trace, Past>): string {
  const copy = originOf(trace.source)
  if (copy !== undefined) return copy.endpoint
  if (trace.where === 'outbox') return `the relay ${trace.relay}`
  return trace.where === 'failed' && trace.origin === 'outbox' ? `the relay ${trace.consumer}` : trace.consumer
}

function notKept(earlier: number): string {
  return `${earlier} earlier not kept`
}
