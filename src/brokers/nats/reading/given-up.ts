import type { JetStreamManager, StoredMsg } from '@nats-io/jetstream'
import type { Msg } from '@nats-io/transport-node'
import { HapaxError } from '../../../base/index.ts'
import type { Handle, Incoming } from '../../kit/index.ts'
import { NO_LIMITS } from '../consumers.ts'
import { API, brokerError } from '../errors.ts'
import type { Listener } from '../link.ts'
import type { ConsumerPlan } from '../options.ts'
import { compareAll, found, made, nanos } from '../streams.ts'
import { arrivalOf } from '../wire.ts'
import { AckHandle } from './handle.ts'
import { Pull, type PullOptions } from './pull.ts'

// When a message reaches the delivery limit of its consumer, the server publishes one advisory and never delivers it again. The
// message stays in the stream unseen. An advisory that is missed is a message lost to the consumer, so advisories are captured by a
// work-queue stream and acked only once the message is in the failed store.

/** The name of the consumer of that stream. */
const READER = 'hapax'

/** The fields of an advisory that are read here. */
interface Advisory {
  readonly stream_seq: number
  readonly deliveries: number
  readonly timestamp: string
}

/** What it shares with the reader. */
export interface GivenUpOptions extends Pick<PullOptions, 'link' | 'heartbeatMs' | 'room' | 'broken'> {
  readonly plan: ConsumerPlan
  hand(incoming: Incoming<AckHandle>): void
  report(error: HapaxError): void
}

/** Hands out the messages that the server has stopped delivering. */
export class GivenUp {
  readonly #options: GivenUpOptions
  readonly #notes: Pull | Listener

  private constructor(options: GivenUpOptions, kept: boolean) {
    this.#options = options
    this.#notes = kept ? this.#pull() : this.#listen()
  }

  /** Begins to listen. Must complete before the consumer is read, because a read can trigger the advisory. */
  static async open(
    options: GivenUpOptions,
    { replicas, again }: { readonly replicas: number; readonly again: boolean },
  ): Promise<GivenUp> {
    const { plan, link } = options
    if (plan.declare === 'assert') await makeStream(link.manager, plan, replicas)
    const kept = plan.declare !== 'none' && (plan.declare === 'assert' || (await isThere(link.manager, plan)))
    if (!kept && !again) options.report(unkept(plan))
    return new GivenUp(options, kept)
  }

  ask(): void {
    if (this.#notes instanceof Pull) this.#notes.ask()
  }

  async stop(): Promise<void> {
    await this.#notes.stop()
  }

  #pull(): Pull {
    const { link, plan, room } = this.#options
    return new Pull({
      ...this.#options,
      stream: streamOf(plan),
      consumer: READER,
      limits: NO_LIMITS,
      enquire: true,
      room: () => ({ ...room(), messages: Math.min(1, room().messages) }),
      receive: (messages) => {
        for (const message of messages) this.#take(message, new AckHandle(link, message.reply ?? ''))
      },
    })
  }

  /** Listens without a stream, in a queue group: one reader has to hear each advisory. */
  #listen(): Listener {
    const { link, plan } = this.#options
    const hear = (message: Msg): void => this.#take(message, new Unkept(link, ''))
    return link.listen(subjectOf(plan), hear, { queue: `hapax-${plan.name}` })
  }

  #take(message: Msg, handle: AckHandle): void {
    void this.#fetch(message, handle).catch((error: unknown) => {
      if (this.#options.link.lost.aborted) return
      this.#options.report(brokerError(`what ${this.#options.plan.name} gave up cannot be read`, error))
      // Try again later; the cause may have passed.
      handle.reject(RETRY_MS)
    })
  }

  async #fetch(message: Msg, handle: AckHandle): Promise<void> {
    const { plan, link, hand, report } = this.#options
    const advisory: Advisory = JSON.parse(Buffer.from(message.data).toString())
    const stored = await storedMessage(link.manager, plan.stream, advisory.stream_seq)
    if (link.lost.aborted) return
    // If the stream was deleted and created again, another message may have the same number.
    if (stored === undefined || Date.parse(advisory.timestamp) < stored.time.getTime()) {
      report(lost(plan, advisory))
      return handle.ack()
    }
    hand({ arrival: arrival(stored, plan, advisory), bytes: stored.data.byteLength, handle })
  }
}

/** The handle of an advisory that no stream keeps: there is nothing to ack. */
class Unkept extends AckHandle implements Handle {
  override ack(): void {}
  override giveBack(): void {}
  override working(): void {}
  override reject(): boolean {
    return false
  }
}

const RETRY_MS = 5_000
const ACK_WAIT_MS = 30_000

function arrival(stored: StoredMsg, { stream }: ConsumerPlan, { deliveries }: Advisory): Incoming<Handle>['arrival'] {
  const { subject, data, header: headers, seq } = stored
  const position = { stream, seq: String(seq), deliveryCount: deliveries }
  const refused = new HapaxError('given-up-by-broker', `the broker gave up after ${deliveries} deliveries`)
  return arrivalOf({ subject, data, headers }, position, { redelivered: true, refused })
}

/** The stream that keeps the advisories. */
function streamOf({ stream, name }: ConsumerPlan): string {
  return `HAPAX_GIVEN_UP_${stream}_${name}`
}

function subjectOf({ stream, name }: ConsumerPlan): string {
  return `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.${stream}.${name}`
}

/** One line for people, as `topology()` shows it. */
export function describeGivenUp(plan: ConsumerPlan): string {
  const { name, maxDeliver, declare } = plan
  return `stream ${streamOf(plan)}: what ${name} gave up after ${maxDeliver} deliveries, until it is stored (${declare})`
}

async function makeStream(manager: JetStreamManager, plan: ConsumerPlan, replicas: number): Promise<void> {
  const name = streamOf(plan)
  const subjects = [subjectOf(plan)]
  const config = { name, subjects, retention: 'workqueue', storage: 'file', num_replicas: replicas } as const
  const there = await found(`stream ${name}`, API.streamNotFound, () => manager.streams.info(name))
  if (there === undefined) await made(`stream ${name} cannot be made`, () => manager.streams.add(config))
  else compareAll(`stream ${name}`, { subjects: subjects.join() }, { subjects: there.config.subjects?.join() })
  await made(`consumer ${READER} of ${name} cannot be made`, () =>
    manager.consumers.add(name, { durable_name: READER, ack_policy: 'explicit', ack_wait: nanos(ACK_WAIT_MS) }),
  )
}

async function isThere(manager: JetStreamManager, plan: ConsumerPlan): Promise<boolean> {
  const name = streamOf(plan)
  if ((await found(`stream ${name}`, API.streamNotFound, () => manager.streams.info(name))) === undefined) return false
  const info = (): Promise<unknown> => manager.consumers.info(name, READER)
  return (await found(`consumer ${READER} of ${name}`, API.consumerNotFound, info)) !== undefined
}

/** The message with this number; undefined if it is no longer in the stream. */
async function storedMessage(manager: JetStreamManager, stream: string, seq: number): Promise<StoredMsg | undefined> {
  return (
    (await made(`message ${seq} of ${stream} cannot be read`, () => manager.streams.getMessage(stream, { seq }))) ??
    undefined
  )
}

function lost({ name, stream }: ConsumerPlan, { stream_seq, deliveries }: Advisory): HapaxError {
  const what = `message ${stream_seq} of ${stream} was given up by ${name} after ${deliveries} deliveries`
  return new HapaxError('given-up-by-broker', `${what}, and the stream does not have it any more`)
}

function unkept(plan: ConsumerPlan): HapaxError {
  const { name, stream, declare } = plan
  return new HapaxError(
    'topology-mismatch',
    `consumer ${name} of ${stream} has a delivery limit, and declare is '${declare}': what it gives up while no reader ` +
      `listens stays in the stream and is not seen; stream ${streamOf(plan)} with consumer ${READER} would keep it`,
  )
}
