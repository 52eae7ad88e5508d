import type { Attributes, Context, Counter, Histogram, Meter } from '@opentelemetry/api'
import type { Facts, Findings, Operation } from '../../base/index.ts'
import type { Meters } from './meters.ts'
import type { Named } from './names.ts'

/** The metrics of OpenTelemetry's conventions for messaging. */
interface Instruments {
  readonly operation: Histogram
  readonly process: Histogram
  readonly sent: Counter
  readonly consumed: Counter
}

/** How an operation ended. */
interface Ended {
  readonly ms: number
  readonly errorType: string | undefined
  readonly found: Findings
  readonly inner: Context
}

/** Measures operations, whether their spans are sampled or not. */
export class Durations {
  readonly #named: Named
  #instruments: Instruments | undefined

  /** Undefined: nothing is measured. */
  constructor(meters: Meters | undefined, named: Named) {
    this.#named = named
    meters?.whenFound((meter) => {
      this.#instruments = instrumentsOf(meter)
    })
  }

  /** An operation has ended. Its context lets the SDK keep an example of its trace. */
  record(operation: Operation, facts: Facts, { ms, errorType, found, inner }: Ended): void {
    const instruments = this.#instruments
    if (instruments === undefined) return
    const common = this.#named.of(operation, facts)
    const attributes: Attributes = errorType === undefined ? common : { ...common, 'error.type': errorType }
    const histogram = operation === 'process' ? instruments.process : instruments.operation
    histogram.record(ms / 1_000, attributes, inner)
    const size = found.messages?.size ?? 0
    if (size === 0) return
    if (operation === 'relay') instruments.sent.add(size, attributes)
    if (operation === 'receive' || facts.stored) instruments.consumed.add(size, attributes)
  }
}

/** As the conventions recommend. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

function instrumentsOf(meter: Meter): Instruments {
  const seconds = (description: string): Parameters<Meter['createHistogram']>[1] => ({
    description,
    unit: 's',
    advice: { explicitBucketBoundaries: BOUNDS },
  })
  const messages = (description: string): Parameters<Meter['createCounter']>[1] => ({ description, unit: '{message}' })
  return {
    operation: meter.createHistogram(
      'messaging.client.operation.duration',
      seconds('Duration of messaging operations of this process.'),
    ),
    process: meter.createHistogram('messaging.process.duration', seconds('Duration of processing operations.')),
    sent: meter.createCounter('messaging.client.sent.messages', messages('Messages that were sent to a broker.')),
    consumed: meter.createCounter(
      'messaging.client.consumed.messages',
      messages('Messages that were delivered to the application.'),
    ),
  }
}
