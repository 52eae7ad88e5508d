import { context, type Span, SpanKind, SpanStatusCode, type TracerProvider as Tracers, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { onTestFinished } from 'vitest'

/** A link, by where it leads. */
interface SeenLink {
  /** The id of the span that it leads to. */
  readonly to: string
  readonly trace: string
  readonly attributes: Readonly<Record<string, unknown>>
}

/** A span as tests look at it. */
export interface SeenSpan {
  readonly name: string
  readonly kind: string
  readonly id: string
  readonly trace: string
  readonly parent: string | undefined
  readonly links: readonly SeenLink[]
  readonly attributes: Readonly<Record<string, unknown>>
  readonly failed: boolean
  readonly status: string | undefined
  readonly events: readonly string[]
  readonly durationMs: number
}

/** An SDK that keeps spans in memory, and a context manager. */
export class Tracing {
  readonly exporter = new InMemorySpanExporter()
  readonly provider: TracerProvider = new TracerProvider({
    spanProcessors: [new SimpleSpanProcessor({ exporter: this.exporter })],
  })

  /** Contexts follow asynchronous calls until the end of the test. */
  static open(): Tracing {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    onTestFinished(() => context.disable())
    return new Tracing()
  }

  /** The spans that have ended, in the order of their ends. */
  get spans(): readonly SeenSpan[] {
    return this.exporter.getFinishedSpans().map(seen)
  }

  /** Those whose name begins like this. */
  named(name: string): readonly SeenSpan[] {
    return this.spans.filter((span) => span.name === name || span.name.startsWith(`${name} `))
  }

  /** Runs work in a span of the application. */
  async inSpan<T>(name: string, work: (span: Span) => Promise<T>): Promise<T> {
    return (this.provider as Tracers).getTracer('test').startActiveSpan(name, async (span) => {
      try {
        return await work(span)
      } finally {
        span.end()
      }
    })
  }

  /** How many spans each trace has. */
  get sizes(): readonly number[] {
    const sizes = new Map<string, number>()
    for (const { trace: id } of this.spans) sizes.set(id, (sizes.get(id) ?? 0) + 1)
    return [...sizes.values()]
  }
}

function seen(span: ReadableSpan): SeenSpan {
  const { traceId, spanId } = span.spanContext()
  return {
    name: span.name,
    kind: SpanKind[span.kind] ?? '',
    id: spanId,
    trace: traceId,
    parent: span.parentSpanContext?.spanId,
    links: span.links.map(({ context: to, attributes }) => ({
      to: to.spanId,
      trace: to.traceId,
      attributes: attributes ?? {},
    })),
    attributes: span.attributes,
    failed: span.status.code === SpanStatusCode.ERROR,
    status: span.status.message,
    events: span.events.map(({ name }) => name),
    durationMs: span.duration[0] * 1_000 + span.duration[1] / 1e6,
  }
}

/** The id of the current span. */
export function currentSpan(): string | undefined {
  return trace.getSpanContext(context.active())?.spanId
}
