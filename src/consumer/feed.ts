import { able, nameText, noOthers, object, positiveInteger } from '../base/index.ts'
import type { Outcome, Source, SourceOptions, Subscription } from '../contracts/index.ts'
import { checkMapping, type IncomingMessage, MAX_TEXT_BYTES } from '../message/index.ts'
import type { ConsumerCore } from './consumer.ts'
import type { GroupSize } from './group-size.ts'
import type { ConsumerSettings } from './options.ts'

/** A consumer as a subscription sees it; it exists on stores with transactions and on claim stores. */
export interface Fed {
  readonly name: string
  /** The types that it handles, and `OTHERS` if it handles unknown ones. */
  readonly served: readonly string[]
  /** How many messages may be handed over together. */
  readonly groups: Pick<GroupSize, 'size' | 'next'>
  /** Whether messages of one key take effect in their order. */
  readonly ordered: boolean
  readonly settings: Pick<ConsumerSettings, 'receive' | 'timeoutMs' | 'retentionMs'>
  /** `signal` tells the handlers to stop. */
  handleMany(messages: readonly IncomingMessage[], signal?: AbortSignal): Promise<readonly Outcome[]>
}

/** A consumer together with the subscription that feeds it: the result of `consumer.from`. */
export class Feed<Tx, C extends Fed = ConsumerCore<Tx>> implements Source<Tx> {
  readonly consumer: C
  readonly subscription: Subscription
  readonly options: SourceOptions

  constructor(consumer: C, subscription: Subscription, options: SourceOptions) {
    noOthers('options of from', options, ['prefetch', 'prefetchBytes', 'id', 'type', 'source', 'key'])
    able('subscription', 'a subscription, for example a queue of a broker', subscription, ['open'])
    for (const name of ['prefetch', 'prefetchBytes'] as const) positiveInteger(name, options[name], 1)
    nameText('name of the subscription', subscription.name, MAX_TEXT_BYTES)
    object(`features of ${subscription.name}`, subscription.features)
    this.consumer = consumer
    this.subscription = subscription
    this.options = checkMapping(options)
  }
}
