import type { ConsumerConfig, ConsumerInfo, JetStreamManager, StreamInfo } from '@nats-io/jetstream'
import { API, apiCode } from './errors.ts'
import type { ConsumerPlan, StreamPlan } from './options.ts'
import { compareAll, ensureStream, findStream, found, made, millis, mismatch, nanos } from './streams.ts'

/** What reading needs to know of a consumer on the server. */
export interface FoundConsumer {
  /** When it was created, which tells it from a later consumer of the same name. Unknown with `declare: 'none'`. */
  readonly created: string | undefined
  readonly ackWaitMs: number
  /** How often a message is delivered at most; undefined: no limit. */
  readonly maxDeliver: number | undefined
  readonly limits: RequestLimits
  /** For how long the stream keeps messages; undefined: without a limit, or not known. */
  readonly horizonMs: number | undefined
  readonly replicas: number
}

/** How much one pull request may ask for. The server refuses a request that exceeds a limit of the consumer. */
export interface RequestLimits {
  readonly messages: number
  readonly bytes: number
  readonly expiresMs: number
}

export const NO_LIMITS: RequestLimits = {
  messages: Number.POSITIVE_INFINITY,
  bytes: Number.POSITIVE_INFINITY,
  expiresMs: Number.POSITIVE_INFINITY,
}

/** The default of the server. */
const ACK_WAIT_MS = 30_000

/**
 * Creates the consumer, or compares the existing one, as the plan says; first the stream, if this process declares it too.
 * A consumer that existed before and was deleted begins where it began then, so that no message is skipped. Returns undefined if
 * the stream does not exist yet: its sender creates it.
 */
export async function ensureConsumer(
  manager: JetStreamManager,
  plan: ConsumerPlan,
  stream: StreamPlan | undefined,
  before: FoundConsumer | undefined,
): Promise<FoundConsumer | undefined> {
  if (plan.declare === 'none') return unseen(plan)
  if (plan.declare === 'assert' && stream !== undefined) await ensureStream(manager, stream)
  const there = await findStream(manager, plan.stream)
  if (there === undefined && plan.declare === 'assert') return undefined
  if (there === undefined) throw mismatch(`stream ${plan.stream}`, 'to exist', 'no such stream')
  const info = (await findConsumer(manager, plan)) ?? (await make(manager, plan, before?.created))
  compare(plan, info.config)
  return seen(info, there)
}

function unseen({ ackWaitMs = ACK_WAIT_MS, maxDeliver }: ConsumerPlan): FoundConsumer {
  const unknown = { created: undefined, horizonMs: undefined }
  return { ...unknown, ackWaitMs, maxDeliver, limits: NO_LIMITS, replicas: 1 }
}

function seen({ config, created }: ConsumerInfo, stream: StreamInfo): FoundConsumer {
  const { ack_wait = nanos(ACK_WAIT_MS), max_deliver = -1 } = config
  const { max_age, num_replicas } = stream.config
  return {
    created,
    ackWaitMs: millis(ack_wait),
    maxDeliver: max_deliver > 0 ? max_deliver : undefined,
    limits: limitsOf(config),
    horizonMs: max_age > 0 ? millis(max_age) : undefined,
    replicas: num_replicas,
  }
}

/** The server omits a limit that is not set, or reports 0. */
function limitsOf({ max_batch, max_bytes, max_expires }: ConsumerConfig): RequestLimits {
  return {
    messages: max_batch || NO_LIMITS.messages,
    bytes: max_bytes || NO_LIMITS.bytes,
    expiresMs: max_expires ? millis(max_expires) : NO_LIMITS.expiresMs,
  }
}

async function findConsumer(
  manager: JetStreamManager,
  { stream, name }: ConsumerPlan,
): Promise<ConsumerInfo | undefined> {
  return found(`consumer ${name} of ${stream}`, API.consumerNotFound, () => manager.consumers.info(stream, name))
}

async function make(
  manager: JetStreamManager,
  plan: ConsumerPlan,
  createdBefore: string | undefined,
): Promise<ConsumerInfo> {
  const what = `consumer ${plan.name} of ${plan.stream}`
  if (plan.declare === 'check') throw mismatch(what, 'to exist', 'no such consumer')
  const config = configOf(plan, createdBefore)
  return made(`${what} cannot be made`, async () => {
    try {
      return await manager.consumers.add(plan.stream, config)
    } catch (error) {
      // Another process may have created it at the same moment with other settings, which are compared then.
      const there = apiCode(error) === undefined ? undefined : await findConsumer(manager, plan)
      if (there === undefined) throw error
      return there
    }
  })
}

function configOf(plan: ConsumerPlan, createdBefore: string | undefined): Partial<ConsumerConfig> {
  const { name, filter, ackWaitMs = ACK_WAIT_MS, maxDeliver = -1, single } = plan
  return {
    durable_name: name,
    ack_policy: 'explicit',
    ack_wait: nanos(ackWaitMs),
    max_deliver: maxDeliver,
    // No limit here: the prefetch of the readers limits what is in hand.
    max_ack_pending: single ? 1 : -1,
    ...(filter === undefined ? {} : { filter_subject: filter }),
    ...beginning(plan, createdBefore),
  }
}

function beginning({ deliver }: ConsumerPlan, createdBefore: string | undefined): Partial<ConsumerConfig> {
  if (deliver === 'all') return { deliver_policy: 'all' }
  if (createdBefore === undefined) return { deliver_policy: 'new' }
  return { deliver_policy: 'by_start_time', opt_start_time: createdBefore }
}

function compare(plan: ConsumerPlan, config: ConsumerConfig): void {
  const what = `consumer ${plan.name} of ${plan.stream}`
  if (config.deliver_subject !== undefined) throw mismatch(what, 'to be one that is pulled from', 'a push consumer')
  const wanted: Partial<Record<keyof ConsumerConfig, unknown>> = {
    ack_policy: 'explicit',
    filter_subject: plan.filter,
    ack_wait: plan.ackWaitMs && nanos(plan.ackWaitMs),
    max_deliver: plan.maxDeliver,
    max_ack_pending: plan.single ? 1 : undefined,
  }
  compareAll(what, wanted, config)
  // A message that the server gave up would come later than messages sent after it.
  if (plan.single && (config.max_deliver ?? -1) > 0) {
    throw mismatch(what, 'to deliver any number of times, because single keeps the order', config.max_deliver)
  }
}

/** One line for people, as `topology()` shows it. */
export function describeConsumer(plan: ConsumerPlan): string {
  const { name, stream, filter = 'all subjects', ackWaitMs = ACK_WAIT_MS, maxDeliver, single, deliver, declare } = plan
  const often = maxDeliver === undefined ? 'any number of deliveries' : `at most ${maxDeliver} deliveries`
  const alone = single ? ', one message at a time' : ''
  return `consumer ${name} of ${stream}: ${filter}, ${deliver}; ack within ${ackWaitMs} ms, ${often}${alone} (${declare})`
}
