import type { HapaxError } from '../../../base/index.ts'
import { pause, retryDelay, systemClock, systemRandom, within } from '../../../base/index.ts'
import type { Delivery, Prefetch, Reader } from '../../../contracts/index.ts'
import { Deliveries } from '../../kit/index.ts'
import type { KafkaAdmin, KafkaConsumer, KafkaMember, KafkaMetadata } from '../client.ts'
import { brokerError, isPassing, isStale } from '../errors.ts'
import { closeClient, listen } from '../link.ts'
import { Assignment, type KafkaHandle } from './assignment.ts'
import { Committer } from './committer.ts'
import { Fetcher } from './fetcher.ts'
import { type From, findHorizon, findPositions } from './positions.ts'

/** What a reader needs to know. */
export interface ReaderSettings {
  readonly name: string
  readonly topics: readonly string[]
  readonly from: From
  readonly commitIntervalMs: number
  readonly maxWaitMs: number
  readonly horizonMs: number | undefined
  readonly prefetch: Prefetch
  receive(deliveries: readonly Delivery[]): void
  report(error: HapaxError): void
}

/** Two consumers, because a fetch that waits for messages must not hold up the heartbeats of the member. */
export interface ReaderClients {
  readonly member: KafkaMember
  readonly fetching: KafkaConsumer
  readonly admin: KafkaAdmin
}

interface Joined {
  readonly memberId: string
  readonly generationId?: number
  readonly isLeader?: boolean
  readonly assignments?: readonly { topic: string; partitions: readonly number[] }[]
}

/**
 * A member of a group. Every rebalance ends one assignment and begins another: what is in hand is forgotten, and the next owner of
 * a partition begins at its committed offset. So no message is lost, and one that comes twice is a duplicate.
 */
export class KafkaReader implements Reader {
  horizonMs: number | undefined
  readonly #settings: ReaderSettings
  readonly #clients: ReaderClients
  readonly #deliveries: Deliveries<KafkaHandle>
  readonly #fetcher: Fetcher
  readonly #committer: Committer
  readonly #closing = new AbortController()
  /** The parts that fail at present. Only the first of them is reported. */
  readonly #troubled = new Set<string>()
  #assignment: Assignment | undefined
  #generation: string | undefined
  /** The partition counts of the topics as last seen, and those that this member assigned as the leader. */
  #known: readonly number[] = []
  #shared: readonly number[] | undefined
  #joining: Promise<void> | undefined
  #closed: Promise<void> | undefined
  #pumping = false
  #paused = false
  /** Heartbeats in a row without an answer. */
  #missed = 0

  constructor(settings: ReaderSettings, clients: ReaderClients) {
    this.#settings = settings
    this.#clients = clients
    this.#deliveries = new Deliveries({
      prefetch: settings.prefetch,
      receive: settings.receive,
      answered: () => this.#pumpSoon(),
    })
    this.#fetcher = new Fetcher({
      consumer: clients.fetching,
      deliveries: this.#deliveries,
      maxWaitMs: settings.maxWaitMs,
      assignment: () => (this.#paused ? undefined : this.#assignment),
      went: (error) => this.#went('fetch', error),
      lost: (error) => settings.report(error),
    })
    this.#committer = new Committer({
      consumer: clients.member,
      intervalMs: settings.commitIntervalMs,
      // Offsets of an old generation cannot be committed any more. The heartbeat reports the same.
      went: (error) => this.#went('commit', isStale(error) ? undefined : error),
      committed: () => this.#fetcher.pump(),
    })
  }

  /** Joins the group. Rejects when the broker refuses or cannot be reached. */
  async open(): Promise<void> {
    const { member, fetching, admin } = this.#clients
    const { topics, horizonMs } = this.#settings
    for (const client of [member, fetching, admin]) listen(client)
    for (const topic of topics) {
      member.topics.track(topic)
      fetching.topics.track(topic)
    }
    this.#follow(member)
    await member.metadata({ topics: [...topics] })
    const horizon = horizonMs ?? findHorizon(topics, admin)
    await this.#join((error) => {
      if (!isPassing(error)) throw error
    })
    this.horizonMs = await horizon
    await closeClient(admin, CLOSE_MS)
  }

  async pause(): Promise<void> {
    this.#paused = true
    this.#deliveries.pause()
    // Not awaited: the broker may be unreachable, and `close` commits once more.
    void this.#committer.flush()
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#closing.abort()
    this.#paused = true
    this.#fetcher.close()
    const { member, fetching, admin } = this.#clients
    await within(systemClock, CLOSE_MS, this.#commitLast(), () => {})
    this.#end()
    await Promise.all([member, fetching, admin].map((client) => closeClient(client, CLOSE_MS)))
  }

  async #commitLast(): Promise<void> {
    // The first call may join a commit that is already under way.
    await this.#committer.flush()
    await this.#committer.flush()
  }

  #follow(member: KafkaMember): void {
    member.on('consumer:group:join', (joined: Joined) => this.#begin(joined))
    member.on('consumer:group:rebalance', () => this.#revoke())
    member.on('client:metadata', (metadata: KafkaMetadata) => this.#look(metadata))
    member.on('consumer:heartbeat:end', () => this.#beat(undefined))
    member.on('consumer:heartbeat:error', ({ error }: { error: Error }) => this.#beat(error))
    // The client has given up and sends no more heartbeats.
    member.on('error', (error: Error) => this.#rejoin(error))
    member.on('consumer:heartbeat:stalled', () => this.#rejoin(new Error('no heartbeat was answered')))
  }

  /** One lost heartbeat is no outage of its own: the next one is sent long before the session ends. */
  #beat(error: Error | undefined): void {
    this.#missed = error === undefined ? 0 : this.#missed + 1
    if (this.#missed !== 1) this.#went('heartbeat', error)
  }

  /** Once for all answers of the same tick. */
  #pumpSoon(): void {
    if (this.#pumping) return
    this.#pumping = true
    queueMicrotask(() => {
      this.#pumping = false
      this.#fetcher.pump()
    })
  }

  /** The group rebalances: finished offsets are committed before this member joins again, and the rest is dropped. */
  #revoke(): void {
    void this.#committer.flush()
    this.#end()
  }

  #end(): void {
    this.#committer.stop()
    this.#assignment = undefined
    this.#generation = undefined
    this.#deliveries.forget()
  }

  /** Partitions that were added are assigned only by a new join, which the leader has to start. */
  #look({ topics }: KafkaMetadata): void {
    this.#known = this.#settings.topics.map((topic) => topics.get(topic)?.partitionsCount ?? 0)
    const grown = this.#shared?.some((count, at) => count < (this.#known[at] ?? 0))
    if (!grown || this.#assignment === undefined || this.#joining !== undefined) return
    this.#revoke()
    this.#joinAgain()
  }

  #begin({ memberId, generationId, isLeader, assignments = [] }: Joined): void {
    const generation = `${memberId} ${generationId}`
    // The client may emit the event twice.
    if (this.#closing.signal.aborted || generation === this.#generation) return
    this.#end()
    this.#generation = generation
    this.#shared = isLeader ? this.#known : undefined
    const window = Math.max(MIN_WINDOW, 2 * this.#settings.prefetch.messages)
    const assignment = new Assignment(assignments, window)
    this.#assignment = assignment
    this.#troubled.clear()
    void this.#start(assignment)
  }

  /** Looks up the positions, then begins to fetch. */
  async #start(assignment: Assignment): Promise<void> {
    for (let attempt = 1; assignment === this.#assignment; attempt++) {
      try {
        await findPositions(assignment, this.#settings.from, this.#clients.fetching)
        if (assignment !== this.#assignment) return
        this.#went('offsets', undefined)
        this.#committer.serve(assignment)
        return this.#fetcher.pump()
      } catch (error) {
        if (assignment !== this.#assignment) return
        this.#went('offsets', error)
        this.#clients.fetching.clearMetadata()
        await this.#backOff(attempt)
      }
    }
  }

  /** Tries to join until it succeeds or the reader is closed. `failed` may throw to give up. */
  async #join(failed: (error: unknown) => void): Promise<void> {
    for (let attempt = 1; !this.#closing.signal.aborted; attempt++) {
      try {
        await this.#clients.member.joinGroup({})
        this.#went('group', undefined)
        return
      } catch (error) {
        failed(error)
        await this.#backOff(attempt)
      }
    }
  }

  #rejoin(error: Error): void {
    if (this.#closing.signal.aborted || this.#joining !== undefined) return
    this.#joinFailed(error)
    this.#end()
    this.#joinAgain()
  }

  /** A join that fails because others join at the same time is normal, and not reported. */
  #joinFailed(error: unknown): void {
    if (!isStale(error)) this.#went('group', error)
  }

  #joinAgain(): void {
    this.#joining = this.#join((error) => this.#joinFailed(error)).finally(() => {
      this.#joining = undefined
    })
  }

  #backOff(attempt: number): Promise<void> {
    return pause(systemClock, retryDelay(BACKOFF, attempt, systemRandom), this.#closing.signal)
  }

  /** Reports an outage once, and the next one only after all parts have worked again. */
  #went(part: string, error: unknown): void {
    if (error === undefined) {
      this.#troubled.delete(part)
      return
    }
    const first = this.#troubled.size === 0
    this.#troubled.add(part)
    if (first && !this.#closing.signal.aborted) {
      this.#settings.report(brokerError(`${this.#settings.name} is interrupted`, error))
    }
  }
}

/** How many messages of a partition may be handed out and not committed, at least. */
const MIN_WINDOW = 1_000
const CLOSE_MS = 2_000
const BACKOFF = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 100, maxDelayMs: 10_000, factor: 2 }
