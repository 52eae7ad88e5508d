import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { HapaxError, systemClock, within } from '../../../base/index.ts'
import type {
  KafkaBroker,
  KafkaConnection,
  KafkaConnections,
  KafkaConsumer,
  KafkaMember,
  KafkaOffset,
} from '../client.ts'
import { isStale } from '../errors.ts'
import { listen } from '../link.ts'

/** The requests of the newer protocol, as `@platformatic/kafka` exports them. */
export interface GroupRequests {
  readonly consumerGroupHeartbeatV1: {
    readonly api: {
      async(link: never, group: string, member: string, epoch: number, ...fields: Fields): Promise<Heartbeat>
    }
  }
  readonly findCoordinatorV4: {
    readonly api: { async(link: never, kind: 0, groups: string[]): Promise<{ readonly coordinators: KafkaBroker[] }> }
  }
}

type Fields = [
  instance: null,
  rack: null,
  rebalanceTimeoutMs: number,
  topics: string[],
  pattern: null,
  assignor: null,
  owned: Owned[],
]

interface Owned {
  readonly topicId: string
  readonly partitions: number[]
}

interface Heartbeat {
  readonly memberEpoch: number
  readonly heartbeatIntervalMs: number
  readonly assignment: { readonly topicPartitions: Owned[] } | null
}

/** What a member needs to know. */
export interface ConsumerMemberSettings {
  readonly group: string
  readonly topics: readonly string[]
  readonly sessionTimeoutMs: number
}

/**
 * A member of a group by the newer protocol (`group.protocol=consumer`): the brokers assign partitions, and only members whose
 * partitions change are told. The client knows the protocol as part of its stream, which hapax does not use. It emits the events of the client.
 */
export class ConsumerMember implements KafkaMember {
  readonly #client: KafkaConsumer
  readonly #requests: GroupRequests
  readonly #settings: ConsumerMemberSettings
  readonly #events = new EventEmitter()
  #id = ''
  #epoch = 0
  #owned: readonly Owned[] = []
  #coordinator: KafkaBroker | undefined
  #committing: Promise<void> = Promise.resolve()
  #intervalMs = FIRST_INTERVAL_MS
  #cancel: (() => void) | undefined
  /** Counts memberships and assignments: what belongs to an earlier one comes too late. */
  #membership = 0
  #assignments = 0

  constructor(client: KafkaConsumer, requests: GroupRequests, settings: ConsumerMemberSettings) {
    this.#client = client
    this.#requests = requests
    this.#settings = settings
    listen(client)
    client.on('client:metadata', (metadata) => this.#events.emit('client:metadata', metadata))
  }

  get topics(): KafkaConsumer['topics'] {
    return this.#client.topics
  }

  get connections(): KafkaConnections {
    return this.#client.connections
  }

  on(event: string, listener: (payload: never) => void): unknown {
    return this.#events.on(event, listener as (payload: unknown) => void)
  }

  metadata(options: { topics: string[] }): ReturnType<KafkaConsumer['metadata']> {
    return this.#client.metadata(options)
  }

  clearMetadata(): void {
    this.#client.clearMetadata()
  }

  /** Joins as a new member. Its partitions come with an event, perhaps later. */
  async joinGroup(): Promise<void> {
    this.#membership += 1
    this.#cancel?.()
    // Another broker may coordinate the group by now.
    this.#coordinator = undefined
    // If the brokers still know this member, its partitions would wait for it.
    if (this.#epoch > 0) void this.#ask(LEAVING, []).catch(() => {})
    this.#id = randomUUID()
    this.#epoch = 0
    this.#owned = []
    await this.#beat()
  }

  commit(options: { offsets: KafkaOffset[] }): Promise<void> {
    Object.assign(this.#client, { memberId: this.#id, generationId: this.#epoch })
    const committing = this.#client.commit(options)
    this.#committing = committing.catch(() => {})
    return committing
  }

  async close(): Promise<void> {
    this.#membership += 1
    this.#cancel?.()
    // It may be joining just now.
    if (this.#id !== '') await this.#ask(LEAVING, []).catch(() => {})
    // It has left as this member, not as one that the client knows of.
    Object.assign(this.#client, { memberId: null, generationId: 0 })
    await this.#client.close()
  }

  async #beat(): Promise<void> {
    const membership = this.#membership
    const { memberEpoch, heartbeatIntervalMs, assignment } = await this.#ask(this.#epoch, this.#owned)
    if (membership !== this.#membership) return
    this.#epoch = memberEpoch
    this.#intervalMs = heartbeatIntervalMs
    const changed = assignment !== null && textOf(assignment.topicPartitions) !== textOf(this.#owned)
    if (changed) await this.#take(assignment.topicPartitions, membership)
    this.#events.emit('consumer:heartbeat:end')
    // The brokers wait for the answer that partitions are given up.
    if (membership === this.#membership) this.#beatIn(changed ? 0 : this.#intervalMs)
  }

  #beatIn(ms: number): void {
    this.#cancel?.()
    this.#cancel = systemClock.after(ms, () => {
      const membership = this.#membership
      void this.#beat().catch((error) => {
        if (membership === this.#membership) this.#failed(error)
      })
    })
  }

  #failed(error: unknown): void {
    this.#coordinator = undefined
    if (isStale(error)) {
      this.#events.emit('error', error)
      return
    }
    this.#events.emit('consumer:heartbeat:error', { error })
    this.#beatIn(this.#intervalMs)
  }

  /** What was finished is committed before partitions are given up: then nobody else begins before it. */
  async #take(target: readonly Owned[], membership: number): Promise<void> {
    // First, because it may fail. Then the partitions stay as they are, until the next heartbeat.
    const assignments = await this.#named(target)
    if (membership !== this.#membership) return
    if (this.#owned.length > 0) this.#events.emit('consumer:group:rebalance')
    await within(systemClock, this.#settings.sessionTimeoutMs, this.#committing, () => {})
    if (membership !== this.#membership) return
    this.#owned = target
    this.#assignments += 1
    this.#events.emit('consumer:group:join', { memberId: this.#id, generationId: this.#assignments, assignments })
  }

  /** A broker that was asked may not know of a new topic yet. */
  async #named(target: readonly Owned[]): Promise<readonly { topic: string; partitions: number[] }[]> {
    const { topics } = await this.#client.metadata({ topics: [...this.#settings.topics] })
    const names = new Map([...topics].map(([name, topic]) => [topic?.id, name]))
    return target.map(({ topicId, partitions }) => {
      const topic = names.get(topicId)
      if (topic === undefined) throw new Error(`the topic with the id ${topicId} is not known yet`)
      return { topic, partitions }
    })
  }

  async #ask(epoch: number, owned: readonly Owned[]): Promise<Heartbeat> {
    const { group, topics, sessionTimeoutMs } = this.#settings
    const id = this.#id
    const link = await this.#link()
    const names = epoch === LEAVING ? [] : [...topics]
    const { api } = this.#requests.consumerGroupHeartbeatV1
    const fields: Fields = [null, null, sessionTimeoutMs, names, null, null, [...owned]]
    const answer = api.async(link as never, group, id, epoch, ...fields)
    return within(systemClock, Math.ceil(sessionTimeoutMs / 2), answer, () => {
      link.socket?.destroy()
      throw new HapaxError('broker-timeout', 'no heartbeat was answered')
    })
  }

  /** The link to the broker that coordinates the group. */
  async #link(): Promise<KafkaConnection> {
    const { connections } = this.#client
    if (this.#coordinator === undefined) {
      const { brokers } = await this.#client.metadata({ topics: [...this.#settings.topics] })
      // The client would look for the first of none until its stack is full.
      if (brokers.size === 0) throw new HapaxError('broker-unavailable', 'the cluster names no broker yet')
      const any = await connections.getFirstAvailable([...brokers.values()])
      const { coordinators } = await this.#requests.findCoordinatorV4.api.async(any as never, GROUP, [
        this.#settings.group,
      ])
      this.#coordinator = coordinators[0]
    }
    if (this.#coordinator === undefined) throw new Error('no broker coordinates the group')
    return connections.get(this.#coordinator)
  }
}

/** The epoch of a member that leaves. */
const LEAVING = -1
const GROUP = 0
const FIRST_INTERVAL_MS = 1_000

function textOf(owned: readonly Owned[]): string {
  const all = owned.flatMap(({ topicId, partitions }) => partitions.map((partition) => `${topicId} ${partition}`))
  return all.toSorted().join()
}
