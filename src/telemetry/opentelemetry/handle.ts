import { context, type Span, SpanKind, trace } from '@opentelemetry/api'
import type { Facts } from '../../base/index.ts'
import { remoteContext, spanContextOf } from './context.ts'
import { failSpan, notEnded } from './errors.ts'
import { messageAttributes, spanName } from './names.ts'
import type { Telling } from './operation.ts'

/**
 * Calls a handler in a group, with parents instead of links: each message has a span in its own trace, linked to the one of the group;
 * a handler of one message runs inside it.
 */
export function handleEach<T>(telling: Telling, facts: Facts, call: () => T): T {
  const spans = spansOf(telling, facts)
  const [first] = spans
  const inner = spans.length === 1 && first !== undefined ? trace.setSpan(context.active(), first) : context.active()
  const end = (error?: { readonly thrown: unknown }): void => {
    for (const span of spans) {
      if (error !== undefined) failSpan(span, error.thrown, telling.errorTypes.of(error.thrown), telling.redact())
      span.end()
    }
  }
  try {
    const result = context.with(inner, call)
    if (result instanceof Promise) {
      const ending = result.then(
        () => end(),
        (thrown: unknown) => end({ thrown }),
      )
      ending.catch(notEnded)
    } else end()
    return result
  } catch (thrown) {
    end({ thrown })
    throw thrown
  }
}

function spansOf({ tracer, named }: Telling, facts: Facts): readonly Span[] {
  const active = context.active()
  const group = spanContextOf(active)
  return [...(facts.messages ?? [])].map((message) => {
    const remote = remoteContext(message.trace)
    const attributes = { ...named.of('handle', facts), ...messageAttributes(message) }
    const links = group === undefined || remote === undefined ? [] : [{ context: group }]
    const parent = remote === undefined ? active : trace.setSpanContext(active, remote)
    return tracer().startSpan(spanName('handle', facts), { kind: SpanKind.CONSUMER, attributes, links }, parent)
  })
}
