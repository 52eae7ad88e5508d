import { asError, HapaxError, isRefusal } from '../base/index.ts'
import { outcome, ref } from '../consumer/index.ts'
import type { Address, Confirmation, Destination, Endpoint, EndpointDestination, Settle } from '../contracts/index.ts'
import { deliveriesName, type OutgoingMessage, type StoredMessage, spreadMessage } from '../message/index.ts'
import { atOnce, committedInbox, type Engine, GRACE_MS, persist } from '../transaction/index.ts'
import { wants } from './directory.ts'

/** Messages that a relay sends together. */
interface Call {
  readonly messages: readonly OutgoingMessage[]
  readonly settle: Settle
}

/**
 * Where a relay with registered endpoints sends its messages: into the inbox of the consumer that delivers them, one copy for each
 * endpoint that wants them. A message that is spread again, after a crash for example, finds the receipts of its copies.
 */
export class Spread<Tx> implements Destination {
  readonly name: string
  readonly address: Address
  /** Calls are spread one after the other, and after one that failed those behind it fail too. */
  readonly features: Destination['features'] = { keepsOrder: true }
  readonly #engine: Engine<Tx>
  readonly #relay: string
  readonly #consumer: string
  readonly #driver: Pick<EndpointDestination, 'prepare' | 'close'>
  readonly #waiting: Call[] = []
  #working = false

  constructor(engine: Engine<Tx>, relay: string, driver: Pick<EndpointDestination, 'name' | 'prepare' | 'close'>) {
    this.name = driver.name
    this.address = { system: 'webhooks', name: driver.name }
    this.#engine = engine
    this.#relay = relay
    this.#consumer = deliveriesName(relay)
    this.#driver = driver
  }

  prepare(): Promise<void> {
    return this.#driver.prepare()
  }

  close(): Promise<void> {
    return this.#driver.close()
  }

  publish(messages: readonly OutgoingMessage[], _signal: AbortSignal, settle: Settle): void {
    this.#waiting.push({ messages, settle })
    if (!this.#working) void this.#work()
  }

  async #work(): Promise<void> {
    this.#working = true
    while (this.#waiting.length > 0) {
      const calls = this.#waiting.splice(0)
      try {
        await this.#spread(calls)
      } catch (error) {
        // What has come meanwhile may be of the same keys.
        for (const call of [...calls, ...this.#waiting.splice(0)]) settleAll(call, unavailable(error))
      }
    }
    this.#working = false
  }

  async #spread(calls: readonly Call[]): Promise<void> {
    const endpoints = (await this.#engine.store.endpoints.list(this.#relay)).filter(({ enabled }) => enabled)
    const items = calls.flatMap((call) => call.messages.map((message, index) => ({ call, index, message })))
    const copies = items.map(({ message }) => copiesOf(message, endpoints))
    try {
      await this.#store(copies.flat())
    } catch (error) {
      if (!isRefusal(error)) throw error
      return this.#spreadEach(items, copies)
    }
    for (const [at, { call, index, message }] of items.entries()) {
      call.settle(index, this.#confirmed(message, copies[at]?.length ?? 0))
    }
  }

  /** The store refuses one of them. Nothing is spread after it, because that may be of its key. */
  async #spreadEach(
    items: readonly { readonly call: Call; readonly index: number; readonly message: OutgoingMessage }[],
    copies: readonly (readonly StoredMessage[])[],
  ): Promise<void> {
    for (const [at, { call, index, message }] of items.entries()) {
      const own = copies[at] ?? []
      try {
        await this.#store(own)
      } catch (error) {
        if (isRefusal(error)) call.settle(index, { status: 'refused', error })
        throw error
      }
      call.settle(index, this.#confirmed(message, own.length))
    }
  }

  #confirmed({ type }: OutgoingMessage, copies: number): Confirmation {
    if (copies > 0) return { status: 'confirmed' }
    const what = `no enabled endpoint of the relay ${this.#relay} wants messages of the type ${type}`
    return { status: 'confirmed', dropped: new HapaxError('unroutable', what) }
  }

  /** A part of the copies may be committed without the rest: then the message is spread again. */
  async #store(copies: readonly StoredMessage[]): Promise<void> {
    const distinct = [...new Map(copies.map((copy) => [copy.messageKey, copy])).values()]
    for (const part of partsOf(distinct)) await this.#storePart(part)
  }

  async #storePart(messages: readonly StoredMessage[]): Promise<void> {
    const { store, random, events, wake } = this.#engine
    const consumer = this.#consumer
    const { existing } = await persist(this.#engine, () =>
      atOnce(this.#engine, TIMES, (options) =>
        store.inbox.store(options, { consumer, token: random.token(), messages, ordered: true, starts: 0 }),
      ),
    )
    const fresh = messages.filter(({ messageKey }) => !existing.has(messageKey))
    for (const message of fresh) events.emit('stored', () => ({ consumer, message: ref(message) }))
    const stored = fresh.map(() => outcome('stored'))
    if (fresh.length > 0) wake(committedInbox({ name: consumer, ordered: true }, fresh, stored))
  }
}

function copiesOf(message: OutgoingMessage, endpoints: readonly Endpoint[]): readonly StoredMessage[] {
  return endpoints.filter((endpoint) => wants(endpoint, message.type)).map(({ id }) => spreadMessage(id, message))
}

/** Bounded, because a large message for many endpoints would be more than a database takes at once. */
function partsOf(copies: readonly StoredMessage[]): readonly (readonly StoredMessage[])[] {
  const parts: StoredMessage[][] = []
  let part: StoredMessage[] = []
  let bytes = 0
  for (const copy of copies) {
    if (part.length === 0 || part.length >= PART || bytes + copy.data.byteLength > PART_BYTES) {
      part = []
      bytes = 0
      parts.push(part)
    }
    part.push(copy)
    bytes += copy.data.byteLength
  }
  return parts
}

function settleAll({ messages, settle }: Call, confirmation: Confirmation): void {
  for (const index of messages.keys()) settle(index, confirmation)
}

function unavailable(error: unknown): Confirmation {
  return { status: 'unavailable', error: asError(error) }
}

/** How much one transaction stores. */
const PART = 1_000
const PART_BYTES = 4 * 1024 * 1024
const TIMES = { lockTimeoutMs: 10_000, idleTimeoutMs: 10_000 + GRACE_MS }
