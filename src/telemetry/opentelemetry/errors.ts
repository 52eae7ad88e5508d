import { diag, type Span, SpanStatusCode } from '@opentelemetry/api'
import { asError, isHapaxError, type Redact, recordError } from '../../base/index.ts'

/** What an error is called where few different names are allowed: the code of hapax, or the name of its class. */
export class ErrorTypes {
  readonly #known = new Set<string>()

  of(thrown: unknown): string {
    const name = nameOf(thrown)
    if (this.#known.has(name)) return name
    if (this.#known.size >= MOST_TYPES || !/^[\w$.:-]{1,64}$/.test(name)) return OTHER
    this.#known.add(name)
    return name
  }
}

/** What the conventions call everything else. */
const OTHER = '_OTHER'
/** Names of errors are labels: an application that makes them up must not make a series of each. */
const MOST_TYPES = 100

function nameOf(thrown: unknown): string {
  if (isHapaxError(thrown)) return thrown.code
  try {
    const { name } = asError(thrown)
    return typeof name === 'string' ? name : OTHER
  } catch {
    // A getter that throws.
    return OTHER
  }
}

/** Marks a span as failed. Texts of errors are redacted as they are everywhere else. */
export function failSpan(span: Span, thrown: unknown, type: string, redact: Redact): void {
  const { name, message, stack } = recordError(thrown, redact)
  span.setStatus({ code: SpanStatusCode.ERROR, message })
  span.setAttribute('error.type', type)
  span.addEvent('exception', {
    'exception.type': name,
    'exception.message': message,
    ...(stack !== undefined && { 'exception.stacktrace': stack }),
  })
}

/** A processor of spans threw. Nobody waits for the end of a span, and it must not end the process. */
export function notEnded(thrown: unknown): void {
  diag.error('hapax: the end of a span failed', thrown)
}
