import { fieldOf, HapaxError, retryDelay, systemClock, systemRandom } from '../../../base/index.ts'
import type { Deliveries, Incoming } from '../../kit/index.ts'
import type { KafkaConsumer, KafkaFetchResponse } from '../client.ts'
import { chainOf, isAnswer, isLate, OFFSET_OUT_OF_RANGE } from '../errors.ts'
import type { Assignment, KafkaHandle, Partition } from './assignment.ts'
import { readRecords } from './records.ts'

/** What a fetcher needs of its reader. */
export interface FetcherOptions {
  readonly consumer: KafkaConsumer
  readonly deliveries: Deliveries<KafkaHandle>
  readonly maxWaitMs: number
  /** The current assignment; undefined while there is none, or while the reader is paused. */
  assignment(): Assignment | undefined
  /** Called after each fetch: with the error, or with undefined after a success. */
  went(error: unknown): void
  /** Called when messages expired in Kafka before they were read. */
  lost(error: HapaxError): void
}

/** Fetches as much as there is room for, one request per broker at a time, and hands it out. */
export class Fetcher {
  readonly #options: FetcherOptions
  /** Brokers with an open request. */
  readonly #asked = new Set<number>()
  #looking = false
  /** Whether `pump` was called while metadata was being looked up. */
  #again = false
  #failures = 0
  /** Whose last fetch was not answered in time. */
  readonly #late = new WeakSet<Partition>()
  #first = 0
  #cancel: (() => void) | undefined
  #closed = false

  constructor(options: FetcherOptions) {
    this.#options = options
  }

  /** Hands out what was fetched, and fetches more where there is room. */
  pump(): void {
    const assignment = this.#options.assignment()
    if (assignment === undefined || this.#closed) return
    this.#handOut(assignment)
    const now = systemClock.monotonic()
    const wanted = assignment.partitions.filter((each) => each.wantsMore)
    this.#pumpLater(wanted, now)
    this.#again = this.#looking
    if (this.#looking || this.#options.deliveries.room === 0) return
    const due = wanted.filter(({ notBefore }) => notBefore <= now)
    if (due.length > 0) void this.#ask(assignment, due)
  }

  close(): void {
    this.#closed = true
    this.#cancel?.()
  }

  /** Starts with another partition each time, so that a busy one does not starve the others. */
  #handOut({ partitions }: Assignment): void {
    const { deliveries } = this.#options
    let { room, roomBytes } = deliveries
    const incoming: Incoming<KafkaHandle>[] = []
    this.#first = (this.#first + 1) % Math.max(1, partitions.length)
    for (const partition of [...partitions.slice(this.#first), ...partitions.slice(0, this.#first)]) {
      while (room > 0 && roomBytes > 0) {
        const next = partition.next()
        if (next === undefined) break
        incoming.push(next)
        room -= 1
        roomBytes -= next.bytes
      }
    }
    deliveries.hand(incoming)
  }

  async #ask(assignment: Assignment, due: readonly Partition[]): Promise<void> {
    const { consumer } = this.#options
    this.#looking = true
    try {
      const metadata = await consumer.metadata({ topics: [...new Set(due.map(({ topic }) => topic))] })
      const leaderOf = ({ topic, index }: Partition) => metadata.topics.get(topic)?.partitions[index]?.leader ?? -1
      for (const [node, partitions] of Map.groupBy(due, leaderOf)) {
        const asked = partitions.map((partition): Asked => {
          return { partition, from: partition.position ?? 0n, id: metadata.topics.get(partition.topic)?.id ?? '' }
        })
        if (node < 0) this.#failed(new FetchError('a partition has no leader at present'), partitions)
        else if (!this.#asked.has(node)) void this.#fetch(assignment, node, asked)
      }
    } catch (error) {
      this.#failed(error, due)
    } finally {
      this.#looking = false
    }
    if (this.#again) this.pump()
  }

  async #fetch(assignment: Assignment, node: number, asked: readonly Asked[]): Promise<void> {
    const { consumer, deliveries, maxWaitMs } = this.#options
    const maxBytes = Math.min(MAX_BYTES, Math.max(MIN_BYTES, deliveries.roomBytes))
    const topics = asked.map((each) => ({ topicId: each.id, partitions: [requestOf(each, maxBytes)] }))
    this.#asked.add(node)
    try {
      const request = { node, topics, minBytes: 1, maxBytes, maxWaitTime: maxWaitMs, isolationLevel: 1 } as const
      const response = await consumer.fetch(request).catch(responseIn)
      if (assignment === this.#options.assignment()) this.#took(asked, response)
    } catch (error) {
      const partitions = asked.map(({ partition }) => partition)
      this.#failed(error, partitions)
    } finally {
      this.#asked.delete(node)
    }
    this.pump()
  }

  #took(asked: readonly Asked[], { responses }: KafkaFetchResponse): void {
    const failed = new Map<Partition, number>()
    for (const { topicId, partitions } of responses) {
      for (const answer of partitions) {
        // A fetch session may also return partitions of an earlier request.
        const found = asked.find(({ id, partition }) => id === topicId && partition.index === answer.partitionIndex)
        if (found === undefined || found.partition.position !== found.from) continue
        const { partition, from } = found
        this.#late.delete(partition)
        if (answer.errorCode === 0) partition.add(readRecords(partition.topic, from, answer), answer.highWatermark)
        else if (answer.errorCode === OFFSET_OUT_OF_RANGE) void this.#skipToOldest(partition, from)
        else failed.set(partition, answer.errorCode)
      }
    }
    const codes = [...new Set(failed.values())].join(', ')
    if (failed.size === 0) this.#worked()
    else this.#failed(new FetchError(`fetching failed with the error ${codes} of Kafka's protocol`), [...failed.keys()])
  }

  /** The next offset has expired: retention was shorter than the lag. Continues with the oldest offset that is left, and reports it. */
  async #skipToOldest(partition: Partition, from: bigint): Promise<void> {
    const { topic, index } = partition
    partition.position = undefined
    try {
      const request = { topics: [topic], partitions: { [topic]: [index] }, timestamp: EARLIEST }
      const oldest = (await this.#options.consumer.listOffsets(request)).get(topic)?.[index]
      if (oldest === undefined || oldest < 0n) throw new Error(`the oldest offset of ${topic} is not known`)
      partition.position = oldest
      const what = `messages of ${topic}, partition ${index}, are gone: offset ${from} was next, ${oldest} is the oldest`
      this.#options.lost(new HapaxError('broker-refused', what, { fields: { topic, partition: index } }))
    } catch (error) {
      partition.position = from
      this.#failed(error, [partition])
    }
    this.pump()
  }

  #worked(): void {
    this.#failures = 0
    this.#options.went(undefined)
  }

  /** Leader changes and expired sessions are normal: an error that a broker returns is reported only if it persists. */
  #failed(error: unknown, partitions: readonly Partition[]): void {
    if (this.#closed) return
    this.#failures += 1
    this.#postpone(partitions)
    this.#options.consumer.clearMetadata()
    const answered = error instanceof FetchError || isAnswer(error)
    // One late answer is no proof: this process may have stood still, with the answer in its socket.
    const once = isLate(error) && !partitions.some((each) => this.#late.has(each))
    if (isLate(error)) for (const each of partitions) this.#late.add(each)
    if ((!answered && !once) || this.#failures > QUIET_FAILURES) this.#options.went(error)
    this.pump()
  }

  #postpone(partitions: readonly Partition[]): void {
    const until = systemClock.monotonic() + retryDelay(BACKOFF, this.#failures, systemRandom)
    for (const each of partitions) each.notBefore = until
  }

  /** Schedules the next attempt for partitions that failed. */
  #pumpLater(wanted: readonly Partition[], now: number): void {
    this.#cancel?.()
    const times = wanted.map(({ notBefore }) => notBefore).filter((each) => each > now)
    if (times.length > 0) this.#cancel = systemClock.after(Math.min(...times) - now, () => this.pump())
  }
}

/** An error code that a broker returned. */
class FetchError extends Error {}

/** A partition, the offset that was requested, and the id of its topic. */
interface Asked {
  readonly partition: Partition
  readonly from: bigint
  readonly id: string
}

/** The timestamp that means the oldest offset in the protocol. */
const EARLIEST = -2n
/** Errors in a row that are not reported. */
const QUIET_FAILURES = 3
const MIN_BYTES = 64 * 1024
const MAX_BYTES = 4 * 1024 * 1024
const PARTITION_BYTES = 1024 * 1024
const BACKOFF = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 50, maxDelayMs: 10_000, factor: 2 }

function requestOf({ partition, from }: Asked, maxBytes: number) {
  const partitionMaxBytes = Math.min(PARTITION_BYTES, maxBytes)
  const epochs = { currentLeaderEpoch: -1, lastFetchedEpoch: -1 }
  return { partition: partition.index, fetchOffset: from, partitionMaxBytes, ...epochs }
}

/** The client fails a fetch as a whole when one partition fails. The response for the others is inside the error. */
function responseIn(error: unknown): KafkaFetchResponse {
  for (const { response } of chainOf(error)) {
    if (isFetchResponse(response)) return response
  }
  throw error
}

/** An error of the whole response says nothing about single partitions. */
function isFetchResponse(response: unknown): response is KafkaFetchResponse {
  return Array.isArray(fieldOf(response, 'responses')) && !fieldOf(response, 'errorCode')
}
