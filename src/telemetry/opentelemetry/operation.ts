import {
  type Attributes,
  type Context,
  context,
  type Link,
  type Span,
  SpanKind,
  type SpanOptions,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { Facts, Findings, Messages, Operation, Redact, Running } from '../../base/index.ts'
import { outOfUpkeep, remoteContext, spanContextOf, withoutReceived, withReceived } from './context.ts'
import type { Durations } from './durations.ts'
import { type ErrorTypes, failSpan } from './errors.ts'
import { linkAttributes, messageAttributes, type Named, spanName } from './names.ts'

/** What operations share. */
export interface Telling {
  tracer(): Tracer
  readonly named: Named
  readonly durations: Durations
  readonly errorTypes: ErrorTypes
  /** Whether an attempt at one message continues the trace of that message. */
  readonly continues: boolean
  redact(): Redact
}

/** An operation from its beginning to its end: its span, and its duration. */
export class Watched implements Running {
  readonly #telling: Telling
  readonly #operation: Operation
  readonly #facts: Facts
  readonly #began = performance.now()
  /** The context in which it was called. */
  readonly #outer: Context
  #span: Span | undefined
  /** The context of its work. */
  #inner: Context
  #found: Findings = {}
  #ended = false

  constructor(telling: Telling, operation: Operation, facts: Facts, outer: Context) {
    this.#telling = telling
    this.#operation = operation
    this.#facts = facts
    this.#outer = outer
    this.#inner = outer
    if (facts.messages !== undefined) this.#found = { messages: facts.messages }
    // An attempt whose messages have to be claimed begins when they are: if there are none, it was none.
    if (operation !== 'process' || facts.messages !== undefined) this.#begin()
  }

  /** The context of its work. */
  get inner(): Context {
    return this.#inner
  }

  add(findings: Findings): void {
    if (this.#ended) return
    const first = this.#found.messages === undefined && findings.messages !== undefined
    this.#found = { ...this.#found, ...findings }
    if (!first) return
    if (this.#span === undefined) this.#begin()
    else this.#describe(this.#span)
  }

  enter<T>(work: () => T): T {
    return context.with(this.#inner, work)
  }

  end(findings?: Findings): void {
    if (findings !== undefined) this.add(findings)
    if (this.#ended) return
    this.#ended = true
    if (this.#span === undefined) return
    const endedAt = performance.now()
    const { durations, errorTypes, redact } = this.#telling
    const { outcomes, error } = this.#found
    const failed = isFailure(this.#operation, this.#found)
    const errorType = failed ? errorTypes.of(error) : undefined
    if (this.#operation !== 'effect' && this.#operation !== 'http') {
      const ms = endedAt - this.#began
      durations.record(this.#operation, this.#facts, { ms, errorType, found: this.#found, inner: this.#inner })
    }
    if (this.#span.isRecording()) {
      if (outcomes !== undefined) this.#span.setAttribute('hapax.outcome', [...new Set(outcomes)].join(','))
      if (errorType !== undefined) failSpan(this.#span, error, errorType, redact())
    }
    // By the same clock as its beginning: the SDK would take the time of day, in whole milliseconds, which may have been set meanwhile.
    this.#span.end(endedAt)
  }

  #begin(): void {
    const base = outOfUpkeep(this.#outer)
    const { parent, options } = this.#place(base)
    const name = spanName(this.#operation, this.#facts)
    const span = this.#telling.tracer().startSpan(name, options, parent)
    this.#span = span
    this.#inner = trace.setSpan(base, span)
    if (this.#operation === 'receive') this.#inner = withReceived(this.#inner, this.#facts)
    if (this.#operation === 'process') this.#inner = withoutReceived(this.#inner)
    this.#describe(span)
  }

  /**
   * Where its span belongs. What others call and wait for (publish, settle, effect) is a part of their trace. What hapax does by itself
   * begins a new one, so that none grows without bound: a relay, a delivery, and every attempt.
   */
  #place(base: Context): { readonly parent: Context; readonly options: SpanOptions } {
    const { named, continues } = this.#telling
    const options: SpanOptions = {
      kind: KINDS[this.#operation] ?? SpanKind.INTERNAL,
      attributes: this.#attributes(named),
      startTime: this.#began,
    }
    if (!ROOTS.has(this.#operation)) return { parent: base, options }
    const only = continues && this.#operation === 'process' ? onlyContext(this.#found.messages) : undefined
    if (only === undefined) return { parent: base, options: { ...options, root: true } }
    return { parent: trace.setSpanContext(base, only), options }
  }

  #attributes(named: Named): Attributes {
    const { consumer, relay, effect, scope } = this.#facts
    if (this.#operation === 'http') return { 'hapax.http.scope': scope ?? '' }
    if (this.#operation === 'effect') {
      return { ...(consumer !== undefined && { 'hapax.consumer': consumer }), 'hapax.effect': effect ?? '' }
    }
    const { destination } = this.#facts
    const type = this.#operation === 'publish' && destination !== undefined
    return {
      ...named.of(this.#operation, this.#facts),
      ...(type && { 'messaging.destination.name': destination }),
      ...(relay !== undefined && { 'hapax.relay': relay }),
    }
  }

  /** Nothing is read from the messages if nobody is going to see it. */
  #describe(span: Span): void {
    const { messages } = this.#found
    if (!span.isRecording()) return
    if (ROOTS.has(this.#operation)) this.#linkCaller(span)
    if (messages === undefined) return
    if (messages.size > 1) span.setAttribute('messaging.batch.message_count', messages.size)
    const alone = messages.size === 1
    for (const message of messages) {
      if (alone) span.setAttributes(messageAttributes(message))
      const remote = LINKED.has(this.#operation) ? remoteContext(message.trace) : undefined
      if (remote === undefined || isParent(span, remote, this.#telling.continues)) continue
      span.addLink(alone ? { context: remote } : { context: remote, attributes: linkAttributes(message) })
    }
  }

  /** The work in which a delivery was handed over, such as a request or a batch from the broker. */
  #linkCaller(span: Span): void {
    if (this.#linked) return
    this.#linked = true
    const caller = spanContextOf(outOfUpkeep(this.#outer))
    if (caller !== undefined) span.addLink({ context: caller, attributes: { 'hapax.link': 'caller' } } satisfies Link)
  }

  #linked = false
}

/** Operations that begin a trace of their own. */
const ROOTS: ReadonlySet<Operation> = new Set<Operation>(['relay', 'receive', 'process'])
/** Operations that link to the traces of their messages. */
const LINKED: ReadonlySet<Operation> = ROOTS

const KINDS: Readonly<Partial<Record<Operation, SpanKind>>> = {
  publish: SpanKind.PRODUCER,
  relay: SpanKind.CLIENT,
  receive: SpanKind.CLIENT,
  process: SpanKind.CONSUMER,
  handle: SpanKind.CONSUMER,
  settle: SpanKind.CLIENT,
  effect: SpanKind.CLIENT,
}

/** Outcomes after which nothing has to be done about a message. */
const FINE: ReadonlySet<string> = new Set(['processed', 'duplicate', 'stored', 'ignored', 'busy', 'confirmed', 'done'])

/** A batch is received although some of its messages fail: their attempts show that. */
function isFailure(operation: Operation, { outcomes, error }: Findings): boolean {
  if (error === undefined) return false
  if (outcomes === undefined) return true
  return operation !== 'receive' && outcomes.some((outcome) => !FINE.has(outcome))
}

/** The context of the only message. */
function onlyContext(messages: Messages | undefined): ReturnType<typeof remoteContext> {
  if (messages?.size !== 1) return undefined
  const [only] = messages
  return remoteContext(only?.trace)
}

function isParent(span: Span, remote: { readonly traceId: string }, continues: boolean): boolean {
  return continues && span.spanContext().traceId === remote.traceId
}
