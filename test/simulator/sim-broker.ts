import { HapaxError, type IncomingMessage } from 'hapax'
import type {
  Confirmation,
  Delivery,
  Destination,
  Prefetch,
  Reader,
  Settle,
  Subscription,
} from '../../src/contracts/broker.ts'
import type { OutgoingMessage } from '../../src/message/cloudevents.ts'
import { arrivalOf } from '../../src/message/cloudevents.ts'
import type { Chaos } from './chaos.ts'
import type { Database } from './database.ts'
import type { Process, World } from './world.ts'

/** A message that a consumer acknowledged. */
export interface Ack {
  readonly consumer: string
  readonly source: string
  readonly id: string
  readonly at: number
}

/** A message that came to a destination. */
export interface Arrival {
  readonly relay: string
  readonly source: string
  readonly id: string
  readonly key: string | null
  readonly at: number
}

/** How a fake queue behaves. */
export interface QueueFeatures {
  readonly ordersKeys: boolean
  readonly marksRedelivered: boolean
}

interface Copy {
  readonly message: IncomingMessage
  reader: SimReader | undefined
  /** Counts deliveries; an ack is for one of them. */
  deliveries: number
  readyAt: number
}

/** How long it takes a broker to notice that a reader is silent. */
const READER_TIMEOUT_MS = 10_000

/** A queue of one consumer: it delivers again, in another order, more than once; acks get lost. */
export class SimQueue {
  readonly consumer: string
  readonly features: QueueFeatures
  readonly acks: Ack[] = []
  readonly offered: IncomingMessage[] = []
  readonly #world: World
  readonly #db: Database
  readonly #chaos: Chaos
  readonly #copies: Copy[] = []
  readonly #readers: SimReader[] = []
  #delivering = false

  constructor(world: World, db: Database, chaos: Chaos, consumer: string, features: QueueFeatures) {
    this.#world = world
    this.#db = db
    this.#chaos = chaos
    this.consumer = consumer
    this.features = features
  }

  /** How many copies are not acknowledged. */
  get size(): number {
    return this.#copies.length
  }

  add(message: IncomingMessage): void {
    if (!this.offered.some(({ source, id }) => source === message.source && id === message.id)) {
      this.offered.push(message)
    }
    this.#copies.push({ message, reader: undefined, deliveries: 0, readyAt: 0 })
    this.schedule()
  }

  subscription(process: Process): Subscription {
    const { ordersKeys, marksRedelivered } = this.features
    return {
      name: `queue of ${this.consumer}`,
      features: { ordersKeys, marksRedelivered, horizonMs: undefined, limitsRejects: undefined },
      open: async ({ prefetch, receive }) => {
        await process.call(`subscribes to the queue of ${this.consumer}`, () => {})
        const reader = new SimReader(this, process, prefetch, receive)
        this.#readers.push(reader)
        process.onDeath.push(() =>
          this.#world.add('the broker notices a dead reader', undefined, () => this.drop(reader)),
        )
        this.schedule()
        return reader
      },
    }
  }

  /** One step per delivery, as long as somebody can take one. */
  schedule(): void {
    if (this.#delivering || this.#candidates().length === 0) return
    this.#delivering = true
    this.#world.add(`the queue of ${this.consumer} delivers`, undefined, () => {
      this.#delivering = false
      this.#deliver()
      this.schedule()
    })
  }

  #candidates(): Copy[] {
    if (this.#free().length === 0) return []
    const ready = this.#copies.filter((copy) => copy.reader === undefined && copy.readyAt <= this.#world.now)
    return this.features.ordersKeys ? ready.slice(0, 1) : ready
  }

  /** Readers with room; where keys have an order, only the first reader gets anything. */
  #free(): SimReader[] {
    const readers = this.features.ordersKeys ? this.#readers.slice(0, 1) : this.#readers
    return readers.filter((reader) => reader.free)
  }

  #deliver(): void {
    const { choices } = this.#world
    const readers = this.#free()
    const reader = readers[choices.pick(readers.length)]
    if (reader === undefined) return
    const together = choices.exhaustive ? 1 : 1 + choices.pick(3)
    const copies: Copy[] = []
    for (let count = 0; count < together && reader.free; count++) {
      const candidates = this.#candidates()
      const copy = candidates[choices.pick(Math.min(3, candidates.length))]
      if (copy === undefined) break
      // A copy of its own: the broker does not know that it is one.
      if (!this.features.ordersKeys && this.#chaos.broker(['twice']) !== undefined) this.add(copy.message)
      reader.take(copy)
      copies.push(copy)
    }
    reader.give(copies)
  }

  /** Forgets a message for good, unless the ack was lost. */
  acked(reader: SimReader, copy: Copy, delivery: number): void {
    // What was taken from a reader that came back too late is no longer its own to ack.
    if (copy.reader === reader && copy.deliveries === delivery) {
      if (this.#chaos.broker(['ack lost']) === undefined) this.#copies.splice(this.#copies.indexOf(copy), 1)
      else this.#again(copy, 0)
    }
    this.schedule()
  }

  noteAck({ source, id }: IncomingMessage): void {
    this.acks.push({ consumer: this.consumer, source, id: String(id), at: this.#db.moment() })
  }

  putBack(reader: SimReader, copy: Copy, delivery: number, delayMs: number): void {
    if (copy.reader === reader && copy.deliveries === delivery) this.#again(copy, delayMs)
    this.schedule()
  }

  /** A reader is gone: what it had comes again. */
  drop(reader: SimReader): void {
    const index = this.#readers.indexOf(reader)
    if (index >= 0) this.#readers.splice(index, 1)
    for (const copy of this.#copies) if (copy.reader === reader) this.#again(copy, 0)
    this.schedule()
  }

  /** A reader that is silent for too long loses what it has; it may come back. */
  suspend(reader: SimReader): void {
    this.#world.after(READER_TIMEOUT_MS, 'the broker gives up a silent reader', undefined, () => {
      if (!reader.process.paused || !this.#readers.includes(reader)) return
      this.drop(reader)
      reader.process.onResume.push(() => {
        if (reader.open && !this.#readers.includes(reader)) this.#readers.push(reader)
        this.schedule()
      })
    })
  }

  #again(copy: Copy, delayMs: number): void {
    copy.reader = undefined
    copy.readyAt = this.#world.now + delayMs
    if (delayMs > 0) this.#world.after(delayMs, 'a message may be delivered again', undefined, () => this.schedule())
    else this.schedule()
  }
}

/** A reader of one process. */
class SimReader implements Reader {
  readonly process: Process
  readonly horizonMs = undefined
  open = true
  #paused = false
  readonly #queue: SimQueue
  readonly #prefetch: Prefetch
  readonly #receive: (deliveries: readonly Delivery[]) => void
  #inHand = 0

  constructor(
    queue: SimQueue,
    process: Process,
    prefetch: Prefetch,
    receive: (deliveries: readonly Delivery[]) => void,
  ) {
    this.#queue = queue
    this.process = process
    this.#prefetch = prefetch
    this.#receive = receive
    process.onPause.push(() => queue.suspend(this))
  }

  get free(): boolean {
    return this.open && !this.#paused && this.process.alive && this.#inHand < this.#prefetch.messages
  }

  take(copy: Copy): void {
    copy.reader = this
    copy.deliveries += 1
    this.#inHand += 1
  }

  give(copies: readonly Copy[]): void {
    const deliveries = copies.map((copy) => this.#delivery(copy))
    if (deliveries.length > 0) this.process.deliver('delivery', () => this.#receive(deliveries))
  }

  #delivery(copy: Copy): Delivery {
    const { message, deliveries } = copy
    const redelivered = this.#queue.features.marksRedelivered && deliveries > 1
    let settled = false
    const settle = (label: string, arrive: () => void): void => {
      if (settled) throw new Error(`expected ${message.id} to be settled once, got a second time`)
      settled = true
      this.#inHand -= 1
      this.process.world.add(`${label} of ${message.id} arrives`, this.process, arrive, true)
    }
    const again = (delayMs: number): void => settle('retry', () => this.#queue.putBack(this, copy, deliveries, delayMs))
    return {
      arrival: arrivalOf(message, redelivered),
      bytes: 10,
      ack: () => {
        this.#queue.noteAck(message)
        settle('ack', () => this.#queue.acked(this, copy, deliveries))
      },
      retry: again,
      reject: again,
    }
  }

  async pause(): Promise<void> {
    this.#paused = true
  }

  async close(): Promise<void> {
    this.open = false
    await this.process.call('closes its subscription', () => this.#queue.drop(this))
  }
}

/** Where a relay sends: confirms come late and in any order, or not at all. */
export class SimDestination {
  readonly name: string
  readonly relay: string
  readonly keepsOrder: boolean
  readonly arrivals: Arrival[] = []
  /** Whether the broker will never take this message. */
  refuses: (id: string) => boolean = () => false
  onArrival: (message: OutgoingMessage) => void = () => {}
  readonly #db: Database
  readonly #chaos: Chaos
  #downUntil = 0

  constructor(db: Database, chaos: Chaos, relay: string, keepsOrder: boolean) {
    this.#db = db
    this.#chaos = chaos
    this.name = `exchange of ${relay}`
    this.relay = relay
    this.keepsOrder = keepsOrder
  }

  for(process: Process): Destination {
    return {
      name: this.name,
      features: { keepsOrder: this.keepsOrder },
      prepare: async () => {},
      publish: (messages, signal, settle) => this.#publish(new Batch(this, process, messages, signal, settle)),
      close: async () => {},
    }
  }

  #publish(batch: Batch): void {
    if (this.keepsOrder) batch.sendNext(0)
    else for (let index = 0; index < batch.size; index++) batch.send(index, () => {})
  }

  /** The broker looks at one message: takes it or not, and answers or not. */
  take(message: OutgoingMessage): { sent: Confirmation; taken: boolean } {
    const { now } = this.#db.world
    if (now < this.#downUntil) return { sent: UNAVAILABLE, taken: false }
    if (this.refuses(message.id)) return { sent: { status: 'refused', error: new Error('too large') }, taken: false }
    const fault = this.#chaos.broker(['nack', 'confirm lost', 'request lost', 'down'] as const)
    if (fault !== undefined) this.#db.world.note(`  the broker's fault: ${fault}`)
    if (fault === 'down') this.#downUntil = now + DOWN_MS
    if (fault === 'nack') return { sent: { status: 'failed', error: new Error('nack') }, taken: false }
    if (fault === 'request lost' || fault === 'down') return { sent: UNAVAILABLE, taken: false }
    this.#arrive(message)
    return fault === 'confirm lost'
      ? { sent: UNAVAILABLE, taken: true }
      : { sent: { status: 'confirmed' }, taken: true }
  }

  #arrive(message: OutgoingMessage): void {
    const { source, id, key = null } = message
    this.arrivals.push({ relay: this.relay, source, id, key, at: this.#db.moment() })
    this.onArrival(message)
  }
}

/** Messages that were sent together. */
class Batch {
  readonly #destination: SimDestination
  readonly #process: Process
  readonly #messages: readonly OutgoingMessage[]
  readonly #settle: Settle
  /** With order, nothing is taken after a message that was not. */
  #broken: Confirmation | undefined

  constructor(
    destination: SimDestination,
    process: Process,
    messages: readonly OutgoingMessage[],
    signal: AbortSignal,
    settle: Settle,
  ) {
    this.#destination = destination
    this.#process = process
    this.#messages = messages
    const settled = new Set<number>()
    this.#settle = (index, sent) => {
      if (!settled.has(index)) settle(index, sent)
      settled.add(index)
    }
    const end = (): void => {
      for (const index of messages.keys()) this.#settle(index, UNAVAILABLE)
    }
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
  }

  get size(): number {
    return this.#messages.length
  }

  sendNext(index: number): void {
    if (index < this.#messages.length) this.send(index, () => this.sendNext(index + 1))
  }

  send(index: number, then: () => void): void {
    const message = this.#messages[index] as OutgoingMessage
    const { world } = this.#process
    const arrive = (): void => {
      const { sent, taken } = this.#take(message)
      if (!taken && this.#destination.keepsOrder) this.#broken = sent.status === 'refused' ? NOT_AFTER : sent
      const answer = (): void => this.#process.deliver('confirm', () => this.#settle(index, sent))
      world.add(`the broker answers for ${message.id}: ${sent.status}`, this.#process, answer)
      then()
    }
    world.add(`sends ${message.id}`, this.#process, arrive, true)
  }

  #take(message: OutgoingMessage): { sent: Confirmation; taken: boolean } {
    return this.#broken === undefined ? this.#destination.take(message) : { sent: this.#broken, taken: false }
  }
}

const UNAVAILABLE: Confirmation = {
  status: 'unavailable',
  error: new HapaxError('store-unavailable', 'the broker is down'),
}
const NOT_AFTER: Confirmation = { status: 'failed', error: new Error('not after one that was refused') }
const DOWN_MS = 5_000
