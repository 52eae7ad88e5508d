import { HapaxError, pause, retryDelay, systemClock, systemRandom } from '../../base/index.ts'
import type { OpenOptions, Reader, Subscription, SubscriptionFeatures } from '../../contracts/index.ts'
import { Deliveries, type Incoming } from '../kit/index.ts'
import { BACK_OFF, type Link } from './link.ts'
import type { QueuePlace } from './options.ts'
import { Reading, type Token } from './reading/reading.ts'
import { Window } from './reading/window.ts'
import { boundTo } from './topology.ts'

/** A queue that a consumer reads from. */
export class RabbitmqSubscription implements Subscription {
  readonly name: string
  readonly features: SubscriptionFeatures
  readonly #link: Link
  readonly #place: QueuePlace
  readonly #ownKeys: ReadonlySet<string>

  /** `ownKeys`: the exchanges that this process sends to by other routing keys than types. */
  constructor(link: Link, place: QueuePlace, ownKeys: ReadonlySet<string>) {
    this.name = `rabbitmq queue ${place.name}`
    this.features = {
      ordersKeys: place.single,
      marksRedelivered: true,
      horizonMs: undefined,
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

/** A queue that is declared here has the limit that it was declared with; of others only the user knows. */
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
  /** What came beyond what may be in hand: at most as many bytes as may be in hand, or one message. */
  #waiting: Incoming<Token>[] = []
  #waitingBytes = 0
  /** What came beyond that as well: nothing of it is kept, it is given back as soon as the server sends no more. */
  #surplus: Token[] = []
  #hushed = false
  #soon: NodeJS.Immediate | undefined
  #reading: Reading | undefined
  /** The one that is being opened: messages may come before it is. */
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

  /** The first attempt. Its failure is the caller's; those of later ones are only reported. */
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
    // A single reader stays: another one would become active and overtake what is still being stored here.
    if (!this.#place.single) await this.#reading?.stop()
    // Not before: what is given back to a server that still sends comes again at once.
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

  /** A single reader keeps its number: to change it, it would have to stop reading for a moment. */
  #count(): number {
    return this.#place.single ? SINGLE : this.#window.count
  }

  /** Once, however often the queue is opened. */
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

  /** It goes back, and nothing more is asked for until what waits has been handed out. */
  #turnAway({ bytes, handle }: Incoming<Token>): void {
    this.#surplus.push(handle)
    this.#window.shrink(bytes)
    if (this.#hushed) return
    this.#hushed = true
    // Not before the server has stopped sending: it would come back at once.
    this.#current?.hush(() => {
      for (const each of this.#surplus.splice(0)) each.giveBack()
    })
  }

  /** The first of what waits, which from now on do not wait any more. */
  #taken(count: number): readonly Incoming<Token>[] {
    const taken = this.#waiting.splice(0, count)
    for (const { bytes } of taken) this.#waitingBytes -= bytes
    return taken
  }

  /** What comes in the same moment is handed out together, so that groups are filled. */
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

  /** How many of those that wait may be handed out; one always, if nothing else is in hand. */
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
    // The connection tells why it ended only after its channels.
    await null
    const reason = await lost.explain()
    this.#options.report(reason)
    // That the server is away has been said; that it came back without the queue has not.
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

/** A link that lasted so long has ended for a new reason. */
const STEADY_MS = 1_000
/**
 * How many messages are sent ahead to a single reader, however few it wants in hand. A quorum queue puts what a reader leaves
 * behind after what others have left: if the next one did not get all of it, the rest would come out of order.
 */
const SINGLE = 256
