import type { Destination, Subscription } from '../../contracts/index.ts'
import type { EventFormat } from '../../message/index.ts'

/** What some cases need beyond the contract; `cannot` says why one of them is not to be had. */
export type BrokerNeed =
  /** Links that `cut`, `away` and `back` can break. */
  | 'cutting links'
  /** Links that `freeze` and `thaw` can make silent. */
  | 'freezing links'
  /** One reader at a time: `subscription(…, { single: true })`. */
  | 'single reader'
  /** A destination where no message finds a place: `destination({ unroutable: true })`. */
  | 'unroutable'
  /** How many messages wait: `waiting`. */
  | 'counting'
  /** Two readers of one group share the messages one by one, not by partition. */
  | 'sharing'
  /** A message that is larger than the broker takes: `largestBytes`. */
  | 'too large'
  /** A client that is not hapax: `send` and `receive`. */
  | 'plain client'
  /** Acks of single messages; else everything behind the first that is not acked comes again. */
  | 'single acks'
  /** What is in hand belongs to the link, and comes again when it is cut; else it stays in hand, and can still be acked. */
  | 'links hold messages'
  /** A reader that keeps to `prefetch.bytes` whatever the sizes are; else it only comes near it. */
  | 'byte limits'

/** The times of a place: a few seconds for a case that waits until one has run out, else longer than a busy machine stands still. */
export interface PlaceTimes {
  /** A link that has been silent for about so long is given up. */
  readonly silenceMs: number
  /** What a reader neither answers nor speaks of any more goes to another one after about so long. */
  readonly returnMs: number
}

/** How the suite reaches a broker. Members that `cannot` rules out are never called. */
export interface BrokerHarness {
  readonly name: string
  /** What this broker cannot do, each with the reason. */
  readonly cannot: Readonly<Partial<Record<BrokerNeed, string>>>
  /** A place of its own (an exchange, a stream, a topic), through a proxy where links can be cut. */
  open(times: PlaceTimes): Promise<TestBroker>
}

/** A message as the plain client of the broker sends or receives it. */
export interface RawMessage {
  readonly body: Uint8Array
  readonly contentType?: string
  /** Of CloudEvents, without the protocol's prefix. */
  readonly attributes?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** As the page of the broker names them. */
  readonly properties?: Readonly<Record<string, string>>
}

/** A place of a broker, fresh for one case. */
export interface TestBroker {
  /** Sends to the place. */
  destination(options?: { readonly unroutable?: boolean; readonly format?: EventFormat }): Destination
  /** Every group gets every message that is sent after the first call for this group; the same group is the same queue. */
  subscription(group: string, options?: { readonly single?: boolean }): Promise<Subscription>
  /**
   * Another place, where only that exists which a broker leaves to operators: a topic of Kafka, nothing of the others. Both sides are as
   * two processes have them that know nothing of each other.
   */
  untouched(): Promise<{ readonly destination: Destination; readonly subscription: Subscription }>
  /** Sends with the plain client, past hapax. */
  send(message: RawMessage): Promise<void>
  /** What the plain client finds in a group's queue, taken away with ack; waits until there are `count`. */
  receive(group: string, count: number): Promise<readonly RawMessage[]>
  /** How many messages of this group are not acked, delivered or not. */
  waiting(group: string): Promise<number>
  /** Breaks the links of what was opened here; new ones are possible at once. */
  cut(): Promise<void>
  /** Breaks the links and refuses new ones until `back`. */
  away(): Promise<void>
  back(): Promise<void>
  /** Swallows every byte in both directions without closing (half-open), until `thaw`. */
  freeze(): Promise<void>
  thaw(): Promise<void>
  /** More bytes than the broker takes in one message. */
  readonly largestBytes: number
  close(): Promise<void>
}
