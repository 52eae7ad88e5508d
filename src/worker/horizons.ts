import type { Horizon } from '../base/index.ts'
import type { ConsumerSettings } from '../consumer/index.ts'
import type { SubscriptionLine } from './lines/subscription.ts'
import { retrySpanMs } from './options.ts'

/** A consumer, as far as its horizons go. */
export interface Kept {
  readonly name: string
  readonly settings: Pick<ConsumerSettings, 'retentionMs' | 'retry'>
  /** For how long the providers of its webhooks send an event again. */
  readonly resendsForMs: number
}

/** A reader, as far as they go. */
export type Fed = Pick<SubscriptionLine, 'horizon'>

/** How long receipts are kept, and for how long its broker, its webhooks or its own retries may bring a message again. */
export function horizonsOf(consumers: readonly Kept[], readers: readonly Fed[]): readonly Horizon[] {
  return consumers.map(({ name, settings, resendsForMs }) => {
    const { retentionMs, retry } = settings
    const brokers = readers.map(({ horizon }) => horizon).filter(({ consumer }) => consumer === name)
    return {
      consumer: name,
      retentionMs: retentionMs === 'forever' ? Number.POSITIVE_INFINITY : retentionMs,
      redeliveryMs: Math.max(
        retrySpanMs(retry),
        resendsForMs,
        ...brokers.flatMap(({ redeliveryMs }) => redeliveryMs ?? []),
      ),
    }
  })
}
