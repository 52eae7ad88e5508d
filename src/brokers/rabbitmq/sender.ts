import { asError, HapaxError, heard, messageOf, systemClock } from '../../base/index.ts'
import type { Confirmation } from '../../contracts/index.ts'
import { type Answer, CONFIRMED } from './answer.ts'
import {
  type AmqpConfirmChannel,
  type AmqpConnection,
  type AmqpMessage,
  type RawChannel,
  rawChannel,
} from './client.ts'
import { brokerError, isClosed, type ServerClose, serverClose } from './errors.ts'
import { closed, type Link } from './link.ts'
import type { ExchangeSettings } from './options.ts'
import { Frames } from './outgoing-frames.ts'
import { declareExchange } from './topology.ts'
import { headerFrameBytes, isSame } from './wire.ts'

type SenderSettings = Pick<ExchangeSettings, 'place' | 'unroutable'>

/** What a sender reports when it ends. */
export interface Ended {
  /** One of these made the server close the channel, but it is not known which. */
  readonly suspects: readonly Answer[]
  /** The largest message that the server accepts, if it said so. */
  readonly maxBytes: number | undefined
}

/** A channel with publisher confirms. It ends when the server closes it, or with its link. */
export class Sender {
  readonly #link: Link
  readonly #connection: AmqpConnection
  readonly #exchange: string
  /** Whether unroutable messages count as sent. */
  readonly #drops: boolean
  readonly #channel: AmqpConfirmChannel
  readonly #frameMax: number
  readonly #told: (ended: Ended) => void
  /** In the order in which they were sent. */
  readonly #unanswered = new Set<Answer>()
  readonly #stopListening: () => void
  readonly #openedAt = systemClock.monotonic()
  #frames: Frames | undefined
  #error: unknown
  #ended = false
  #doubtful = false
  #silence: NodeJS.Timeout | undefined
  /** How often in a row nothing had been answered, and how much had been on the link at the first time. */
  #quiet = 0
  #confirmed = 0

  private constructor(
    link: Link,
    { place, unroutable }: SenderSettings,
    connection: AmqpConnection,
    channel: AmqpConfirmChannel,
    told: (ended: Ended) => void,
  ) {
    this.#link = link
    this.#connection = connection
    this.#exchange = place.name
    this.#drops = unroutable === 'drop'
    this.#channel = channel
    this.#frameMax = connection.connection?.frameMax ?? LEAST_HARMLESS
    this.#told = told
    this.#stopListening = link.onBlocked((error) => this.#blocked(error))
    channel.on('return', (message: AmqpMessage) => this.#returned(message))
    channel.on('error', (error: unknown) => {
      this.#error = error
    })
    // Before the listener of `amqplib`, which fails all unconfirmed messages with "channel closed".
    channel.prependListener('close', () => this.#end())
  }

  /** Opens a channel and declares or checks the exchange. */
  static open(link: Link, settings: SenderSettings, told: (ended: Ended) => void): Promise<Sender> {
    const { place } = settings
    const opening = async (connection: AmqpConnection): Promise<Sender> => {
      // Errors while declaring also come as rejections.
      const channel = heard(await connection.createConfirmChannel())
      await declareExchange(channel, place)
      return new Sender(link, settings, connection, channel, told)
    }
    return link.use(`exchange ${place.name}`, opening, { late: (sender) => sender.close() })
  }

  /** Whether it takes more messages. */
  get isOpen(): boolean {
    return !this.#ended && !this.#doubtful
  }

  /** Sends messages, as many as possible in one piece. */
  send(answers: readonly Answer[]): void {
    const { blocked } = this.#link
    const raw = rawChannel(this.#channel)
    if (this.#unanswered.size === 0) this.#listen()
    for (const answer of answers) {
      const tooLarge = this.#tooLarge(answer)
      if (tooLarge !== undefined) answer.settle({ status: 'refused', error: tooLarge })
      if (blocked !== undefined) answer.settle({ status: 'unavailable', error: blocked })
      if (!answer.settled) this.#publish(answer, raw)
    }
    this.#flush(raw)
  }

  /** From now on, silence means that the server does not answer. */
  #listen(): void {
    this.#quiet = 0
    this.#silence ??= setTimeout(() => this.#unheard(), this.#link.timeoutMs / 2).unref()
    this.#silence.refresh()
  }

  /**
   * Nothing was answered for a while. Once is no proof: this process may have stood still, and the answers may lie in its socket. If others on
   * the link were answered meanwhile, the next messages go through a new channel. Otherwise they go through a new connection, perhaps to
   * another node: one that does not reach most of the others confirms nothing, and closes nothing.
   */
  #unheard(): void {
    if (this.#unanswered.size === 0 || !this.isOpen) return
    const { confirmed } = this.#link
    this.#quiet = this.#link.isBusy(this.#connection) ? 0 : this.#quiet + 1
    if (this.#quiet === 1) this.#confirmed = confirmed
    if (this.#quiet < PROOF) this.#silence?.refresh()
    else this.#leave(confirmed > this.#confirmed)
  }

  #leave(othersAreConfirmed: boolean): void {
    const { timeoutMs } = this.#link
    this.#retire()
    if (othersAreConfirmed) return
    const what = `exchange ${this.#exchange}: no confirm within ${timeoutMs} ms`
    this.#link.giveUp(this.#connection, new HapaxError('broker-timeout', what))
  }

  #publish(answer: Answer, raw: RawChannel | undefined): void {
    const answered = (error: unknown): void => this.#answered(answer, error)
    if (raw !== undefined && this.#framesOf(raw).add(answer)) {
      raw.expect(answered)
      this.#unanswered.add(answer)
      return
    }
    // It must not overtake those before it.
    this.#flush(raw)
    const { body, options } = answer.outgoing
    try {
      this.#channel.publish(this.#exchange, answer.routingKey, body, options, answered)
      this.#unanswered.add(answer)
    } catch (error) {
      // Early versions of `amqplib` keep the callback of a publish that threw: later confirms would go to the wrong messages.
      if (this.#channel.unconfirmed?.at(-1) === answered) this.#channel.unconfirmed.pop()
      answer.settle(this.#notSent(error))
    }
  }

  #framesOf({ number: channel }: RawChannel): Frames {
    this.#frames ??= new Frames({ channel, exchange: this.#exchange, frameMax: this.#frameMax })
    return this.#frames
  }

  #flush(raw: RawChannel | undefined): void {
    const frames = this.#frames?.take()
    if (frames !== undefined) raw?.write(frames)
  }

  /** False: the server no longer responds. */
  async close(): Promise<boolean> {
    // A server that is not accepting messages does not read the close either.
    const answers = this.#ended || (this.#link.blocked === undefined && (await closed(this.#channel)))
    this.#end()
    return answers
  }

  /** Headers larger than a frame would make the server close the connection, with everything under way, at every attempt. */
  #tooLarge(answer: Answer): HapaxError | undefined {
    if (this.#frameMax >= LEAST_HARMLESS) return undefined
    const bytes = headerFrameBytes(answer.outgoing)
    if (bytes <= this.#frameMax) return undefined
    const what = `expected headers that fit into the server's frame_max of ${this.#frameMax} bytes, got ${bytes}`
    return new HapaxError('too-large', what, { fields: { bytes } })
  }

  #notSent(cause: unknown): Confirmation {
    if (isClosed(cause)) {
      // A channel that ends while it is being opened emits no event.
      this.#end()
      return { status: 'unavailable', error: this.#link.lost(`exchange ${this.#exchange}`) }
    }
    const detail = messageOf(asError(cause))
    const error = new HapaxError('broker-refused', `RabbitMQ cannot carry the message: ${detail}`, { cause })
    return { status: 'refused', error }
  }

  #answered(answer: Answer, error: unknown): void {
    if (!this.#unanswered.delete(answer)) return
    this.#link.confirmed += 1
    this.#quiet = 0
    this.#silence?.refresh()
    if (answer.returned !== undefined) answer.settle(this.#unroutable(answer.returned))
    else if (error === null || error === undefined) answer.settle(CONFIRMED)
    else {
      const what = `a queue behind exchange ${this.#exchange} did not take the message (basic.nack)`
      answer.settle({ status: 'failed', error: new HapaxError('broker-refused', what) })
      if (systemClock.monotonic() - this.#openedAt > YOUNG_MS) this.#retire()
    }
  }

  /** Takes no more messages, and closes when nobody waits for an answer any more: from such a channel, some may never come. */
  #retire(): void {
    if (this.#doubtful) return
    this.#doubtful = true
    const awaited = [...this.#unanswered].filter(({ settled }) => !settled)
    let left = awaited.length
    if (left === 0) void this.close()
    for (const answer of awaited) {
      const { onSettled } = answer
      answer.onSettled = (confirmation) => {
        onSettled?.(confirmation)
        left -= 1
        if (left === 0) void this.close()
      }
    }
  }

  #unroutable(error: HapaxError): Confirmation {
    return this.#drops ? { status: 'confirmed', dropped: error } : { status: 'failed', error }
  }

  /**
   * The server returns an unroutable message before it confirms it, but does not say which one it was. So every unanswered message
   * that equals the returned one counts as returned: they share its route.
   */
  #returned(message: AmqpMessage): void {
    for (const answer of this.#unanswered) {
      if (answer.returned !== undefined) continue
      if (!isSame(answer.outgoing, answer.routingKey, message)) continue
      const what = `no queue is bound to exchange ${this.#exchange} for the routing key '${answer.routingKey}'`
      answer.returned = new HapaxError('unroutable', what, { fields: { routingKey: answer.routingKey } })
    }
  }

  /** The server may read messages that are under way only when it accepts messages again. */
  #blocked(error: HapaxError): void {
    for (const answer of this.#unanswered) answer.settle({ status: 'unavailable', error })
  }

  #end(): void {
    if (this.#ended) return
    this.#ended = true
    clearTimeout(this.#silence)
    this.#stopListening()
    const unanswered = [...this.#unanswered]
    this.#unanswered.clear()
    const culprit = serverClose(this.#error)
    const error = this.#endedBy(culprit)
    const maxBytes = maxBytesOf(culprit)
    const blamed = unanswered.filter((answer) => isToBlame(answer, unanswered.length, culprit, maxBytes))
    for (const answer of blamed) answer.settle(refusal(error, culprit))
    for (const answer of unanswered) answer.settle({ status: 'unavailable', error })
    const unknown = isAboutOne(culprit) && blamed.length === 0
    this.#told({ suspects: unknown ? unanswered : [], maxBytes })
  }

  #endedBy(culprit: ServerClose | undefined): HapaxError {
    const what = `exchange ${this.#exchange}`
    if (this.#error === undefined) return this.#link.lost(what)
    if (!isAboutOne(culprit)) return brokerError(what, this.#error)
    return new HapaxError('broker-refused', `${what}: ${culprit.sentence}`, { cause: this.#error })
  }
}

/**
 * A channel that outlives the leader of a quorum queue may refuse everything for that queue from then on (seen on 3.10), while new channels
 * work. So after a refusal the next messages go through a new one, unless this one is new itself.
 */
const YOUNG_MS = 1_000

/** So many halves of `timeoutMs` without an answer, the first of which need not be whole. */
const PROOF = 3

/** `amqplib` itself refuses headers of more than 64 KiB. With larger frames, the size need not be checked. */
const LEAST_HARMLESS = 67_584

/** Whether one message made the server close the channel. A missing exchange (404) concerns all of them. */
function isAboutOne(culprit: ServerClose | undefined): culprit is ServerClose {
  return culprit?.published === true && culprit.code !== 404
}

function isToBlame(
  answer: Answer,
  underWay: number,
  culprit: ServerClose | undefined,
  maxBytes: number | undefined,
): boolean {
  if (!isAboutOne(culprit)) return false
  return maxBytes === undefined ? underWay === 1 : answer.body.length > maxBytes
}

/** A missing permission can be granted later. Anything else is refused for good. */
function refusal(error: HapaxError, culprit: ServerClose | undefined): Confirmation {
  return { status: culprit?.code === 403 ? 'failed' : 'refused', error }
}

function maxBytesOf(culprit: ServerClose | undefined): number | undefined {
  const found = culprit?.published ? /max size (\d+)/.exec(culprit.sentence)?.[1] : undefined
  return found === undefined ? undefined : Number(found)
}
