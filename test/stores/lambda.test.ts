import { createHash, randomUUID } from 'node:crypto'
import { createHapax, defineMessage, type Message, silentLogger } from 'hapax'
import { type SqsRecord, sqsHandler } from 'hapax/lambda'
import { describe, expect, it } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { countEffects, durableStores, insertEffect, makePlace, openStore, type Place } from '../support/databases.ts'

const Placed = defineMessage<{ n: number }>('order.placed')
const ARN = 'arn:aws:sqs:eu-central-1:123456789012:orders'
const TYPE = { type: 'order.placed' }

/** A record as Lambda builds it. */
function record(body: string, more: Partial<Omit<SqsRecord, 'attributes'>> & { attributes?: object } = {}): SqsRecord {
  const { attributes, ...others } = more
  const own = {
    messageId: randomUUID(),
    receiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
    body,
    messageAttributes: {},
    md5OfBody: createHash('md5').update(body).digest('hex'),
    eventSource: 'aws:sqs',
    eventSourceARN: ARN,
    awsRegion: 'eu-central-1',
    ...others,
  }
  return {
    ...own,
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '1700000000000',
      SenderId: 'AIDAIENQZJOLO23YVJ4VO',
      ApproximateFirstReceiveTimestamp: '1700000000001',
      ...attributes,
    },
  } as SqsRecord
}

function fifo(group: string, body: string, id: string): SqsRecord {
  return record(body, {
    messageId: id,
    eventSourceARN: `${ARN}.fifo`,
    attributes: {
      MessageGroupId: group,
      MessageDeduplicationId: `dedup ${id}`,
      SequenceNumber: '18849496460467696128',
    },
  })
}

const text = (stringValue: string) => ({ stringValue, dataType: 'String', stringListValues: [], binaryListValues: [] })
const context = (remainingMs = 60_000) => ({ getRemainingTimeInMillis: () => remainingMs })

async function shop(
  place: Place,
  handler: (n: number, signal: AbortSignal) => unknown = () => {},
  onError = 'retry',
  group?: { readonly size: number },
) {
  const hapax = createHapax({ store: await openStore(place), source: '/test', logger: silentLogger })
  const seen: Message[] = []
  const options = { ...(onError === 'rollback' && { onError: 'rollback' as const }), ...(group && { group }) }
  const billing = hapax.consumer('billing', { concurrency: 4, ...options }).on(Placed, async ({ n }, ctx) => {
    seen.push(ctx.message)
    await handler(n, ctx.signal)
    await ctx.tx.query(insertEffect(place, 'billing', ctx.message.id))
  })
  return { hapax, billing, seen }
}

const failures = (ids: readonly string[]) => ({ batchItemFailures: ids.map((itemIdentifier) => ({ itemIdentifier })) })

describe.each(durableStores())('SQS on Lambda, on %s', (store) => {
  it('each record takes effect once, also when it is delivered again', async () => {
    await using checker = await makePlace(store)
    const { hapax, billing, seen } = await shop(checker.place)
    const handler = sqsHandler(billing, TYPE)
    const records = Array.from({ length: 10 }, (_, n) => record(JSON.stringify({ n })))
    expect(await handler({ Records: records }, context())).toEqual(failures([]))
    const again = records.map((each) => ({ ...each, attributes: { ...each.attributes, ApproximateReceiveCount: '2' } }))
    expect(await handler({ Records: again }, context())).toEqual(failures([]))
    expect([...(await countEffects(checker)).values()]).toEqual(Array.from({ length: 10 }, () => 1))
    expect(seen[0]).toMatchObject({ source: ARN, type: 'order.placed' })
    expect(records.map(({ messageId }) => messageId)).toContain(seen[0]?.id)
    await hapax.close()
  })

  it('the id is that of the event, of the sender, or of SQS, in this order', async () => {
    await using checker = await makePlace(store)
    const { hapax, billing, seen } = await shop(checker.place)
    const event = { specversion: '1.0', id: 'structured', source: '/shop', type: 'order.placed', data: { n: 1 } }
    const attributes = { 'ce-id': text('binary'), 'ce-source': text('/shop'), 'ce-type': text('order.placed') }
    const bytes = {
      binaryValue: Buffer.from('bytes').toString('base64'),
      dataType: 'Binary',
      stringListValues: [],
      binaryListValues: [],
    }
    const plain = { 'message-id': text('plain'), source: text('/shop'), type: text('order.placed') }
    const contentBased = createHash('sha256').update('{"n":6}').digest('hex')
    const Records = [
      record(JSON.stringify(event)),
      record('{"n":2}', { messageAttributes: attributes }),
      record('{"n":3}', { messageAttributes: { ...attributes, 'ce-id': bytes } }),
      record('{"n":4}', { messageAttributes: plain }),
      fifo('g', '{"n":5}', 'fifo'),
      record('{"n":6}', { messageId: 'sqs', attributes: { MessageDeduplicationId: contentBased } }),
    ]
    expect(await sqsHandler(billing, TYPE)({ Records }, context())).toEqual(failures([]))
    expect(seen.map(({ id }) => id).sort()).toEqual(['binary', 'bytes', 'g/dedup fifo', 'plain', 'sqs', 'structured'])
    expect(seen.find(({ id }) => id === 'g/dedup fifo')).toMatchObject({ key: 'g', source: `${ARN}.fifo` })
    await hapax.close()
  })

  it('notifications of SNS and events of EventBridge are unwrapped', async () => {
    await using checker = await makePlace(store)
    const { hapax, billing, seen } = await shop(checker.place)
    const notification = {
      Type: 'Notification',
      MessageId: 'sns-1',
      TopicArn: 'arn:aws:sns:eu-central-1:123456789012:orders',
      Message: '{"n":1}',
      Timestamp: '2026-01-01T00:00:00.000Z',
      MessageAttributes: { kind: { Type: 'String', Value: 'order.placed' } },
    }
    const sns = sqsHandler(billing, { envelope: 'sns', type: { header: 'kind' } })
    for (let time = 0; time < 2; time++) {
      const Records = [record(JSON.stringify(notification))]
      expect(await sns({ Records }, context())).toEqual(failures([]))
    }
    const event = {
      version: '0',
      id: 'eb-1',
      'detail-type': 'order.placed',
      source: 'shop.orders',
      account: '123456789012',
      time: '2026-01-01T00:00:00Z',
      region: 'eu-central-1',
      resources: [],
      detail: { n: 2 },
    }
    const bridge = sqsHandler(billing, { envelope: 'eventbridge' })
    expect(await bridge({ Records: [record(JSON.stringify(event)), record('no JSON')] }, context())).toEqual(
      failures([]),
    )
    expect(seen.map(({ id, source, data }) => ({ id, source, data }))).toEqual([
      { id: 'sns-1', source: notification.TopicArn, data: { n: 1 } },
      { id: 'eb-1', source: 'shop.orders', data: { n: 2 } },
    ])
    expect((await hapax.failed.list()).map(({ reason }) => reason)).toEqual(['undecodable'])
    await hapax.close()
  })

  it('only what could not be taken is returned to the queue', async () => {
    await using checker = await makePlace(store)
    const fail = (n: number): void => {
      if (n % 3 === 0) throw new Error('not now')
    }
    const returning = await shop(checker.place, fail, 'rollback')
    const records = Array.from({ length: 9 }, (_, n) => record(JSON.stringify({ n }), { messageId: `m${n}` }))
    const { batchItemFailures } = await sqsHandler(returning.billing, TYPE)({ Records: records }, context())
    expect(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier).sort()).toEqual(['m0', 'm3', 'm6'])
    await returning.hapax.close()
    // By default a failed message waits in the inbox, and the queue forgets it.
    const keeping = await shop(checker.place, fail)
    const again = records.filter((_, n) => n % 3 === 0)
    expect(await sqsHandler(keeping.billing, TYPE)({ Records: again }, context())).toEqual(failures([]))
    const [inbox] = (await keeping.hapax.status()).consumers
    expect(inbox?.retrying).toBe(3)
    await keeping.hapax.close()
    expect((await countEffects(checker)).size).toBe(6)
  })

  it('a record that lacks what SQS says of it keeps no other from being taken', async () => {
    await using checker = await makePlace(store)
    const { hapax, billing, seen } = await shop(checker.place)
    const bare = (arn: string, fields: object = {}) =>
      ({ messageId: randomUUID(), body: '{"n":2}', eventSourceARN: arn, ...fields }) as SqsRecord
    const odd = [bare(ARN), bare(`${ARN}.fifo`, { attributes: null }), bare(ARN, { messageAttributes: { kind: null } })]
    const whole = [record('{"n":1}'), fifo('g', '{"n":3}', 'f1')]
    expect(await sqsHandler(billing, TYPE)({ Records: [...odd, ...whole] }, context())).toEqual(failures([]))
    expect(seen.map(({ id }) => id)).toEqual(
      expect.arrayContaining([whole[0]?.messageId, 'g/dedup f1', odd[0]?.messageId]),
    )
    await hapax.close()
  })

  it('C10: behind a record that failed, its group is not handled, and other groups are', async () => {
    await using checker = await makePlace(store)
    const fail = (n: number): void => {
      if (n === 2) throw new Error('not now')
    }
    const { hapax, billing, seen } = await shop(checker.place, fail, 'rollback')
    const Records = [1, 2, 3, 4].flatMap((n) => [
      fifo('a', JSON.stringify({ n }), `a${n}`),
      fifo('b', JSON.stringify({ n: 10 + n }), `b${n}`),
    ])
    expect(await sqsHandler(billing, TYPE)({ Records }, context())).toEqual(failures(['a2', 'a3', 'a4']))
    // A member of a group that failed with it is called again.
    const called = new Set(seen.map(({ id }) => id))
    const order = (group: string): readonly string[] => [...called].filter((id) => id.startsWith(`${group}/`))
    expect(order('a')).toEqual(['a/dedup a1', 'a/dedup a2'])
    expect(order('b')).toEqual(['b/dedup b1', 'b/dedup b2', 'b/dedup b3', 'b/dedup b4'])
    await hapax.close()
  })

  it('what is not finished before the time-out is returned, and takes effect once later', async () => {
    await using checker = await makePlace(store)
    let hanging = true
    const wait = (_: number, signal: AbortSignal): unknown =>
      hanging && new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const { hapax, billing, seen } = await shop(checker.place, wait, 'rollback')
    const handler = sqsHandler(billing, { ...TYPE, marginMs: 2_000 })
    const Records = [1, 2].map((n) => record(JSON.stringify({ n }), { messageId: `m${n}` }))
    expect(await handler({ Records }, context(2_500))).toEqual(failures(['m1', 'm2']))
    hanging = false
    const before = seen.length
    // Within the margin nothing is begun.
    expect(await handler({ Records }, context(1_000))).toEqual(failures(['m1', 'm2']))
    expect(seen.length).toBe(before)
    await until(async () => (await handler({ Records }, context())).batchItemFailures.length === 0, 'both are taken')
    expect([...(await countEffects(checker)).values()]).toEqual([1, 1])
    await hapax.close()
  })

  it.each([
    ['listens to its signal', 'rollback', { size: 3 }],
    ['does not listen to its signal', 'retry', undefined],
  ] as const)('one slow record that %s does not return the committed ones (%s)', async (what, onError, group) => {
    await using checker = await makePlace(store)
    const slow = (n: number, signal: AbortSignal): unknown => {
      if (n !== 4) return
      return new Promise((_, reject) => {
        if (what === 'listens to its signal') signal.addEventListener('abort', () => reject(signal.reason))
      })
    }
    const { hapax, billing } = await shop(checker.place, slow, onError, group)
    const Records = Array.from({ length: 10 }, (_, n) => record(JSON.stringify({ n }), { messageId: `m${n}` }))
    const { batchItemFailures } = await sqsHandler(billing, TYPE)({ Records }, context(4_000))
    const committed = await countEffects(checker)
    const returned = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier))
    expect(committed.size).toBeGreaterThan(0)
    for (const { messageId } of Records) {
      const isCommitted = committed.has(`billing ${messageId}`)
      // What waits in the inbox is not committed, and need not come again either.
      if (isCommitted || returned.has(messageId)) {
        expect([messageId, isCommitted]).toEqual([messageId, !returned.has(messageId)])
      }
    }
    await hapax.close()
  })

  it('with a store that is closed or away, all records are returned, and nothing is thrown', async () => {
    await using checker = await makePlace(store)
    const { hapax, billing } = await shop(checker.place)
    const handler = sqsHandler(billing, TYPE)
    await hapax.close()
    const Records = [record('{"n":1}', { messageId: 'm1' }), fifo('a', '{"n":2}', 'a1'), fifo('a', '{"n":3}', 'a2')]
    expect(await handler({ Records }, context())).toEqual(failures(['m1', 'a1', 'a2']))
    expect((await countEffects(checker)).size).toBe(0)
  })
})

describe.each(durableStores().filter((store) => store === 'postgres'))('SQS on Lambda, without %s', () => {
  it('all records are returned', async () => {
    await using checker = await makePlace('postgres')
    const url = new URL(checker.place.url)
    url.host = '127.0.0.1:1'
    const { hapax, billing } = await shop({ ...checker.place, url: url.href })
    const Records = [record('{"n":1}', { messageId: 'm1' }), record('{"n":2}', { messageId: 'm2' })]
    expect(await sqsHandler(billing, TYPE)({ Records }, context(20_000))).toEqual(failures(['m1', 'm2']))
    await hapax.close()
  })
})
