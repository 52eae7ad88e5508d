import type { Destination, Encode, Subscription } from '../../contracts/index.ts'
import type { EventFormat } from '../../message/index.ts'

/** What some cases need beyond the broker contract. A harness lists in `cannot` what its broker lacks, with the reason. */
export type BrokerNeed =
  /** Connections that `cut`, `away` and `back` can break. */
  | 'cutting links'
  /** Connections that `freeze` and `thaw` can silence. */
  | 'freezing links'
  /** One reader at a time: `subscription(…, { single: true })`. */
  | 'single reader'
  /** A destination that cannot route any message: `destination({ unroutable: true })`. */
  | 'unroutable'
  /** How many messages wait: `waiting`. */
  | 'counting'
  /** Two readers of one group share the messages individually, not by partition. */
  | 'sharing'
  /** A message larger than the broker accepts: `largestBytes`. */
  | 'too large'
  /** A client that is not hapax: `send` and `receive`. */
  | 'plain client'
  /** Acks of single messages. Without it, everything after the first unacked message is redelivered. */
  | 'single acks'
  /** Messages in hand belong to the connection and are redelivered when it is cut. Without it, they stay and can still be acked. */
  | 'links hold messages'
  /** A reader that never exceeds `prefetch.bytes`. Without it, the limit is approximate. */
  | 'byte limits'

/** The timeouts of a place: a few seconds if the case waits for one to expire, otherwise longer than a busy machine may stall. */
export interface PlaceTimes {
  /** After how long a silent connection is given up, approximately. */
  readonly silenceMs: number
  /** After how long the unsettled messages of a silent reader go to another one, approximately. */
  readonly returnMs: number
}

/** How the suite reaches a broker. Members that `cannot` rules out are never called. */
export interface BrokerHarness {
  readonly name: string
  /** What this broker cannot do, each with the reason. */
  readonly cannot: Readonly<Partial<Record<BrokerNeed, string>>>
  /** Opens a fresh place (an exchange, a stream, a topic), through a proxy if connections can be cut. */
  open(times: PlaceTimes): Promise<TestBroker>
}

/** A message as the plain client of the broker sends or receives it. */
export interface RawMessage {
  readonly body: Uint8Array
  readonly contentType?: string
  /** CloudEvents attributes, without the prefix of the protocol. */
  readonly attributes?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** Properties of the protocol, as the documentation of the broker names them. */
  readonly properties?: Readonly<Record<string, string>>
}

/** How a case sends. */
export interface DestinationOptions {
  readonly unroutable?: boolean
  readonly encode?: Encode
  readonly format?: EventFormat
}

/** A place of a broker, fresh for one case. */
export interface TestBroker {
  /** Sends to the place. */
  destination(options?: DestinationOptions): Destination
  /** Every group gets every message sent after the first call for that group. Calls with the same group share one queue. */
  subscription(group: string, options?: { readonly single?: boolean }): Promise<Subscription>
  /**
   * Another place, where only that exists which operators must create: a topic on Kafka, nothing on the others. Both sides are
   * independent, as in two processes.
   */
  untouched(): Promise<{ readonly destination: Destination; readonly subscription: Subscription }>
  /** Sends with the plain client, without hapax. */
  send(message: RawMessage): Promise<void>
  /** Receives and acks the messages of a group's queue with the plain client; waits until there are `count`. */
  receive(group: string, count: number): Promise<readonly RawMessage[]>
  /** How many messages of this group are not acked yet, delivered or not. */
  waiting(group: string): Promise<number>
  /** Breaks the connections of what was opened here; new ones are possible at once. */
  cut(): Promise<void>
  /** Breaks the connections and refuses new ones until `back`. */
  away(): Promise<void>
  back(): Promise<void>
  /** Drops every byte in both directions without closing (half-open), until `thaw`. */
  freeze(): Promise<void>
  thaw(): Promise<void>
  /** More bytes than the broker accepts in one message. */
  readonly largestBytes: number
  close(): Promise<void>
}
