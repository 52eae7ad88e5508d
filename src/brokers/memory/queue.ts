import type { Clock } from '../../base/index.ts'
import type { OpenOptions, Reader } from '../../contracts/index.ts'
import type { Arrival } from '../../message/index.ts'
import { Deliveries, type Handle, type Incoming } from '../kit/index.ts'

/** A message that waits for a reader. */
interface Waiting {
  /** Its place in the queue, which it keeps when it is put back. */
  readonly place: number
  readonly arrival: Arrival
}

/** A message that a reader has in hand. */
interface InHand extends Handle {
  readonly waiting: Waiting
}

/** One queue: its waiting messages and its readers. Messages that come back keep their place, as in most brokers. */
export class MemoryQueue {
  readonly topic: string
  readonly single: boolean
  readonly #clock: Clock
  readonly #readers: Deliveries<InHand>[] = []
  #waiting: Waiting[] = []
  #places = 0
  #delivering = false

  constructor(clock: Clock, { topic, single }: { readonly topic: string; readonly single: boolean }) {
    this.#clock = clock
    this.topic = topic
    this.single = single
  }

  get unsettled(): number {
    return this.#readers.reduce((sum, { handles }) => sum + handles.length, this.#waiting.length)
  }

  add(arrivals: readonly Arrival[]): void {
    for (const arrival of arrivals) this.#waiting.push({ place: this.#places++, arrival })
    this.#deliver()
  }

  open({ prefetch, receive }: Pick<OpenOptions, 'prefetch' | 'receive'>): Reader {
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

  /** Messages that the reader did not answer go to the next one. */
  #close(reader: Deliveries<InHand>): void {
    const index = this.#readers.indexOf(reader)
    if (index === -1) return
    this.#readers.splice(index, 1)
    this.#putBack(reader.handles)
    reader.forget()
  }

  #putBack(handles: readonly InHand[]): void {
    const back = handles.map(({ waiting: { place, arrival } }) => ({
      place,
      arrival: { ...arrival, redelivered: true },
    }))
    this.#waiting = [...back, ...this.#waiting].sort((a, b) => a.place - b.place)
  }

  /** A reader may answer inside `receive`. Without this guard it would be handed more messages inside that call, and so on without end. */
  #deliver(): void {
    if (this.#delivering) return
    this.#delivering = true
    try {
      while (this.#handOut());
    } finally {
      this.#delivering = false
    }
  }

  /** Gives each reader what it has room for. Returns whether there was anything to give. */
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
    while (taken.length < room && bytes < roomBytes) {
      const first = this.#waiting.shift()
      if (first === undefined) break
      const next = this.#incoming(first)
      taken.push(next)
      bytes += next.bytes
    }
    return taken
  }

  #incoming(waiting: Waiting): Incoming<InHand> {
    const { arrival } = waiting
    const handle: InHand = {
      waiting,
      // It was removed from the queue when it was handed out.
      ack: () => {},
      giveBack: () => this.#putBack([handle]),
      // This broker does not count failures.
      reject: () => false,
    }
    return { arrival, bytes: arrival.body.byteLength, handle }
  }
}
