// `hapax/opentelemetry`: traces and metrics through the API of OpenTelemetry. Which SDK takes them is the application's choice.
//
// Which span belongs to which trace:
//
//   request ─ publish                  a part of the trace of whoever publishes; the message carries its context
//   send (relay)                       a trace of its own per batch, linked to the publish of each message
//   receive ─ settle                   a trace of its own per batch from a broker, linked to the publish of each message
//   process ─┬─ effect                 a trace of its own per attempt, linked to the publish of each message and to the receive
//            ├─ settle
//            └─ publish                and so on
//
// So no trace grows without bound: a message that is tried 10,000 times makes 10,000 small traces, and so does one that is published
// 10,000 times. With `consume: 'parent'` an attempt at one message is a part of the trace of its publish instead.

import { type Context, context, type MeterProvider, type Tracer, type TracerProvider, trace } from '@opentelemetry/api'
import {
  able,
  type Events,
  type Facts,
  flag,
  type Instrument,
  noOthers,
  type Operation,
  oneOf,
  type Redact,
  type Running,
  type TraceContext,
  version,
} from '../../base/index.ts'
import { measure } from '../metrics/index.ts'
import { receivedFrom, traceContextOf, UPKEEP_CONTEXT } from './context.ts'
import { Durations } from './durations.ts'
import { ErrorTypes, notEnded } from './errors.ts'
import { handleEach } from './handle.ts'
import { MeterSink, Meters } from './meters.ts'
import { Named, systemNames } from './names.ts'
import { type Telling, Watched } from './operation.ts'

/** Options of `opentelemetry`. */
export interface OpenTelemetryOptions {
  /**
   * How an attempt is connected with the publish of its message: by a link, from a trace of its own, or as a part of the same trace.
   * With `parent`, a message that is tried often or handled by many consumers makes a large trace. @default 'link'
   */
  readonly consume?: 'link' | 'parent'
  /** Whether to export metrics. @default true */
  readonly metrics?: boolean
  /** @default the one that is registered globally, also if that happens later */
  readonly tracerProvider?: TracerProvider
  /** @default the one that is registered globally, also if that happens later */
  readonly meterProvider?: MeterProvider
}

/** An instrument for `createHapax({ instrument })`. */
export function opentelemetry(options: OpenTelemetryOptions = {}): Instrument {
  noOthers('options of opentelemetry', options, ['consume', 'metrics', 'tracerProvider', 'meterProvider'])
  const { tracerProvider, meterProvider } = options
  if (tracerProvider !== undefined) able('tracerProvider', 'a TracerProvider', tracerProvider, ['getTracer'])
  if (meterProvider !== undefined) able('meterProvider', 'a MeterProvider', meterProvider, ['getMeter'])
  const consume = oneOf('consume', ['link', 'parent'], options.consume, 'link')
  return new OpenTelemetry(consume === 'parent', flag('metrics', options.metrics, true), tracerProvider, meterProvider)
}

class OpenTelemetry implements Instrument {
  /** With links, the span of a group says all about its handlers. */
  readonly operations: readonly Operation[]
  readonly #telling: Telling
  /** Undefined: nothing is measured. */
  readonly #meters: Meters | undefined
  /** The context of a publish while its message is made: an SDK without a context manager has no other way to tell. */
  #publishing: Context | undefined
  #redact: Redact = (text) => text

  constructor(
    continues: boolean,
    metrics: boolean,
    tracers: TracerProvider | undefined,
    meters: MeterProvider | undefined,
  ) {
    const named = new Named(systemNames())
    this.operations = continues ? [...WATCHED, 'handle'] : WATCHED
    this.#meters = metrics ? new Meters(meters) : undefined
    this.#telling = {
      tracer: tracerOf(tracers),
      named,
      durations: new Durations(this.#meters, named),
      errorTypes: new ErrorTypes(),
      continues,
      redact: () => this.#redact,
    }
  }

  listen(events: Events, redact: Redact): void {
    // Of several hapaxes, each with rules of its own, all apply: nobody knows whose error it is.
    const before = this.#redact
    this.#redact = (text) => redact(before(text))
    if (this.#meters === undefined) return
    const measuring = measure(events, new MeterSink(this.#meters, () => measuring.collect()))
  }

  capture(): TraceContext | undefined {
    return traceContextOf(this.#publishing)
  }

  around<T>(operation: Operation, facts: Facts, work: (running: Running) => T): T {
    this.#meters?.look()
    if (operation === 'upkeep') return context.with(UPKEEP_CONTEXT, work, undefined, UNWATCHED)
    if (operation === 'handle') return handleEach(this.#telling, facts, () => work(UNWATCHED))
    const active = context.active()
    const place = operation === 'process' ? { ...facts, ...receivedFrom(active) } : facts
    const watched = new Watched(this.#telling, operation, place, active)
    const before = this.#publishing
    this.#publishing = operation === 'publish' ? watched.inner : before
    try {
      return ended(watched, context.with(watched.inner, work, undefined, watched))
    } catch (error) {
      watched.end({ error })
      throw error
    } finally {
      this.#publishing = before
    }
  }
}

/** Ends an operation when its work has ended. */
function ended<T>(watched: Watched, result: T): T {
  if (result instanceof Promise) {
    const ending = result.then(
      () => watched.end(),
      (error: unknown) => watched.end({ error }),
    )
    ending.catch(notEnded)
  } else watched.end()
  return result
}

/** The tracer of the provider that is there now. The API's own tracer finds one that is registered later. */
function tracerOf(given: TracerProvider | undefined): () => Tracer {
  let provider = given ?? trace.getTracerProvider()
  let tracer = provider.getTracer('hapax', VERSION)
  return () => {
    const current = given ?? trace.getTracerProvider()
    if (current === provider) return tracer
    provider = current
    tracer = provider.getTracer('hapax', VERSION)
    return tracer
  }
}

const VERSION = version()

const WATCHED: readonly Operation[] = ['publish', 'relay', 'receive', 'process', 'settle', 'effect', 'http', 'upkeep']

/** An operation without a span. */
const UNWATCHED: Running = { add: () => {}, enter: (work) => work(), end: () => {} }
