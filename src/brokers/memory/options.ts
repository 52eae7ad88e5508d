import { type Clock, clockOption, flag, nameText, noOthers } from '../../base/index.ts'
import type { Encode } from '../../contracts/index.ts'
import { type Encoder, encoderOption } from '../kit/index.ts'

/** Settings of the memory broker. */
export interface MemoryBrokerOptions {
  /** Decides when a message that was put back is delivered again. @default the clock of this process */
  readonly clock?: Clock
}

/** Settings of a topic. */
export interface MemoryTopicOptions {
  /**
   * How messages are written: as CloudEvents; as plain JSON, for readers that know nothing of CloudEvents; or by a function of yours.
   * @default 'cloudevents'
   */
  readonly encode?: Encode
}

/** Settings of a queue. */
export interface MemoryQueueOptions {
  /** The topic whose messages go into the queue, beginning now. */
  readonly topic: string
  /** One reader at a time, so that the messages of a key stay in order. @default false */
  readonly single?: boolean
}

/** Checks the options of the broker and returns its clock. */
export function brokerClock(options: MemoryBrokerOptions): Clock {
  noOthers('options', options, ['clock'])
  return clockOption(options.clock)
}

/** Checks the options of a queue. */
export function queueSettings(options: MemoryQueueOptions): Required<MemoryQueueOptions> {
  noOthers('options', options, ['topic', 'single'])
  return { topic: nameText('topic', options.topic), single: flag('single', options.single, false) }
}

/** Checks the options of a topic. */
export function topicEncoder(options: MemoryTopicOptions): Encoder {
  noOthers('options of topic', options, ['encode'])
  return encoderOption(options)
}
