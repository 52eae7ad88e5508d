import { asError, HapaxError, systemClock, systemRandom, within } from '../../base/index.ts'
import type { Address, Destination, Settle } from '../../contracts/index.ts'
import type { OutgoingMessage } from '../../message/index.ts'
import type { Encoder } from '../kit/index.ts'
import type { KafkaMetadata, KafkaProducer } from './client.ts'
import { brokerError, INVALID, TOO_LARGE } from './errors.ts'
import { closeClient, listen } from './link.ts'
import { partitionOf } from './partitioner.ts'
import { type Answers, answersOf } from './produced.ts'
import { Call, type Chunk, Pending, Spread, takeChunks } from './reading/pending.ts'
import { encodeMessage, type Written } from './wire.ts'

/** What a destination needs to know. */
export interface TopicSettings {
  /** Where the brokers are, for people. */
  readonly at: string
  readonly topic: string
  readonly encoder: Encoder
  readonly maxMessageBytes: number
  readonly publishTimeoutMs: number
  /** Loads the client library. */
  load(): Promise<unknown>
  producer(): Promise<KafkaProducer>
}

/**
 * Sends to a topic. One send is under way at a time, because the client loses count of the sequence numbers of its idempotent
 * producer when one of several concurrent sends fails. A send covers many partitions, and each of them answers for its own batch.
 */
export class KafkaDestination implements Destination {
  readonly name: string
  readonly address: Address
  /** The broker takes a batch whole or not at all. Behind a batch that failed, messages of its keys are not sent. */
  readonly features = { keepsOrder: true }
  readonly #settings: TopicSettings
  readonly #queue: Pending[] = []
  readonly #spread = new Spread(Math.floor(systemRandom.number() * 1_000))
  #batchBytes = BATCH_BYTES
  #producer: Promise<KafkaProducer> | undefined
  #sending: readonly Pending[] = []
  /** Counts sends: a send that timed out must not take messages from the queue any more. */
  #sends = 0
  #busy = false
  #closed = false

  constructor(settings: TopicSettings) {
    this.#settings = settings
    this.name = `kafka topic ${settings.topic}`
    this.address = { system: 'kafka', name: settings.topic }
  }

  async prepare(): Promise<void> {
    await this.#settings.load()
  }

  publish(messages: readonly OutgoingMessage[], signal: AbortSignal, settle: Settle): void {
    const over = (): void => signal.removeEventListener('abort', abort)
    const call = new Call(messages.length, settle, over)
    const abort = (): void => this.#abort(all)
    const written = messages.map((message) => this.#written(message))
    const all = messages.map(({ key }, at) => new Pending(call, at, key, ifWritten(written[at])))
    for (const [at, each] of all.entries()) this.#refuse(each, written[at])
    this.#queue.push(...all)
    if (signal.aborted) abort()
    else if (this.#closed) this.#fail(all, new HapaxError('closed', `${this.name} is closed`))
    else {
      if (!call.isOver) signal.addEventListener('abort', abort, { once: true })
      void this.#run()
    }
  }

  async reach(): Promise<void> {
    const { topic, at, publishTimeoutMs } = this.#settings
    try {
      await within(systemClock, publishTimeoutMs, this.#metadata(), () => this.#late())
    } catch (error) {
      // The next one knows nothing of the brokers that this one had found.
      if (!this.#busy) await this.#drop()
      throw brokerError(`the topic ${topic} cannot be reached at ${at}`, error)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#fail([...this.#queue, ...this.#sending], new HapaxError('closed', `${this.name} is closed`))
    await this.#drop()
  }

  #written(message: OutgoingMessage): Written | Error {
    try {
      return encodeMessage(message, this.#settings.encoder)
    } catch (error) {
      return asError(error)
    }
  }

  /** A message that is too large is refused here, because the broker would refuse its whole batch, or close the connection. */
  #refuse(pending: Pending, written: Written | Error | undefined): void {
    const { maxMessageBytes } = this.#settings
    const { bytes } = pending.written
    if (written instanceof Error) pending.fail('refused', written)
    if (written instanceof Error || bytes <= maxMessageBytes) return
    const what = `expected a message of at most ${maxMessageBytes} bytes for ${this.name}, got ${bytes}`
    pending.fail('refused', new HapaxError('too-large', what, { fields: { bytes } }))
  }

  /** A send cannot be cancelled. Its producer is closed, so that nothing waits behind it. */
  #abort(all: readonly Pending[]): void {
    this.#fail(all, new HapaxError('broker-timeout', `${this.name} has not answered in time`))
    const isLast = this.#sending.length === 0 && this.#queue.every((each) => each.settled)
    if (isLast || this.#sending.some((each) => all.includes(each))) void this.#drop()
  }

  async #run(): Promise<void> {
    if (this.#busy) return
    this.#busy = true
    // Calls of the same tick share a send.
    await null
    while (this.#queue.length > 0) await this.#sendNext()
    this.#busy = false
  }

  /** Sends the next batches and settles their messages. */
  async #sendNext(): Promise<void> {
    const { publishTimeoutMs } = this.#settings
    const chunks = new Map<number, Chunk>()
    try {
      await within(systemClock, publishTimeoutMs, this.#send(chunks), () => this.#late())
      for (const { pending } of chunks.values()) for (const each of pending) each.confirm()
    } catch (error) {
      this.#failed(chunks, error)
    } finally {
      this.#sending = []
      this.#sends += 1
    }
  }

  #late(): never {
    const { publishTimeoutMs, at } = this.#settings
    const what = `${this.name} at ${at} has not answered within ${publishTimeoutMs} ms; is it Kafka that listens there?`
    throw new HapaxError('broker-timeout', what)
  }

  async #metadata(): Promise<KafkaMetadata> {
    return (await this.#open()).metadata({ topics: [this.#settings.topic] })
  }

  /** Settles a failed send. If the broker could not be reached, the waiting messages fail as well. */
  #failed(chunks: ReadonlyMap<number, Chunk>, thrown: unknown): void {
    const { topic, at } = this.#settings
    const error = brokerError(`nothing could be sent to the topic ${topic} at ${at}`, thrown)
    const answers = answersOf(thrown)
    const givenUp = this.#sending.length > 0 && this.#sending.every((each) => each.settled)
    for (const [partition, chunk] of chunks) this.#settle(chunk, answers, partition, error)
    if (answers.size > 0 || givenUp) return
    this.#fail(this.#queue.splice(0), error)
    void this.#drop()
  }

  /** Sends one request. Fills `chunks` with what it takes from the queue, so that the caller can settle it after a failure. */
  async #send(chunks: Map<number, Chunk>): Promise<void> {
    const { topic } = this.#settings
    const send = this.#sends
    const producer = await this.#open()
    const partitions = (await producer.metadata({ topics: [topic] })).topics.get(topic)?.partitionsCount ?? 0
    if (send !== this.#sends) return
    if (partitions === 0) throw new HapaxError('topology-mismatch', `the topic ${topic} has no partition`)
    takeChunks(this.#queue, chunks, {
      partitionOf: (key) => partitionOf(key, partitions),
      spread: this.#spread.over(partitions),
      limits: { messages: SEND_MESSAGES, bytes: SEND_BYTES, batchBytes: this.#batchBytes },
    })
    this.#sending = [...chunks.values()].flatMap(({ pending }) => pending)
    if (this.#sending.length === 0) return
    const messages = [...chunks].flatMap(([partition, { pending }]) =>
      pending.map(({ written: { key, value, headers } }) => {
        return { topic, partition, value, headers, ...(key === undefined ? {} : { key }) }
      }),
    )
    await producer.send({ messages, idempotent: true, acks: -1 })
  }

  #settle({ pending, bytes }: Chunk, answers: Answers, partition: number, error: HapaxError): void {
    const code = answers.get(partition)
    if (code === 0) for (const each of pending) each.confirm()
    else if (code === undefined || !(TOO_LARGE.has(code) || INVALID.has(code))) this.#fail(pending, error)
    else if (pending.length > 1) this.#sendAlone(pending, bytes, code)
    else pending[0]?.fail('refused', refusal(code, bytes, error))
  }

  /** One message, or all of them together, were too large or invalid. Sent one by one, it shows which; later batches are smaller. */
  #sendAlone(pending: readonly Pending[], bytes: number, code: number): void {
    if (TOO_LARGE.has(code)) this.#batchBytes = Math.max(1, Math.floor(bytes / 2))
    for (const each of pending) each.alone = true
    this.#queue.unshift(...pending)
  }

  #fail(all: readonly Pending[], error: HapaxError): void {
    for (const each of all) if (!each.settled) each.fail('unavailable', error)
  }

  #open(): Promise<KafkaProducer> {
    if (this.#closed) throw new HapaxError('closed', `${this.name} is closed`)
    this.#producer ??= this.#settings.producer().then((producer) => {
      listen(producer)
      return producer
    })
    return this.#producer
  }

  /** Closes the producer. The next send opens another one. */
  async #drop(): Promise<void> {
    const producer = this.#producer
    this.#producer = undefined
    const open = await producer?.catch(() => undefined)
    if (open !== undefined) await closeClient(open, CLOSE_MS)
  }
}

/** A message that could not be written has nothing to send. */
function ifWritten(written: Written | Error | undefined): Written {
  return written === undefined || written instanceof Error ? NOTHING : written
}

const NOTHING: Written = { key: undefined, value: Buffer.alloc(0), headers: new Map(), bytes: 0 }

function refusal(code: number, bytes: number, cause: Error): HapaxError {
  return TOO_LARGE.has(code)
    ? new HapaxError('too-large', `the broker takes no message of ${bytes} bytes here`, { cause, fields: { bytes } })
    : new HapaxError('broker-refused', 'the broker says that this message is not valid for its topic', { cause })
}

/** Bounds of one request. */
const SEND_MESSAGES = 2_000
const SEND_BYTES = 16 * 1024 * 1024
/** Below the default of `message.max.bytes`, which is 1,048,588. */
const BATCH_BYTES = 900_000
const CLOSE_MS = 2_000
