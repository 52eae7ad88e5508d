import type { ErrorRecord, Trace } from '../index.ts'
import { CliError } from './errors.ts'
import { type Io, json, line, paint } from './io.ts'
import { command, type StoreOptions, withHapax } from './store.ts'
import { plural, safe, span, when, widthOf } from './text.ts'

/** Options of `hapax explain`. */
export interface ExplainOptions extends StoreOptions {
  readonly source?: string
  readonly json?: true
}

/** Tells the life of one message: where it has been, where it is, and what happens next. */
export async function explain(id: string, options: ExplainOptions, io: Io): Promise<number> {
  const found = await withHapax(options, io, (hapax) => hapax.explain(id, options.source))
  if (found.length === 0) {
    const from = options.source === undefined ? '' : ` from ${options.source}`
    throw new CliError('not-found', `no message with the id ${id}${from} is known here`, [
      'it was never taken or published on this database, or its rows are gone: those of the outbox once they are',
      'confirmed, receipts when they are old enough',
    ])
  }
  const bySource = Map.groupBy(found, ({ source }) => source)
  const messages = [...bySource].map(([source, traces]) => ({ source, traces, next: next(traces, options) }))
  if (options.json) json(io, { id, messages: messages.map(document) })
  else {
    for (const [index, { source, traces, next: sentences }] of messages.entries()) {
      if (index > 0) line(io)
      tell(id, source, traces, sentences, io)
    }
  }
  return 0
}

function document({ source, traces, next: sentences }: { source: string; traces: Trace[]; next: string[] }): object {
  return {
    source,
    type: traces[0]?.type,
    traces: traces.map(({ source: _, type: __, ...trace }) => trace),
    next: sentences.join(' '),
  }
}

function tell(id: string, source: string, traces: readonly Trace[], sentences: readonly string[], io: Io): void {
  line(io, `${paint(io, 'bold', safe(id))}  ${safe(traces[0]?.type ?? '')} from ${safe(source)}`)
  line(io)
  const places = Math.max(...traces.map(({ where }) => widthOf(where)))
  for (const trace of traces) {
    const place = paint(io, trace.where === 'failed' ? 'red' : 'cyan', trace.where.padEnd(places))
    line(io, `  ${paint(io, 'dim', when(trace.at))}  ${place}  ${safe(event(trace))}`)
  }
  line(io)
  for (const sentence of sentences) line(io, safe(sentence))
}

function event(trace: Trace): string {
  switch (trace.where) {
    case 'outbox':
      return `written to the outbox for the relay ${trace.relay}, and not confirmed yet`
    case 'receipt':
      return `taken by ${trace.consumer}`
    case 'inbox':
      return `put into the inbox of ${trace.consumer}${tries(trace.attempts, trace.error)}`
    case 'failed':
      return `failed for ${trace.consumer} after ${times(trace.attempts)}: ${trace.reason}${because(trace.error)}`
  }
}

function tries(attempts: number, error: ErrorRecord | null): string {
  return attempts === 0 ? '' : `; ${times(attempts)} so far${because(error)}`
}

function because(error: ErrorRecord | null): string {
  return error === null ? '' : ` (${error.name}: ${error.message})`
}

function times(attempts: number): string {
  return attempts === 0 ? 'no attempt' : plural(attempts, 'attempt')
}

/** What will happen, one sentence for each place that the message is in. */
function next(traces: readonly Trace[], options: StoreOptions): string[] {
  const sentences: string[] = []
  for (const trace of traces) {
    const sentence = nextOf(trace, traces, options)
    if (sentence !== undefined) sentences.push(sentence)
  }
  return sentences
}

function nextOf(trace: Trace, traces: readonly Trace[], options: StoreOptions): string | undefined {
  switch (trace.where) {
    case 'outbox':
      return `Next, the relay ${trace.relay} sends it; the row stays until the broker has confirmed it.`
    case 'inbox':
      return `Next, a worker of ${trace.consumer} ${trace.attempts === 0 ? 'handles it' : 'tries it again'}${due(trace.dueAt)}.`
    case 'failed':
      return `${trace.consumer} does not try it again by itself. To retry: ${command(`failed retry ${trace.seq}`, options)}`
    case 'receipt':
      return isOpen(trace.consumer, traces)
        ? undefined
        : `${trace.consumer} is done with it; another delivery is a duplicate and changes nothing.`
  }
}

function isOpen(consumer: string, traces: readonly Trace[]): boolean {
  return traces.some((each) => (each.where === 'inbox' || each.where === 'failed') && each.consumer === consumer)
}

function due(at: Date): string {
  const ms = at.getTime() - Date.now()
  return ms <= 0 ? ': it is due now' : ` in ${span(ms)}`
}
