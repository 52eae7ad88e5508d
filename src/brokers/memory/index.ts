import { type Clock, clockOption, flag, HapaxError, nameText, noOthers } from '../../base/index.ts'
import type { Confirmation, Delivery, Destination, Prefetch, Reader, Subscription } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import { arrivalOf } from '../../message/index.ts'
import { Deliveries, type Handle, type Incoming } from '../kit/index.ts'

/** Settings of the memory broker. */
export interface MemoryBrokerOptions {
  /** Says when a message that was put back comes again. @default the clock of this process */
  readonly clock?: Clock
}

/** Settings of a queue. */
export interface MemoryQueueOptions {
  /** The topic whose messages go into the queue, from now on. */
  readonly topic: string
  /** One reader at a time, so that the messages of a key stay in order. @default false */
  readonly single?: boolean
}

/** A broker in the memory of this process: for tests, for trying hapax out, and as the example of how to write one. */
export interface MemoryBroker {
  /** Where a relay can send to. Every queue of the topic gets each message. */
  topic(name: string): Destination
  /** Where a consumer can read from. The same name is the same queue. */
  queue(name: string, options: MemoryQueueOptions): Subscription
}

/** A broker that forgets everything when the process ends. */
export function memoryBroker(options: MemoryBrokerOptions = {}): MemoryBroker {
  noOthers('options', options, ['clock'])
  return new Memory(clockOption(options.clock))
}

class Memory implements MemoryBroker {
  readonly #clock: Clock
  readonly #queues = new Map<string, Queue>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  topic(name: string): Destination {
    const topic = nameText('name', name)
    return new Topic(topic, (messages) => {
      for (const queue of this.#queues.values()) if (queue.topic === topic) queue.add(messages)
    })
  }

  queue(name: string, options: MemoryQueueOptions): Subscription {
    noOthers('options', options, ['topic', 'single'])
    const known = this.#queues.get(nameText('name', name))
    const queue =
      known ?? new Queue(this.#clock, nameText('topic', options.topic), flag('single', options.single, false))
    this.#queues.set(name, queue)
    return {
      name: `memory queue ${name}`,
      features: { ordersKeys: queue.single, marksRedelivered: true, horizonMs: undefined, limitsRejects: false },
      open: async ({ prefetch, receive }) => queue.open(prefetch, receive),
    }
  }
}

const CONFIRMED: Confirmation = { status: 'confirmed' }

class Topic implements Destination {
  readonly name: string
  readonly features = { keepsOrder: true }
  readonly #send: (messages: readonly OutgoingMessage[]) => void
  #closed = false

  constructor(topic: string, send: (messages: readonly OutgoingMessage[]) => void) {
    this.name = `memory topic ${topic}`
    this.#send = send
  }

  prepare(): Promise<void> {
    return Promise.resolve()
  }

  publish(messages: readonly OutgoingMessage[], signal: AbortSignal): readonly Promise<Confirmation>[] {
    const reason = this.#closed ? `${this.name} is closed` : signal.aborted ? 'nobody waits for it any more' : undefined
    if (reason === undefined) this.#send(messages)
    const answer = reason === undefined ? CONFIRMED : unavailable(reason)
    return messages.map(() => Promise.resolve(answer))
  }

  async close(): Promise<void> {
    this.#closed = true
  }
}

function unavailable(reason: string): Confirmation {
  return { status: 'unavailable', error: new HapaxError('broker-unavailable', `nothing was sent: ${reason}`) }
}

/** A message that nobody has in hand. */
interface Waiting {
  /** Its place in the queue, which it keeps when it is put back. */
  readonly place: number
  readonly message: OutgoingMessage
  readonly redelivered: boolean
}

/** A message in the hand of a reader. */
interface InHand extends Handle {
  readonly waiting: Waiting
}

class Queue {
  readonly topic: string
  readonly single: boolean
  readonly #clock: Clock
  readonly #readers: Deliveries<InHand>[] = []
  #waiting: Waiting[] = []
  #places = 0
  #delivering = false

  constructor(clock: Clock, topic: string, single: boolean) {
    this.#clock = clock
    this.topic = topic
    this.single = single
  }

  add(messages: readonly OutgoingMessage[]): void {
    for (const message of messages) this.#waiting.push({ place: this.#places++, message, redelivered: false })
    this.#deliver()
  }

  open(prefetch: Prefetch, receive: (deliveries: readonly Delivery[]) => void): Reader {
    const answered = (): void => this.#deliver()
    const reader = new Deliveries<InHand>({ prefetch, receive, answered, clock: this.#clock })
    this.#readers.push(reader)
    this.#deliver()
    return {
      horizonMs: undefined,
      pause: async () => reader.pause(),
      close: async () => this.#close(reader),
    }
  }

  /** What the reader leaves behind goes to the next one. */
  #close(reader: Deliveries<InHand>): void {
    const index = this.#readers.indexOf(reader)
    if (index === -1) return
    this.#readers.splice(index, 1)
    this.#putBack(reader.handles)
    reader.forget()
  }

  #putBack(handles: readonly InHand[]): void {
    const back = handles.map(({ waiting }) => ({ ...waiting, redelivered: true }))
    this.#waiting = [...back, ...this.#waiting].sort((a, b) => a.place - b.place)
  }

  /** Whoever answers while it is being handed something is not handed more inside that call. */
  #deliver(): void {
    if (this.#delivering) return
    this.#delivering = true
    try {
      while (this.#handOut());
    } finally {
      this.#delivering = false
    }
  }

  /** Gives each reader what it has room for; whether there was anything. */
  #handOut(): boolean {
    const readers = this.single ? this.#readers.slice(0, 1) : [...this.#readers]
    let any = false
    for (const reader of readers) {
      const incoming = this.#take(reader)
      any ||= incoming.length > 0
      reader.hand(incoming)
    }
    return any
  }

  #take({ room, roomBytes }: Deliveries<InHand>): readonly Incoming<InHand>[] {
    const taken: Incoming<InHand>[] = []
    let bytes = 0
    while (this.#waiting.length > 0 && taken.length < room && bytes < roomBytes) {
      const next = this.#incoming(this.#waiting.shift() as Waiting)
      taken.push(next)
      bytes += next.bytes
    }
    return taken
  }

  #incoming(waiting: Waiting): Incoming<InHand> {
    const { message, redelivered } = waiting
    const handle: InHand = {
      waiting,
      // Whoever has it in hand has it alone: there is nothing left to forget.
      ack: () => {},
      giveBack: () => this.#putBack([handle]),
      // Nobody counts here.
      reject: () => false,
    }
    return { arrival: arrivalOf(message, redelivered), bytes: message.data.byteLength, handle }
  }
}
