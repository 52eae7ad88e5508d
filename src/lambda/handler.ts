import { able, type Clock, expected, noOthers, oneOf, positiveInteger, systemClock } from '../base/index.ts'
import type { Outcome } from '../contracts/index.ts'
import { checkMapping, decodeArrival, type IncomingMessage, type Mapping } from '../message/index.ts'
import {
  arrivalOf,
  attributesOf,
  type LambdaContext,
  type SqsBatchResponse,
  type SqsEvent,
  type SqsRecord,
} from './records.ts'

/** Options of `sqsHandler`. Those of a mapping say where attributes are found that the message does not have by itself. */
export interface SqsHandlerOptions extends Mapping {
  /**
   * What stands around the messages: nothing; a notification of SNS, if the subscription has no raw message delivery; or an event of
   * EventBridge, whose detail is the data. @default 'none'
   */
  readonly envelope?: 'none' | 'sns' | 'eventbridge'
  /**
   * How long before the time-out of the function no more records are taken and running handlers are told to stop. What has not finished
   * after half of it is returned to the queue. @default 2_000
   */
  readonly marginMs?: number
}

/** What takes the messages: a consumer of any kind. */
interface Taking {
  handleMany(
    messages: readonly IncomingMessage[],
    signal?: AbortSignal,
    settled?: (index: number, outcome: Outcome) => void,
  ): Promise<readonly Outcome[]>
}

/** A function for Lambda that SQS feeds. */
type SqsHandler = (event: SqsEvent, context: LambdaContext) => Promise<SqsBatchResponse>

/**
 * A handler for a Lambda function with `ReportBatchItemFailures`. Each record is a message of the consumer; those that it could not take are
 * returned to the queue, and only those. It never rejects because of a message or the database.
 */
export function sqsHandler(consumer: Taking, options: SqsHandlerOptions = {}): SqsHandler {
  able('consumer', 'a consumer', consumer, ['handleMany'])
  noOthers('options of sqsHandler', options, ['envelope', 'marginMs', 'id', 'type', 'source', 'key'])
  const envelope = oneOf('envelope', ['none', 'sns', 'eventbridge'], options.envelope, 'none')
  const marginMs = positiveInteger('marginMs', options.marginMs, 2_000)
  const { id, type, source, key } = options
  const mapping = checkMapping({
    ...(id !== undefined && { id }),
    ...(type !== undefined && { type }),
    ...(source !== undefined && { source }),
    ...(key !== undefined && { key }),
  })
  const read = (record: SqsRecord): IncomingMessage => decodeArrival(arrivalOf(record, envelope), mapping, MAX_BYTES)
  return async (event, context) => {
    const { Records: records } = event
    if (!Array.isArray(records)) expected('event', 'one of SQS, with Records', event)
    const time = new Time(systemClock, context.getRemainingTimeInMillis(), marginMs)
    try {
      return await new Batch(consumer, read, time).take(records)
    } finally {
      time.end()
    }
  }
}

/** More than SQS takes. */
const MAX_BYTES = 2 * 1024 * 1024
/** How many records are handed to the consumer together. Between two such groups it is seen whether there is time for more. */
const TOGETHER = 100

/** What is left of the time of one call. */
class Time {
  readonly #stop = new AbortController()
  readonly #over = Promise.withResolvers<undefined>()
  readonly #cancel: readonly (() => void)[]

  constructor(clock: Clock, remainingMs: number, marginMs: number) {
    const leftMs = Math.max(0, remainingMs - marginMs)
    this.#cancel = [
      clock.after(leftMs, () => this.#stop.abort(new Error('the function is about to time out'))),
      clock.after(Math.max(0, remainingMs - marginMs / 2), () => this.#over.resolve(undefined)),
    ]
    if (leftMs === 0) this.#stop.abort(new Error('the function is about to time out'))
  }

  /** Aborted when no more is to be begun. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** The result of some work; undefined if it takes too long. */
  within<T>(work: Promise<T>): Promise<T | undefined> {
    return Promise.race([work, this.#over.promise])
  }

  end(): void {
    for (const cancel of this.#cancel) cancel()
  }
}

/** One batch of records. */
class Batch {
  readonly #consumer: Taking
  readonly #read: (record: SqsRecord) => IncomingMessage
  readonly #time: Time

  constructor(consumer: Taking, read: (record: SqsRecord) => IncomingMessage, time: Time) {
    this.#consumer = consumer
    this.#read = read
    this.#time = time
  }

  async take(records: readonly SqsRecord[]): Promise<SqsBatchResponse> {
    const taken = new Set<SqsRecord>()
    const stopped = new Set<string>()
    for (const round of roundsOf(records)) {
      // Behind a record that could not be taken, those of its group must not be handled.
      const open = round.filter((record) => !stopped.has(groupOf(record) ?? ''))
      for (const record of await this.#takeAll(open)) taken.add(record)
      for (const record of round) if (!taken.has(record)) stopped.add(groupOf(record) ?? '')
    }
    const failed = records.filter((record) => !taken.has(record))
    return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) }
  }

  /** Those of the records that the queue may forget. */
  async #takeAll(records: readonly SqsRecord[]): Promise<readonly SqsRecord[]> {
    const taken: SqsRecord[] = []
    for (let from = 0; from < records.length && !this.#time.signal.aborted; from += TOGETHER) {
      const some = records.slice(from, from + TOGETHER)
      const outcomes = await this.#outcomes(some)
      taken.push(...some.filter((_, index) => outcomes[index]?.ack === true))
    }
    return taken
  }

  /** Those that the database could tell in time. What it has taken all the same will be a duplicate. */
  async #outcomes(records: readonly SqsRecord[]): Promise<readonly (Outcome | undefined)[]> {
    const known: (Outcome | undefined)[] = records.map(() => undefined)
    const settled = (index: number, outcome: Outcome): void => {
      known[index] = outcome
    }
    try {
      const messages = records.map(this.#read)
      return (await this.#time.within(this.#consumer.handleMany(messages, this.#time.signal, settled))) ?? [...known]
    } catch {
      return known
    }
  }
}

/** The records in the order in which they may be handled: of a FIFO queue, one of each group at a time. */
function roundsOf(records: readonly SqsRecord[]): readonly (readonly SqsRecord[])[] {
  const places = new Map<string, number>()
  const rounds: SqsRecord[][] = []
  for (const record of records) {
    const group = groupOf(record)
    const at = group === undefined ? 0 : (places.get(group) ?? 0)
    if (group !== undefined) places.set(group, at + 1)
    const round = rounds[at]
    if (round === undefined) rounds[at] = [record]
    else round.push(record)
  }
  return rounds
}

/** The group of a record of a FIFO queue. On other queues a group is a hint about fairness. */
function groupOf(record: SqsRecord): string | undefined {
  return String(record.eventSourceARN).endsWith('.fifo') ? attributesOf(record).MessageGroupId : undefined
}
