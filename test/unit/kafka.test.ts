import { MultipleErrors, ProtocolError, ResponseError, UserError } from '@platformatic/kafka'
import { type KafkaFetched, type KafkaOptions, kafka } from 'hapax/kafka'
import { describe, expect, it } from 'vitest'
import { brokerError, isPassing } from '../../src/brokers/kafka/errors.ts'
import { murmur2, partitionOf } from '../../src/brokers/kafka/partitioner.ts'
import { answersOf } from '../../src/brokers/kafka/produced.ts'
import { findHorizon } from '../../src/brokers/kafka/reading/positions.ts'
import { readRecords } from '../../src/brokers/kafka/reading/records.ts'

describe('options of kafka', () => {
  const wrong: [given: unknown, sentence: string][] = [
    [{}, 'expected options of kafka to be an object with either url or brokers, got "neither"'],
    [
      { url: 'kafka://a', brokers: ['a'] },
      'expected options of kafka to be an object with either url or brokers, got "both"',
    ],
    [{ url: 'http://a' }, 'expected url to be like kafka://one:9092,two:9092, got'],
    [{ url: 'kafka://user:secret@a:9092' }, 'expected url to be like kafka://one:9092,two:9092, got'],
    [{ url: 7 }, 'expected url to be like kafka://one:9092,two:9092, got "7"'],
    [{ brokers: [] }, `expected brokers to be a list like ['one:9092', 'two:9092'], got an array of 0`],
    [{ brokers: ['kafka://a'] }, `expected brokers to be a list like ['one:9092', 'two:9092'], got "kafka://a"`],
    [{ brokers: 'a:9092' }, `expected brokers to be a list like ['one:9092', 'two:9092'], got "a:9092"`],
    [{ url: 'kafka://a', tls: 'yes' }, 'expected tls to be true, false or options of tls.connect, got "yes"'],
    [{ url: 'kafka://a', sasl: {} }, 'expected sasl to be an object with a mechanism, got an object'],
    [{ url: 'kafka://a', clients: {} }, 'expected clients to be functions producer, consumer and admin, got an object'],
    [{ url: 'kafka://a', connectTimeoutMs: 0 }, 'expected connectTimeoutMs to be a positive integer, got 0'],
    // D12: there is no way to ask for less.
    [{ url: 'kafka://a', acks: 1 }, 'expected options of kafka to be an object with the options'],
    [{ url: 'kafka://a', idempotent: false }, 'expected options of kafka to be an object with the options'],
  ]

  it.for(wrong)('refuses %j', ([given, sentence]) => {
    expect(() => kafka(given as KafkaOptions)).toThrow(sentence)
  })

  it('does not repeat a password', () => {
    expect(() => kafka({ url: 'kafka://user:hunter2@a:9092' })).toThrow(/^(?!.*hunter2)/)
  })

  it.for(['kafka://a', 'kafka://a:9092,b:9092/', 'kafka://[::1]:9092'])('takes %s', (url) => {
    expect(kafka({ url }).topic('orders').name).toBe('kafka topic orders')
  })

  const { topic, group } = kafka({ brokers: ['a:9092'] })

  it.for<[() => unknown, string]>([
    // D12: nor here.
    [
      () => topic('a', { acks: 1 } as never),
      'expected options of topic to be an object with the options encode, format,',
    ],
    [() => topic('a', { format: 'xml' } as never), `expected format to be 'binary' or 'structured', got "xml"`],
    [() => topic('', {}), 'expected topic to be a non-empty, well-formed string of at most 249 bytes, got ""'],
    [() => group('g', {}), 'expected options of group to be an object with either topic or topics, got "neither"'],
    [() => group('g', { topics: [] }), 'expected topics to be a list of topics, got an array of 0'],
    [() => group('g', { topic: 'a', from: 'now' } as never), `expected from to be 'earliest' or 'latest', got "now"`],
    [() => group('g', { topic: 'a', autocommit: true } as never), 'expected options of group to be an object with'],
    [() => group('', { topic: 'a' }), 'expected group to be a non-empty, well-formed string'],
    [() => group('g', { topic: 'a', horizonMs: 0 }), 'expected horizonMs to be a whole number of milliseconds'],
  ])('refuses %s', ([call, sentence]) => {
    expect(call).toThrow(sentence)
  })

  it('names a group with its topics, once each', () => {
    const { name, features } = group('billing', { topics: ['orders', 'payments', 'orders'], horizonMs: 1_000 })
    expect(name).toBe('kafka group billing of orders, payments')
    expect(features).toEqual({ ordersKeys: true, marksRedelivered: false, horizonMs: 1_000, limitsRejects: false })
  })
})

describe('the partition of a key', () => {
  // From the tests of Kafka's own clients.
  it.for<[string, number]>([
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['a-little-bit-longer-string', -1486304829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['abc', 479470107],
  ])('has the hash of %s', ([key, hash]) => {
    expect(murmur2(Buffer.from(key))).toBe(hash)
  })

  it('is never negative', () => {
    expect(partitionOf(Buffer.from('21'), 7)).toBe((-973932308 & 0x7fffffff) % 7)
    expect(partitionOf(new Uint8Array(), 3)).toBeGreaterThanOrEqual(0)
  })
})

/** A batch of records, or a mark (`control`: 0 is a transaction that was given up, 1 one that was committed). */
function batch(first: number, count: number, more: { producer?: number; control?: 0 | 1 } = {}) {
  const { producer, control } = more
  const key = Buffer.from([0, 0, 0, control ?? 0])
  return {
    firstOffset: BigInt(first),
    lastOffsetDelta: count - 1,
    partitionLeaderEpoch: 4,
    attributes: (producer === undefined ? 0 : 1 << 4) | (control === undefined ? 0 : 1 << 5),
    firstTimestamp: 1_000n,
    producerId: BigInt(producer ?? -1),
    records: Array.from({ length: count }, (_, at) => ({
      offsetDelta: at,
      timestampDelta: BigInt(at),
      key: control === undefined ? null : key,
      value: Buffer.from('xy'),
      headers: [[Buffer.from('h'), Buffer.from('v')] as const],
    })),
  }
}

function fetched(
  records: readonly ReturnType<typeof batch>[],
  aborted: [producer: number, first: number][] = [],
): KafkaFetched {
  const abortedTransactions = aborted.map(([id, first]) => ({ producerId: BigInt(id), firstOffset: BigInt(first) }))
  return { partitionIndex: 3, errorCode: 0, highWatermark: 100n, abortedTransactions, records }
}

function offsets(from: number, answer: KafkaFetched): readonly number[] {
  return readRecords('orders', BigInt(from), answer).records.map(({ offset }) => Number(offset))
}

describe('what was fetched', () => {
  it('is read from the offset that was asked for, though a batch begins earlier', () => {
    const { records, next, skipped } = readRecords('orders', 12n, fetched([batch(5, 3), batch(10, 5)]))
    expect(records.map(({ offset }) => offset)).toEqual([12n, 13n, 14n])
    expect(records[0]).toMatchObject({ topic: 'orders', partition: 3, leaderEpoch: 4, timestamp: 1_002n, bytes: 4 })
    expect({ next, skipped }).toEqual({ next: 15n, skipped: undefined })
  })

  it('may be nothing', () => {
    expect(readRecords('orders', 7n, fetched([]))).toEqual({ records: [], next: 7n, skipped: undefined })
    expect(readRecords('orders', 7n, { ...fetched([]), records: null }).next).toBe(7n)
  })

  it('goes on behind the mark of a transaction, which is no message', () => {
    const answer = fetched([batch(0, 2, { producer: 9 }), batch(2, 1, { producer: 9, control: 1 })])
    expect(offsets(0, answer)).toEqual([0, 1])
    expect(readRecords('orders', 0n, answer)).toMatchObject({ next: 3n, skipped: { offset: 2n, leaderEpoch: 4 } })
  })

  it('leaves out transactions that were given up, and nothing else of their producer', () => {
    const answer = fetched(
      [
        batch(0, 2, { producer: 9 }), // given up
        batch(2, 2, { producer: 8 }),
        batch(4, 1, { producer: 9, control: 0 }),
        batch(5, 2, { producer: 9 }), // committed
        batch(7, 1, { producer: 9, control: 1 }),
        batch(8, 1, { producer: 9 }), // given up
        batch(9, 1),
        batch(10, 1, { producer: 9, control: 0 }),
        batch(11, 1, { producer: 9 }),
      ],
      // In any order.
      [
        [9, 8],
        [9, 0],
      ],
    )
    expect(offsets(0, answer)).toEqual([2, 3, 5, 6, 9, 11])
  })

  it('leaves out a transaction that was given up, also when its mark comes in a later answer', () => {
    const answer = fetched([batch(20, 2, { producer: 9 }), batch(22, 1)], [[9, 15]])
    expect(offsets(20, answer)).toEqual([22])
    const last = readRecords('orders', 20n, fetched([batch(20, 2, { producer: 9 })], [[9, 15]]))
    expect(last).toMatchObject({ records: [], next: 22n, skipped: { offset: 21n } })
  })
})

describe('the answers to a send', () => {
  const response = (codes: Record<number, number>) => {
    const partitionResponses = Object.entries(codes).map(([index, errorCode]) => ({ index: Number(index), errorCode }))
    return new ResponseError(0, 7, { '/': [10, null] }, { responses: [{ name: 'orders', partitionResponses }] })
  }

  it('are found by partition, also of other brokers and of earlier attempts', () => {
    const attempts = new MultipleErrors('tried twice', [response({ 0: 0, 1: 19 }), response({ 0: 46, 1: 10 })])
    const error = new MultipleErrors('failed', [attempts], {
      produced: { offsets: [{ topic: 'orders', partition: 2 }] },
    })
    expect([...answersOf(error)].sort()).toEqual([
      [0, 0],
      [1, 10],
      [2, 0],
    ])
  })

  it('are none when nobody answered', () => {
    expect(answersOf(new MultipleErrors('failed', [new Error('cut')])).size).toBe(0)
    expect(answersOf(undefined).size).toBe(0)
  })
})

describe('an error of the client', () => {
  it('says that a topic has to be made', () => {
    const error = brokerError('nothing could be sent', new UserError('Unknown topic orders.'))
    expect(error).toMatchObject({
      code: 'topology-mismatch',
      message: expect.stringMatching(/Unknown topic orders\. Create/),
    })
  })

  it('is a refusal where somebody has to change something, and passes by itself elsewhere', () => {
    const refused = new MultipleErrors('tried', [new ProtocolError('GROUP_AUTHORIZATION_FAILED')])
    const passing = new MultipleErrors('tried', [new ProtocolError('COORDINATOR_NOT_AVAILABLE')])
    expect(brokerError('it could not be joined', refused).code).toBe('broker-refused')
    expect(brokerError('it could not be joined', passing).code).toBe('broker-unavailable')
    expect([refused, passing, new Error('no link')].map(isPassing)).toEqual([false, true, false])
  })
})

describe('how long messages come again', () => {
  const horizonOf = (...topics: Record<string, string>[]) =>
    findHorizon(
      topics.map((_, at) => `t${at}`),
      {
        describeConfigs: async () =>
          topics.map((configs, at) => ({
            resourceName: `t${at}`,
            configs: Object.entries(configs).map(([name, value]) => ({ name, value })),
          })),
      } as never,
    )

  it('is as long as the topics keep them', async () => {
    expect(await horizonOf({ 'retention.ms': '1000' })).toBe(1_000)
    expect(await horizonOf({ 'retention.ms': '1000' }, { 'retention.ms': '5000' })).toBe(5_000)
  })

  it('is for ever where a topic keeps them for ever', async () => {
    const forever = 100 * 365 * 86_400_000
    expect(await horizonOf({ 'retention.ms': '-1' })).toBe(forever)
    expect(await horizonOf({ 'retention.ms': '1000', 'cleanup.policy': 'compact' })).toBe(forever)
    expect(await horizonOf({ 'retention.ms': '1000', 'cleanup.policy': 'compact,delete' })).toBe(1_000)
  })

  it('is not known where the broker does not say', async () => {
    expect(await horizonOf({ 'retention.ms': '1000' }, {})).toBeUndefined()
    expect(await findHorizon(['t'], {} as never)).toBeUndefined()
  })
})
