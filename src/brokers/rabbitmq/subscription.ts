import { HapaxError, pause, retryDelay, systemClock, systemRandom } from '../../base/index.ts'
import type { Address, OpenOptions, Reader, Subscription, SubscriptionFeatures } from '../../contracts/index.ts'
import { Deliveries, type Incoming } from '../kit/index.ts'
import { BACK_OFF, type Link } from './link.ts'
import type { QueuePlace } from './options.ts'
import { Reading, type Token } from './reading/reading.ts'
import { Window } from './reading/window.ts'
import { boundTo } from './topology.ts'

/** A queue that a consumer reads from. */
export class RabbitmqSubscription implements Subscription {
  readonly name: string
  readonly address: Address
  readonly features: SubscriptionFeatures
  readonly #link: Link
  readonly #place: QueuePlace
  readonly #ownKeys: ReadonlySet<string>

  /** `ownKeys`: the exchanges to which this process publishes with a custom routing key. */
  constructor(link: Link, place: QueuePlace, ownKeys: ReadonlySet<string>) {
    this.name = `rabbitmq queue ${place.name}`
    this.address = { system: 'rabbitmq', name: place.name }
    this.features = {
      ordersKeys: place.single,
      marksRedelivered: true,
      horizonMs: place.horizonMs,
      limitsRejects: limitsRejects(place),
    }
    this.#link = link
    this.#place = place
    this.#ownKeys = ownKeys
  }

  async open(options: OpenOptions): Promise<Reader> {
    const place = boundTo(this.#place, options.types, this.#ownKeys)
    const reader = new RabbitmqReader(this.#link, place, options)
    await reader.open()
    return reader
  }
}

/** A queue that hapax declares has the limit of its options. For other queues, the limit is unknown. */
function limitsRejects({ declare, deliveryLimit }: QueuePlace): boolean | undefined {
  return deliveryLimit === undefined && declare !== 'assert' ? undefined : deliveryLimit !== undefined
}

/** Reads a queue through one channel after another. */
class RabbitmqReader implements Reader {
  readonly horizonMs = undefined
  readonly #link: Link
  readonly #place: QueuePlace
  readonly #options: OpenOptions
  readonly #deliveries: Deliveries<Token>
  readonly #window: Window
  readonly #ending = new AbortController()
  /** Messages beyond those in hand: at most `prefetch.bytes`, or a single message. */
  #waiting: Incoming<Token>[] = []
  #waitingBytes = 0
  /** Messages beyond that. Their contents are dropped, and they are given back once the server has stopped sending. */
  #surplus: Token[] = []
  #hushed = false
  #soon: NodeJS.Immediate | undefined
  #reading: Reading | undefined
  /** The reading that is being opened. Messages may arrive before that completes. */
  #opening: Reading | undefined
  #openedAt = 0
  #attempts = 0
  #warned = ''
  #paused = false
  #closing: Promise<void> | undefined

  constructor(link: Link, place: QueuePlace, options: OpenOptions) {
    this.#link = link
    this.#place = place
    this.#options = options
    this.#window = new Window(options.prefetch)
    this.#deliveries = new Deliveries({
      prefetch: options.prefetch,
      receive: (deliveries) => options.receive(deliveries),
      answered: () => this.#handOutSoon(),
    })
  }

  /** The first attempt. Its failure rejects; those of later attempts are only reported. */
  async open(): Promise<void> {
    this.#link.acquire()
    try {
      await this.#read()
    } catch (error) {
      await this.close()
      throw error
    }
  }

  async pause(): Promise<void> {
    if (this.#paused) return
    this.#paused = true
    this.#ending.abort()
    // A single reader keeps its subscription: another one would become active and overtake messages that are still being stored here.
    if (!this.#place.single) await this.#reading?.stop()
    // Only now: a server that still sends would redeliver them here at once.
    this.#deliveries.pause()
    for (const { handle } of this.#taken(this.#waiting.length)) handle.giveBack()
    for (const handle of this.#surplus.splice(0)) handle.giveBack()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#paused = true
    this.#ending.abort()
    const reading = this.#reading
    this.#reading = undefined
    const answers = (await reading?.close()) ?? true
    this.#forget()
    await this.#link.release(answers)
  }

  async #read(): Promise<void> {
    const reading = await Reading.open(this.#link, this.#place, this.#count(), {
      differs: (warning) => this.#differs(warning),
      began: (began) => {
        this.#opening = began
      },
      arrived: (incoming) => this.#arrived(incoming),
      lost: (lost) => this.#lost(lost),
    }).finally(() => {
      this.#opening = undefined
    })
    if (this.#paused) await reading.close()
    if (!reading.isOpen) throw reading.error
    this.#reading = reading
    this.#openedAt = systemClock.monotonic()
  }

  get #current(): Reading | undefined {
    return this.#reading ?? this.#opening
  }

  /** A single reader keeps its count. Changing it means cancelling for a moment, and another reader would become active. */
  #count(): number {
    return this.#place.single ? SINGLE : this.#window.count
  }

  /** Warns once, however often the queue is opened. */
  #differs(warning: HapaxError): void {
    if (warning.message === this.#warned) return
    this.#warned = warning.message
    this.#options.report(warning)
  }

  #arrived(incoming: Incoming<Token>): void {
    const { bytes } = incoming
    this.#window.saw(bytes)
    const isFull = this.#waiting.length > 0 && this.#waitingBytes + bytes > this.#options.prefetch.bytes
    if (isFull && !this.#place.single) this.#turnAway(incoming)
    else {
      this.#waiting.push(incoming)
      this.#waitingBytes += bytes
      this.#handOutSoon()
    }
  }

  /** Sends the message back, and pauses the subscription until the waiting messages have been handed out. */
  #turnAway({ bytes, handle }: Incoming<Token>): void {
    this.#surplus.push(handle)
    this.#window.shrink(bytes)
    if (this.#hushed) return
    this.#hushed = true
    // Only after the server has stopped sending: otherwise they would come back at once.
    this.#current?.hush(() => {
      for (const each of this.#surplus.splice(0)) each.giveBack()
    })
  }

  /** Removes the first waiting messages and returns them. */
  #taken(count: number): readonly Incoming<Token>[] {
    const taken = this.#waiting.splice(0, count)
    for (const { bytes } of taken) this.#waitingBytes -= bytes
    return taken
  }

  /** Messages of one turn of the event loop are handed out together, so that groups are filled. */
  #handOutSoon(): void {
    if (this.#waiting.length > 0) this.#soon ??= setImmediate(() => this.#handOut())
  }

  #handOut(): void {
    this.#soon = undefined
    if (this.#paused) return
    this.#deliveries.hand(this.#taken(this.#fitting()))
    if (this.#hushed) this.#resumeWhenEmpty()
    else if (!this.#place.single && this.#window.adapt()) this.#current?.resize(this.#window.count)
  }

  #resumeWhenEmpty(): void {
    if (this.#waiting.length > 0) return
    this.#hushed = false
    this.#current?.resume(this.#window.count)
  }

  /** How many waiting messages may be handed out. At least one if nothing is in hand, whatever its size. */
  #fitting(): number {
    const { room, size } = this.#deliveries
    let bytes = this.#deliveries.roomBytes
    let count = 0
    for (const each of this.#waiting) {
      const alone = size === 0 && count === 0
      if (count >= room || (each.bytes > bytes && !alone)) break
      bytes -= each.bytes
      count += 1
    }
    return count
  }

  #lost(reading: Reading): void {
    if (reading !== this.#reading) return
    this.#reading = undefined
    this.#forget()
    if (!this.#paused) void this.#readAgain(reading)
  }

  #forget(): void {
    clearImmediate(this.#soon)
    this.#soon = undefined
    this.#waiting = []
    this.#waitingBytes = 0
    this.#surplus = []
    this.#hushed = false
    this.#deliveries.forget()
  }

  async #readAgain(lost: Reading): Promise<void> {
    // The connection emits its reason only after its channels have ended.
    await null
    const reason = await lost.explain()
    this.#options.report(reason)
    // The outage itself has been reported. A new problem after it, such as a missing queue, has not.
    const told = new Set<string>(['broker-unavailable', 'broker-timeout', reason.code])
    if (systemClock.monotonic() - this.#openedAt > STEADY_MS) this.#attempts = 0
    while (!this.#paused) {
      this.#attempts += 1
      const delayMs = Math.max(retryDelay(BACK_OFF, this.#attempts, systemRandom), this.#link.pauseMs)
      await pause(systemClock, delayMs, this.#ending.signal)
      if (this.#paused) return
      try {
        return await this.#read()
      } catch (thrown) {
        this.#forget()
        if (!(thrown instanceof HapaxError) || told.has(thrown.code) || this.#paused) continue
        told.add(thrown.code)
        this.#options.report(thrown)
      }
    }
  }
}

/** A link that lasted this long ended for a new reason, so the back-off starts again. */
const STEADY_MS = 1_000
/**
 * The prefetch of a single reader, however few messages it wants in hand. A quorum queue puts returned messages behind those that
 * other readers returned. If the next reader did not get all of them at once, the rest would come out of order.
 */
const SINGLE = 256
