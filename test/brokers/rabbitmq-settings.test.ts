import fc from 'fast-check'
import { isHapaxError } from 'hapax'
import { type ExchangeOptions, type QueueOptions, rabbitmq } from 'hapax/rabbitmq'
import { describe, expect, it } from 'vitest'
import { queuePlace } from '../../src/brokers/rabbitmq/options.ts'
import { Acks } from '../../src/brokers/rabbitmq/reading/acks.ts'
import { Window } from '../../src/brokers/rabbitmq/reading/window.ts'
import { queueArguments } from '../../src/brokers/rabbitmq/topology.ts'

// What needs no server.

const url = 'amqp://user:secret@localhost'

/** The one sentence of a refused setting. */
function refusal(make: () => unknown): string {
  try {
    make()
  } catch (error) {
    if (isHapaxError(error, 'invalid-option')) return error.message
  }
  throw new Error('expected the setting to be refused')
}

describe('settings', () => {
  it('of the server are checked', () => {
    const make = (options: object) => () => rabbitmq(options as { url: string })
    expect(refusal(make({ url: 'http://user:secret@host' }))).toBe(
      'expected url to be like amqp://host:5672/vhost or amqps://host:5671/vhost, or a list of such, got "http://host"',
    )
    expect(refusal(make({ url: [url, 'http://user:secret@host'] }))).toContain('got "http://host"')
    expect(refusal(make({ url: [] }))).toContain('expected url to be like amqp://host:5672/vhost')
    expect(refusal(make({ url, heartbeatMs: 1_500 }))).toBe(
      'expected heartbeatMs to be a whole number of seconds, at most 65535, got 1500',
    )
    expect(refusal(make({ url, timeoutMs: 0 }))).toBe('expected timeoutMs to be a positive integer, got 0')
    expect(refusal(make({ url, connection: {} }))).toBe(
      'expected options to be either a url or a connection, got "both"',
    )
    expect(refusal(make({ connection: {} }))).toBe(
      'expected connection to be a connection of amqplib, or a function that opens one, got an object',
    )
    expect(refusal(make({ connection: () => {}, heartbeatMs: 1_000 }))).toContain('heartbeatMs')
    expect(refusal(make({ uri: url }))).toContain('uri')
  })

  it('of an exchange are checked', () => {
    const make = (options: object) => () => rabbitmq({ url }).exchange('shop', options as ExchangeOptions)
    expect(refusal(make({ routingKey: 'ping' }))).toBe('expected routingKey to be a function, got "ping"')
    expect(refusal(make({ unroutable: 'fail' }))).toBe(`expected unroutable to be 'retry' or 'drop', got "fail"`)
    expect(refusal(make({ declare: 'maybe' }))).toBe(
      `expected declare to be 'assert' or 'check' or 'none', got "maybe"`,
    )
    expect(refusal(make({ encode: 'xml' }))).toBe(
      `expected encode to be 'cloudevents', 'plain-json' or a function, got "xml"`,
    )
    expect(refusal(make({ encode: 'plain-json', format: 'binary' }))).toBe(
      `expected format to be absent unless encode is 'cloudevents', got "binary"`,
    )
    expect(refusal(make({ format: 'xml' }))).toBe(`expected format to be 'binary' or 'structured', got "xml"`)
    expect(refusal(make({ maxMessageBytes: -1 }))).toBe('expected maxMessageBytes to be a positive integer, got -1')
    expect(refusal(make({ durable: false }))).toContain('durable')
  })

  it('of a queue are checked', () => {
    const make = (options: object) => () => rabbitmq({ url }).queue('billing', options as QueueOptions)
    expect(refusal(make({ type: 'stream' }))).toBe(`expected type to be 'quorum' or 'classic', got "stream"`)
    expect(refusal(make({ single: 1 }))).toBe('expected single to be true or false, got 1')
    expect(refusal(make({ bind: { routingKey: '#' } }))).toContain('expected bind.exchange to be')
    expect(refusal(make({ bind: { exchange: 'shop', type: 'x-random' } }))).toBe(
      'expected bind.routingKey to be given for an exchange of the type x-random, got undefined',
    )
    expect(refusal(make({ deliveryLimit: 5 }))).toBe(
      'expected deliveryLimit to be given together with deadLetterExchange, because the server drops what came too often ' +
        'without one, got 5',
    )
    expect(refusal(make({ deliveryLimit: 0, deadLetterExchange: 'dead' }))).toContain('a positive integer, got 0')
    expect(refusal(make({ type: 'classic', deliveryLimit: 5, deadLetterExchange: 'dead' }))).toBe(
      'expected deliveryLimit to be left out for a classic queue, which does not count, got 5',
    )
    expect(refusal(make({ arguments: { 'x-delivery-limit': 1 } }))).toBe(
      'expected arguments to be without x-delivery-limit, which the option deliveryLimit sets, got 1',
    )
    expect(refusal(() => rabbitmq({ url }).queue(''))).toContain('expected name to be a non-empty')
  })

  it('are not shown in names', () => {
    const rabbit = rabbitmq({ url })
    expect(rabbit.exchange('shop').name).toBe('rabbitmq exchange shop')
    expect(rabbit.exchange('').name).toBe('rabbitmq exchange (default)')
    expect(rabbit.queue('billing').name).toBe('rabbitmq queue billing')
  })

  it('say what is known of a limit, and of order', () => {
    const features = (options: QueueOptions) => rabbitmq({ url }).queue('billing', options).features
    expect(features({})).toEqual({
      ordersKeys: false,
      marksRedelivered: true,
      horizonMs: undefined,
      limitsRejects: false,
    })
    expect(features({ single: true, declare: 'check' })).toMatchObject({ ordersKeys: true, limitsRejects: undefined })
    expect(features({ declare: 'none' }).limitsRejects).toBeUndefined()
    expect(features({ arguments: { 'x-message-ttl': 60_000 } }).horizonMs).toBe(60_000)
    expect(features({ arguments: { 'x-message-ttl': 60_000 }, horizonMs: 90_000 }).horizonMs).toBe(90_000)
    expect(features({ arguments: { 'x-message-ttl': 60_000 }, declare: 'check' }).horizonMs).toBeUndefined()
    expect(features({ deliveryLimit: 5, deadLetterExchange: 'dead' }).limitsRejects).toBe(true)
    expect(features({ declare: 'check', deliveryLimit: 5, deadLetterExchange: 'dead' }).limitsRejects).toBe(true)
  })
})

describe('topology', () => {
  it('is told without a server', () => {
    const rabbit = rabbitmq({ url })
    rabbit.exchange('shop')
    rabbit.exchange('legacy', { declare: 'check' })
    rabbit.queue('billing', { bind: { exchange: 'shop', routingKey: 'order.*' } })
    rabbit.queue('stock', {
      bind: [{ exchange: 'shop' }, { exchange: 'legacy', type: 'fanout', declare: 'check' }],
      single: true,
      deliveryLimit: 5,
      deadLetterExchange: 'dead',
      arguments: { 'x-max-length': 1_000 },
    })
    rabbit.queue('old', { type: 'classic', declare: 'check' })
    rabbit.queue('theirs', { declare: 'none' })
    expect(rabbit.topology()).toEqual([
      'declare exchange shop (topic, durable)',
      'check exchange legacy',
      'declare queue billing (quorum, durable, from RabbitMQ 4 on x-delivery-limit: -1)',
      `bind queue billing to exchange shop by 'order.*'`,
      'check exchange dead',
      'declare queue stock (quorum, durable, x-single-active-consumer: true, x-dead-letter-exchange: "dead", ' +
        'x-dead-letter-strategy: "at-least-once", x-overflow: "reject-publish", x-delivery-limit: 5, x-max-length: 1000)',
      'bind queue stock to exchange shop by the types that its consumer handles',
      `bind queue stock to exchange legacy by ''`,
      'check queue old',
      'assume queue theirs',
    ])
  })

  it('C6: a queue has no delivery limit, which newer servers have to be told', () => {
    const args = (version: string) => queueArguments(queuePlace('billing', {}), version)
    expect(args('3.10.8')).toEqual({ 'x-queue-type': 'quorum' })
    // There, -1 would mean that the first return is the last one.
    expect(args('3.13.7')).toEqual({ 'x-queue-type': 'quorum' })
    for (const version of ['4.0.1', '4.3.6', '10.0.0']) {
      expect(args(version)).toEqual({ 'x-queue-type': 'quorum', 'x-delivery-limit': -1 })
    }
    expect(args('undefined')).toEqual({ 'x-queue-type': 'quorum' })
    expect(queueArguments(queuePlace('billing', { type: 'classic' }), '4.3.6')).toEqual({ 'x-queue-type': 'classic' })
  })
})

describe('acks', () => {
  it('E4: tell the server of everything that is acked, once, and of nothing else', () => {
    // A server: deliveries that it waits for, by tag.
    const model = (steps: readonly (readonly ['come' | 'ack' | 'return' | 'flush', number])[]): void => {
      const unanswered = new Set<number>()
      const open: number[] = []
      const acked = new Set<number>()
      const acks = new Acks((tag, allUpTo) => {
        // An unknown tag closes the channel.
        expect(unanswered.has(tag)).toBe(true)
        for (const each of [...unanswered]) {
          if (each !== tag && !(allUpTo && each < tag)) continue
          expect(acked.has(each)).toBe(true)
          unanswered.delete(each)
        }
      })
      let last = 0
      for (const [step, at] of steps) {
        const [delivery] = step === 'ack' || step === 'return' ? open.splice(at % Math.max(1, open.length), 1) : []
        if (step === 'come') {
          last += 1
          unanswered.add(last)
          open.push(last)
          acks.add(last)
        } else if (step === 'flush') acks.flush()
        else if (delivery !== undefined && step === 'ack') {
          acked.add(delivery)
          acks.ack(delivery)
        } else if (delivery !== undefined) {
          unanswered.delete(delivery)
          acks.returned(delivery)
        }
      }
      acks.flush()
      expect([...unanswered]).toEqual(open.toSorted((a, b) => a - b))
    }
    const step = fc.constantFrom('come', 'come', 'ack', 'return', 'flush')
    fc.assert(fc.property(fc.array(fc.tuple(step, fc.nat(50)), { maxLength: 200 }), model), { numRuns: 2_000 })
  })
})

describe('the window', () => {
  const afterwards = (messages: number, bytes: number, sizes: readonly number[]): number => {
    const window = new Window({ messages, bytes })
    for (const size of sizes) {
      window.saw(size)
      window.adapt()
    }
    return window.count
  }
  const times = (count: number, size: number): readonly number[] => Array.from({ length: count }, () => size)

  it('begins carefully, and grows to what was asked for when messages are small', () => {
    expect(new Window({ messages: 2_000, bytes: 1e6 }).count).toBe(16)
    expect(new Window({ messages: 10, bytes: 1e6 }).count).toBe(10)
    expect(afterwards(2_000, 32e6, times(15, 200))).toBe(16)
    expect(afterwards(2_000, 32e6, times(16, 200))).toBe(2_000)
    expect(afterwards(100, 32e6, times(64, 200))).toBe(100)
    expect(afterwards(1e9, 1e12, times(64, 1))).toBe(65_535)
  })

  it('K17: asks for no more than fit as soon as too much has come', () => {
    const window = new Window({ messages: 2_000, bytes: 1_000_000 })
    for (const size of times(100, 100)) {
      window.saw(size)
      window.adapt()
    }
    expect(window.count).toBe(2_000)
    window.saw(400_000)
    window.shrink(400_000)
    expect(window.count).toBe(2)
    window.shrink(2_000_000)
    expect(window.count).toBe(1)
  })

  it('H13: holds about as many bytes as were asked for, and one message more', () => {
    expect(afterwards(2_000, 2_000_000, times(64, 100_000))).toBe(16)
    expect(afterwards(2_000, 500_000, times(64, 100_000))).toBe(6)
    expect(afterwards(2_000, 1_000, times(64, 100_000))).toBe(1)
    expect(afterwards(2_000, 1_000_000, [...times(64, 100_000), ...times(500, 100)])).toBe(2_000)
  })

  it('stays as it is when messages differ a little', () => {
    const window = new Window({ messages: 2_000, bytes: 100_000 })
    for (const size of times(64, 1_000)) {
      window.saw(size)
      window.adapt()
    }
    const { count } = window
    for (const size of times(64, 1_200)) window.saw(size)
    expect(window.adapt()).toBe(false)
    expect(window.count).toBe(count)
  })
})
