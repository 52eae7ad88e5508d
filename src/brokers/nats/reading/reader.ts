import type { Msg } from '@nats-io/transport-node'
import { HapaxError, pause, retryDelay, systemClock, systemRandom, within } from '../../../base/index.ts'
import type { Delivery, Prefetch, Reader } from '../../../contracts/index.ts'
import { Deliveries, type Incoming } from '../../kit/index.ts'
import { Client } from '../client.ts'
import { ensureConsumer, type FoundConsumer } from '../consumers.ts'
import { brokerError } from '../errors.ts'
import { Link } from '../link.ts'
import type { ConsumerPlan, LinkSettings, StreamPlan } from '../options.ts'
import { arrivalOf, positionOf } from '../wire.ts'
import { GivenUp } from './given-up.ts'
import { AckHandle } from './handle.ts'
import { every, Pull, type PullOptions } from './pull.ts'

/** What a reader needs. */
export interface ReaderOptions {
  readonly settings: LinkSettings
  readonly plan: ConsumerPlan
  /** The stream, if this process declares it as well. */
  readonly stream: () => StreamPlan | undefined
  readonly prefetch: Prefetch
  receive(deliveries: readonly Delivery[]): void
  report(error: HapaxError): void
}

/** Everything that runs while there is a link and a consumer. */
interface Session {
  readonly link: Link
  readonly pull: Pull
  readonly givenUp: GivenUp | undefined
  /** Resolves with the reason when something broke. */
  readonly over: Promise<HapaxError>
  /** Ends its timers and requests. */
  end(): Promise<void>
}

/** Reads a consumer while there is room, through one session after another: each ends when the link or the consumer is lost. */
export class NatsReader implements Reader {
  readonly #options: ReaderOptions
  readonly #client: Client
  readonly #deliveries: Deliveries<AckHandle>
  readonly #closing = new AbortController()
  #consumer: FoundConsumer | undefined
  #session: Session | undefined
  /** Whether the stream was missing at the last attempt. */
  #awaitsStream = false
  /** The code of the last report, so that an outage is reported once and not with every attempt. */
  #reported: string | undefined
  #pausing: Promise<void> | undefined
  /** Whether nothing is asked for any more, so that messages may go back. */
  #givesBack = false
  /** Messages that arrived after `pause`, and before they could be given back. */
  readonly #late: Incoming<AckHandle>[] = []

  private constructor(options: ReaderOptions, client: Client) {
    this.#options = options
    this.#client = client
    const { prefetch, receive } = options
    this.#deliveries = new Deliveries({ prefetch, receive, answered: () => this.#ask() })
  }

  static async open(options: ReaderOptions): Promise<NatsReader> {
    const reader = new NatsReader(options, await Client.load(options.settings))
    void reader.#supervise(await reader.#first())
    return reader
  }

  /** A reader may start before the first message is sent, and so before the stream exists. It waits for the stream then. */
  async #first(): Promise<Session | undefined> {
    try {
      return await this.#begin()
    } catch (error) {
      if (!this.#awaitsStream) throw error
      this.#report(brokerError('NATS cannot be read from', error), false)
      return undefined
    }
  }

  get horizonMs(): number | undefined {
    return this.#consumer?.horizonMs
  }

  pause(): Promise<void> {
    this.#pausing ??= this.#stopReading()
    return this.#pausing
  }

  async #stopReading(): Promise<void> {
    await within(systemClock, STOP_ASKING_MS, this.#stopAsking(), () => undefined, 'awake')
    // Only now: before, the server would deliver them to this reader again.
    this.#givesBack = true
    this.#deliveries.pause()
    for (const { handle } of this.#late.splice(0)) handle.giveBack()
  }

  async close(): Promise<void> {
    await this.pause()
    const session = this.#session
    this.#closing.abort()
    const left = this.#deliveries.handles
    this.#deliveries.forget()
    for (const handle of left) handle.giveBack()
    await session?.link.flush(CLOSE_MS)
    await within(systemClock, CLOSE_MS, session?.end() ?? Promise.resolve(), () => undefined)
    await session?.link.close()
  }

  async #stopAsking(): Promise<void> {
    await Promise.all([this.#session?.pull.stop(), this.#session?.givenUp?.stop()])
  }

  #ask(): void {
    this.#session?.pull.ask()
    this.#session?.givenUp?.ask()
  }

  /** Starts a new session whenever one ends, until the reader is closed. */
  async #supervise(first: Session | undefined): Promise<void> {
    let session = first
    for (let failures = 0; !this.#closing.signal.aborted; ) {
      if (session !== undefined) {
        const error = await session.over
        if (session.pull.healthy) failures = 0
        if (!this.#closing.signal.aborted) this.#report(error, session.pull.healthy)
        this.#judge(session, error)
        await within(systemClock, CLOSE_MS, session.end(), () => undefined)
      }
      failures += 1
      await pause(systemClock, retryDelay(this.#policy, failures, systemRandom), this.#closing.signal)
      session = this.#closing.signal.aborted ? undefined : await this.#tryAgain()
    }
  }

  /** A server that answers no request may be cut off from those that have the consumer. Another link may find one of them. */
  #judge({ link, pull }: Session, error: HapaxError): void {
    if (this.#client.owns && !pull.healthy && error.code === 'broker-unavailable') link.giveUp(error)
  }

  async #tryAgain(): Promise<Session | undefined> {
    try {
      return await this.#begin()
    } catch (error) {
      this.#report(brokerError('NATS cannot be read from', error), false)
      return undefined
    }
  }

  #report(error: HapaxError, afresh: boolean): void {
    if (!afresh && error.code === this.#reported) return
    this.#reported = error.code
    this.#tell(error)
  }

  /** An error thrown by `report` must not stop the reader. */
  #tell(error: HapaxError): void {
    try {
      this.#options.report(error)
    } catch {
      // There is nowhere else to report it.
    }
  }

  /** Checking whether the user's connection is back, or the stream exists, is cheap: it is done more often than dialling. */
  get #policy(): Parameters<typeof retryDelay>[0] {
    const maxDelayMs = this.#client.owns && !this.#awaitsStream ? 10_000 : 1_000
    return { attempts: Number.POSITIVE_INFINITY, minDelayMs: 50, maxDelayMs, factor: 2 }
  }

  async #begin(): Promise<Session> {
    const old = this.#session?.link
    const link = old === undefined || old.lost.aborted ? await Link.open(this.#client) : old
    try {
      const consumer = await this.#ensure(link)
      // A consumer that was created again numbers its deliveries anew: an old ack would hit the wrong message.
      if (this.#consumer !== undefined && consumer.created !== this.#consumer.created) this.#deliveries.forget()
      this.#consumer = consumer
      this.#session = await this.#start(link, consumer)
    } catch (error) {
      await link.close()
      throw brokerError('NATS cannot be read from', error)
    }
    if (this.#closing.signal.aborted) await this.#discard(this.#session)
    this.#ask()
    return this.#session
  }

  async #ensure({ manager }: Link): Promise<FoundConsumer> {
    const { stream } = this.#options
    // Everything in a stream that did not exist when the reader started is new, also with `deliver: 'new'`.
    const plan = this.#awaitsStream ? { ...this.#options.plan, deliver: 'all' as const } : this.#options.plan
    const consumer = await ensureConsumer(manager, plan, stream(), this.#consumer)
    // Not before: an attempt that fails has learnt nothing.
    this.#awaitsStream = consumer === undefined
    if (consumer !== undefined) return consumer
    const what = `stream ${plan.stream} does not exist yet: consumer ${plan.name} waits for it`
    throw new HapaxError('topology-mismatch', what, { fields: { stream: plan.stream, consumer: plan.name } })
  }

  /** Ends a session that opened after the reader was closed. */
  async #discard({ link, end }: Session): Promise<void> {
    await end()
    await link.close()
  }

  async #start(link: Link, consumer: FoundConsumer): Promise<Session> {
    const { promise: over, resolve } = Promise.withResolvers<HapaxError>()
    const broken = (error: HapaxError, gone: boolean): void => {
      if (gone) this.#deliveries.forget()
      resolve(error)
    }
    link.lost.addEventListener('abort', () => broken(brokerError('the link was lost', link.lost.reason), true), {
      once: true,
    })
    const givenUp = consumer.maxDeliver === undefined ? undefined : await this.#openGivenUp(link, consumer, broken)
    const deleted = this.#watchDeletion(link, broken)
    const pull = this.#openPull(link, consumer, broken)
    link.onRefusal = (subject, error) => {
      if (pull.uses(subject)) broken(brokerError('NATS does not allow to read', error), false)
    }
    const working = every(Math.min(consumer.ackWaitMs, GIVEN_UP_WAIT_MS) / 3, () => {
      for (const handle of this.#deliveries.handles) handle.working()
    })
    const end = async (): Promise<void> => {
      working()
      await Promise.all([pull.stop(), givenUp?.stop(), ...deleted.map((each) => each.stop())])
    }
    return { link, pull, givenUp, over, end }
  }

  #room(): ReturnType<PullOptions['room']> {
    const { room, roomBytes, size } = this.#deliveries
    return { messages: room, bytes: roomBytes, empty: size === 0 }
  }

  #openPull(link: Link, { limits, maxDeliver }: FoundConsumer, broken: PullOptions['broken']): Pull {
    const { plan, settings } = this.#options
    const receive = (messages: readonly Msg[]): void => this.#take(link, messages, maxDeliver)
    const { heartbeatMs } = settings
    const { stream, name: consumer } = plan
    const enquire = plan.declare !== 'none'
    const room = (): ReturnType<PullOptions['room']> => this.#room()
    return new Pull({ link, stream, consumer, heartbeatMs, limits, enquire, room, receive, broken })
  }

  async #openGivenUp(link: Link, { replicas }: FoundConsumer, broken: PullOptions['broken']): Promise<GivenUp> {
    const { plan, settings } = this.#options
    const { heartbeatMs } = settings
    const report = (error: HapaxError): void => this.#tell(error)
    const again = this.#session !== undefined
    const hand = (incoming: Incoming<AckHandle>): void => this.#hand([incoming])
    const room = (): ReturnType<PullOptions['room']> => this.#room()
    return GivenUp.open({ link, plan, heartbeatMs, room, broken, hand, report }, { replicas, again })
  }

  /** The server reports a deletion in reply to an open request. A reader without room has none, and learns of it here. */
  #watchDeletion(link: Link, broken: PullOptions['broken']): ReturnType<Link['listen']>[] {
    const { name, stream } = this.#options.plan
    const error = new HapaxError('topology-mismatch', `consumer ${name} of ${stream} was deleted`)
    const subjects = [`CONSUMER.DELETED.${stream}.${name}`, `STREAM.DELETED.${stream}`]
    return subjects.map((subject) => link.listen(`$JS.EVENT.ADVISORY.${subject}`, () => broken(error, true)))
  }

  #take(link: Link, messages: readonly Msg[], maxDeliver = Number.POSITIVE_INFINITY): void {
    this.#hand(
      messages.map((message) => {
        const reply = message.reply ?? ''
        const position = positionOf(reply) ?? { stream: this.#options.plan.stream, seq: '', deliveryCount: 1 }
        // The last delivery counts as redelivered, so that the message is stored before its handler runs: a crash would lose it.
        const redelivered = position.deliveryCount > 1 || position.deliveryCount >= maxDeliver
        const arrival = arrivalOf(readable(message), position, { redelivered, refused: undefined })
        return { arrival, bytes: message.data.byteLength, handle: new AckHandle(link, reply) }
      }),
    )
  }

  #hand(incoming: readonly Incoming<AckHandle>[]): void {
    if (this.#givesBack) for (const { handle } of incoming) handle.giveBack()
    else if (this.#pausing !== undefined) this.#late.push(...incoming)
    else this.#deliveries.hand(incoming)
  }
}

/** The client throws at malformed headers. They are left out, and the message is refused later for what is missing. */
function readable(message: Msg): Pick<Msg, 'subject' | 'data'> & { headers: Msg['headers'] } {
  const { subject, data } = message
  try {
    return { subject, data, headers: message.headers }
  } catch {
    return { subject, data, headers: undefined }
  }
}

const CLOSE_MS = 1_000
/** Longer than `CLOSE_MS`: what is given back while a request is open may be lost to all readers until its ack time is over. */
const STOP_ASKING_MS = 3_000
/** The ack time of the consumer of advisories. */
const GIVEN_UP_WAIT_MS = 30_000
