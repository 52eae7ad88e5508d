import { asError, HapaxError, isRefusal } from '../base/index.ts'
import { outcome, ref } from '../consumer/index.ts'
import type { Address, Confirmation, Destination, Endpoint, EndpointDestination, Settle } from '../contracts/index.ts'
import { deliveriesName, type OutgoingMessage, type StoredMessage, spreadMessages } from '../message/index.ts'
import { atOnce, committedInbox, type Engine, GRACE_MS, persist } from '../transaction/index.ts'
import { wants } from './directory.ts'

/** A message that waits to be spread. */
interface Item {
  readonly message: OutgoingMessage
  /** Aborted: the relay has given up the call that it came with. */
  readonly signal: AbortSignal
  settle(confirmation: Confirmation): void
}

/** A message and its copies. */
interface Spreading {
  readonly item: Item
  readonly copies: readonly StoredMessage[]
}

/**
 * Where a relay with registered endpoints sends its messages: into the inbox of the consumer that delivers them, one copy for each
 * endpoint that wants them. A message that is spread again, after a crash for example, finds the receipts of its copies.
 */
export class Spread<Tx> implements Destination {
  readonly name: string
  readonly address: Address
  /** Messages are spread one after the other, and after one that failed those behind it fail too. */
  readonly features: Destination['features'] = { keepsOrder: true }
  readonly #engine: Engine<Tx>
  readonly #relay: string
  readonly #consumer: string
  readonly #driver: Pick<EndpointDestination, 'prepare' | 'close'>
  readonly #waiting: Item[] = []
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

  publish(messages: readonly OutgoingMessage[], signal: AbortSignal, settle: Settle): void {
    for (const [index, message] of messages.entries()) {
      this.#waiting.push({ message, signal, settle: (confirmation) => settle(index, confirmation) })
    }
    if (!this.#working) void this.#work()
  }

  async #work(): Promise<void> {
    this.#working = true
    while (this.#waiting.length > 0) {
      try {
        await this.#spreadFirst()
      } catch (error) {
        // All that waits: it may be of the same keys.
        for (const { settle } of this.#waiting.splice(0)) settle(unavailable(error))
      }
    }
    this.#working = false
  }

  /** Spreads and confirms the first of those that wait, as many as one transaction should store: with many endpoints, all take too long. */
  async #spreadFirst(): Promise<void> {
    const endpoints = (await this.#engine.store.endpoints.list(this.#relay)).filter(({ enabled }) => enabled)
    const first = firstOf(this.#waiting, endpoints)
    if (first.some(({ item }) => item.signal.aborted)) throw tooLate()
    try {
      await this.#store(first.flatMap(({ copies }) => copies))
    } catch (error) {
      if (!isRefusal(error)) throw error
      return this.#spreadEach(first)
    }
    for (const each of first) this.#settle(each)
  }

  /** The store refuses one of them. Nothing is spread after it, because that may be of its key. */
  async #spreadEach(first: readonly Spreading[]): Promise<void> {
    for (const each of first) {
      try {
        await this.#store(each.copies)
      } catch (error) {
        if (isRefusal(error)) this.#settle(each, { status: 'refused', error })
        throw error
      }
      this.#settle(each)
    }
  }

  /** The first of those that wait has been spread. */
  #settle(
    { item, copies }: Spreading,
    confirmation: Confirmation = this.#confirmed(item.message, copies.length),
  ): void {
    this.#waiting.shift()
    item.settle(confirmation)
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

/** The first of those that wait, with their copies, up to what one transaction stores. */
function firstOf(waiting: readonly Item[], endpoints: readonly Endpoint[]): readonly Spreading[] {
  const first: Spreading[] = []
  let [rows, bytes] = [0, 0]
  for (const item of waiting) {
    const { data, type } = item.message
    const wanting = endpoints.filter((endpoint) => wants(endpoint, type))
    rows += wanting.length
    bytes += wanting.length * data.byteLength
    if (first.length > 0 && (rows > PART || bytes > PART_BYTES)) break
    const ids = wanting.map(({ id }) => id)
    first.push({ item, copies: spreadMessages(ids, item.message) })
  }
  return first
}

/** Bounded, because one large message for many endpoints may be more than a database takes at once. */
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

/** What the relay has given up is sent by it again: if it were spread now, that would be done twice. */
function tooLate(): HapaxError {
  return new HapaxError(
    'broker-timeout',
    'the relay has stopped waiting before its messages were spread to all endpoints',
  )
}

function unavailable(error: unknown): Confirmation {
  return { status: 'unavailable', error: asError(error) }
}

/** How much one transaction stores. */
const PART = 1_000
const PART_BYTES = 4 * 1024 * 1024
const TIMES = { lockTimeoutMs: 10_000, idleTimeoutMs: 10_000 + GRACE_MS }
