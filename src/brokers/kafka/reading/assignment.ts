import type { Handle, Incoming } from '../../kit/index.ts'
import { LowWater, type Place } from '../../kit/index.ts'
import type { KafkaOffset } from '../client.ts'
import { arrivalOf, type Fetched } from '../wire.ts'
import type { Read } from './records.ts'

/** The handle of a delivery. Answers to an assignment that has ended do nothing. */
export interface KafkaHandle extends Handle {
  readonly assignment: Assignment
}

type Position = Pick<Fetched, 'offset' | 'leaderEpoch'>

/** The partitions of this member, from one rebalance to the next. */
export class Assignment {
  readonly partitions: readonly Partition[]
  /** Called when there is something new to commit. */
  onFinished: (partition: Partition) => void = () => {}

  constructor(assigned: readonly { topic: string; partitions: readonly number[] }[], window: number) {
    this.partitions = assigned.flatMap(({ topic, partitions }) => {
      return partitions.map((index) => new Partition(this, topic, index, window))
    })
  }

  find(topic: string, index: number): Partition | undefined {
    return this.partitions.find((each) => each.topic === topic && each.index === index)
  }
}

/** One partition, while this member has it. */
export class Partition {
  readonly topic: string
  readonly index: number
  /** Where the next fetch begins; undefined until it is known. */
  position: bigint | undefined
  /** Not fetched before this time, because the last fetch failed. */
  notBefore = 0
  readonly #assignment: Assignment
  readonly #window: number
  readonly #places = new LowWater<Position>()
  #waiting: readonly Fetched[] = []
  /** How many of these have been handed out. */
  #taken = 0
  #skipped: Position | undefined
  /** The high watermark at the first fetch. Messages below it may have been delivered to another member before. */
  #oldBefore: bigint | undefined
  #handed = 0
  #finished = 0
  #committed = 0
  #mark: Position | undefined

  constructor(assignment: Assignment, topic: string, index: number, window: number) {
    this.#assignment = assignment
    this.topic = topic
    this.index = index
    this.#window = window
  }

  /** Begins at this offset. `mark`: commit it at once, because 'latest' would be another offset after a crash. */
  begin(position: bigint, mark: boolean): void {
    this.position = position
    if (mark) this.#mark = { offset: position - 1n, leaderEpoch: -1 }
  }

  /** Whether to fetch: the last fetch is used up, and the window has room. */
  get wantsMore(): boolean {
    return this.position !== undefined && this.#isEmpty && this.#hasRoom
  }

  /** Whether to commit now: half of the window is finished and not committed. */
  get isPressing(): boolean {
    return this.#finished - this.#committed >= this.#window / 2
  }

  /** Bounds what is redelivered after a crash to one window, even if the oldest message is never finished. */
  get #hasRoom(): boolean {
    return this.#handed - this.#committed < this.#window
  }

  get #isEmpty(): boolean {
    return this.#taken === this.#waiting.length
  }

  #forget(): void {
    this.#waiting = []
    this.#taken = 0
  }

  /** Takes in what was fetched. */
  add({ records, next, skipped }: Read, highWatermark: bigint): void {
    this.#oldBefore ??= highWatermark
    this.position = next
    this.#waiting = this.#waiting.slice(this.#taken).concat(records)
    this.#taken = 0
    this.#skipped = skipped
    this.#skip()
  }

  /** The next message, if there is room for it. */
  next(): Incoming<KafkaHandle> | undefined {
    const fetched = this.#hasRoom ? this.#waiting[this.#taken] : undefined
    if (fetched === undefined) return undefined
    this.#taken += 1
    if (this.#isEmpty) this.#forget()
    const redelivered = this.#handed < this.#window && fetched.offset < (this.#oldBefore ?? 0n)
    this.#handed += 1
    const place = this.#places.add(fetched)
    this.#skip()
    const handle: KafkaHandle = {
      assignment: this.#assignment,
      ack: () => this.#finish(place),
      // Not committing is enough: the next owner of the partition gets it.
      giveBack: () => {},
      reject: () => false,
    }
    return { arrival: arrivalOf(fetched, redelivered), bytes: fetched.bytes, handle }
  }

  /** The offset to commit, if there is a new one, and what to call once it is committed. */
  takeMark(): { readonly offset: KafkaOffset; readonly done: () => void } | undefined {
    const mark = this.#mark
    if (mark === undefined) return undefined
    const finished = this.#finished
    return {
      offset: { topic: this.topic, partition: this.index, offset: mark.offset + 1n, leaderEpoch: mark.leaderEpoch },
      done: () => {
        this.#committed = finished
        if (this.#mark === mark) this.#mark = undefined
      },
    }
  }

  #finish(place: Place<Position>): void {
    place.finished = true
    const advanced = this.#places.advance()
    if (advanced === undefined) return
    this.#mark = advanced.position
    this.#finished += advanced.count
    this.#assignment.onFinished(this)
  }

  /** Trailing offsets without a message (transaction markers) count as finished. Otherwise the group would seem to lag for ever. */
  #skip(): void {
    if (this.#skipped === undefined || !this.#isEmpty) return
    this.#handed += 1
    this.#finish(this.#places.add(this.#skipped))
    this.#skipped = undefined
  }
}
