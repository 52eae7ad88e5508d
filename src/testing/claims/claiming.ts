import assert from 'node:assert/strict'
import { HapaxError, type HapaxEvents, isHapaxError, Permanent, RetryAfter, silentLogger } from '../../base/index.ts'
import type { ClaimStore } from '../../contracts/index.ts'
import { altered } from '../altered.ts'
import { AT_ONCE, assertOutcome, assertRejects, gate, ping, statuses } from '../store/world.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import { assertKind, type ClaimWorld, pings } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

const deliveries: readonly Case[] = [
  {
    name: 'events say how long the check took and how old a message is; the logger of a handler is bound to its message',
    run: async (world) => {
      const lines: object[] = []
      const logger = {
        ...silentLogger,
        info: (fields: object, sentence: string) => void lines.push({ ...fields, sentence }),
      }
      const hapax = world.hapax({ logger })
      const processed: HapaxEvents['processed'][] = []
      const checks: (number | undefined)[] = []
      const sms = world.sms((ctx) => ctx.logger.info({ n: 1 }, 'sent'), { hapax })
      await sms.handle(ping('before'))
      hapax.events.on('processed', (event) => processed.push(event))
      hapax.events.on('duplicate', ({ checkMs }) => checks.push(checkMs))
      const time = new Date(Date.now() - 60_000).toISOString()
      assertOutcome(await sms.handle(ping('a', { time })), 'processed')
      assertOutcome(await sms.handle(ping('a', { time })), 'duplicate')
      const [event] = processed
      assert.ok(processed.length === 1 && event !== undefined)
      assert.ok(event.lagMs !== undefined && event.lagMs >= 59_000, `lag: ${event.lagMs}`)
      for (const ms of [event.checkMs, ...checks]) assert.ok(ms !== undefined && ms >= 0, `check: ${ms}`)
      assert.equal(checks.length, 1)
      const about = { id: 'a', source: '/sender', type: 'ping' }
      assert.deepEqual(lines[1], { consumer: 'sms', about, attempt: 1, n: 1, sentence: 'sent' })
    },
  },
  {
    name: 'an outage is told once, and its end once, however many deliveries it stops',
    run: async (world) => {
      let away = false
      const claim: ClaimStore['claims']['claim'] = (...args) =>
        away
          ? Promise.reject(new HapaxError('store-unavailable', 'connection refused'))
          : world.store.claims.claim(...args)
      const hapax = world.hapax({ store: altered(world.store, { claims: { claim } }) })
      const heard: string[] = []
      for (const name of ['store-down', 'store-up'] as const) hapax.events.on(name, () => heard.push(name))
      const sms = world.sms(() => {}, { hapax })
      away = true
      for (const id of ['a', 'b']) await assertRejects(sms.handle(ping(id)), 'store-unavailable')
      assert.deepEqual(heard, ['store-down'])
      away = false
      for (const id of ['a', 'b']) assertOutcome(await sms.handle(ping(id)), 'processed')
      assert.deepEqual(heard, ['store-down', 'store-up'])
    },
  },
  {
    name: 'calls the handler once, and knows the message afterwards',
    run: async (world) => {
      const calls: string[] = []
      const sms = world.sms((ctx) => calls.push(`${ctx.message.id} ${ctx.attempt} ${ctx.fence}`))
      assertOutcome(await sms.handle(ping('a')), 'processed')
      assertOutcome(await sms.handle(ping('a')), 'duplicate')
      assertOutcome(await sms.handle(ping('b')), 'processed')
      assert.deepEqual(calls, ['a 1 1', 'b 1 1'])
      assert.deepEqual(await world.places('a'), ['receipt'])
    },
  },
  {
    name: 'B6: a failed attempt is counted, is not acknowledged, and holds the message until the next one is due',
    run: async (world) => {
      const attempts: number[] = []
      const retry = { attempts: 3, minDelayMs: 60_000, maxDelayMs: 60_000 }
      const sms = world.sms(
        (ctx) => {
          attempts.push(ctx.attempt)
          throw attempts.length === 1 ? new RetryAfter(1) : new Error('no')
        },
        { retry },
      )
      const first = await sms.handle(ping('a'))
      assertOutcome(first, 'rolled-back')
      assert.equal(first.retryAfterMs, 1)
      await until(async () => (await sms.handle(ping('a'))).status === 'rolled-back')
      const early = await sms.handle(ping('a'))
      assertOutcome(early, 'busy', 'busy')
      assert.ok(early.retryAfterMs !== undefined && early.retryAfterMs > 10_000 && early.retryAfterMs <= 60_000)
      assert.deepEqual(attempts, [1, 2])
      assert.deepEqual(await world.places('a'), ['claim', 'receipt'])
    },
  },
  {
    name: 'C3: after the last attempt it is in the failed store with its payload, and a redelivery is a duplicate',
    run: async (world) => {
      const hapax = world.hapax()
      const sms = world.sms(() => Promise.reject(new Error('never')), { hapax })
      const message = ping('a', { data: { n: 7 }, headers: { lang: 'de' }, key: 'k' })
      for (const status of ['rolled-back', 'rolled-back', 'failed', 'duplicate'] as const) {
        assertOutcome(await sms.handle(message), status)
      }
      const [failed] = await hapax.failed.list()
      assert.deepEqual([failed?.reason, failed?.attempts, failed?.error.message], ['attempts-exhausted', 3, 'never'])
      assert.equal(Buffer.from(failed?.message.data as Uint8Array).toString(), '{"n":7}')
      assert.deepEqual(JSON.parse(failed?.message.attributes ?? ''), { headers: { lang: 'de' } })
      assert.deepEqual([failed?.message.key, failed?.consumer, failed?.held], ['k', 'sms', false])
      assert.deepEqual(await world.places('a'), ['failed', 'receipt'])
    },
  },
  {
    name: 'C5: what cannot be handled is kept and acknowledged: no id, too large, no such type, refused by the schema, Permanent',
    run: async (world) => {
      const hapax = world.hapax({ maxMessageBytes: 1024 })
      const sms = world.sms(() => Promise.reject(new Permanent('never')), { hapax })
      assertOutcome(await sms.handle(ping(undefined)), 'failed', 'missing-id')
      assertOutcome(await sms.handle(ping('a', { data: 'x'.repeat(2000) })), 'failed', 'too-large')
      assertOutcome(await sms.handle(ping('b', { type: 'other' })), 'failed', 'unknown-type')
      assertOutcome(await sms.handle(ping('c', { data: Buffer.from('{') })), 'failed', 'invalid-payload')
      assertOutcome(await sms.handle(ping('d')), 'failed')
      const reasons = (await hapax.failed.list()).map(({ reason }) => reason)
      assert.deepEqual(reasons, ['permanent', 'invalid-payload', 'unknown-type', 'too-large', 'missing-id'])
    },
  },
  {
    name: 'a type that another process of the consumer handles is left to it',
    run: async (world) => {
      await world.store.subscriptions.add('sms', ['other'], false)
      const sms = world.sms(() => {})
      assertOutcome(await sms.handle(ping('a', { type: 'other' })), 'rolled-back', 'unknown-type')
      assert.deepEqual(await world.places('a'), [])
    },
  },
  {
    name: 'with unknown: ignore, a type without a handler is acknowledged and not kept; one of another process is left to it',
    run: async (world) => {
      await world.store.subscriptions.add('sms', ['theirs'], false)
      const sms = world.sms(() => {}, { unknown: 'ignore' })
      assertOutcome(await sms.handle(ping('a', { type: 'other' })), 'ignored')
      assertOutcome(await sms.handle(ping('b', { type: 'theirs' })), 'rolled-back', 'unknown-type')
      for (const id of ['a', 'b']) assert.deepEqual(await world.places(id), [])
    },
  },
  {
    name: 'a handler of unknown types gets the data as it came, once, and again when a person asks for it',
    run: async (world) => {
      await world.store.subscriptions.add('sms', ['theirs'], false)
      const hapax = world.hapax()
      const took: unknown[] = []
      const sms = hapax.leased('sms', {
        retry: AT_ONCE,
        unknown: (data, ctx) => {
          took.push([ctx.message.type, data])
          if (took.length === 1) throw new Permanent('not yet')
        },
      })
      assertOutcome(await sms.handle(ping('a', { type: 'other' })), 'failed')
      assertOutcome(await sms.handle(ping('b', { type: 'theirs' })), 'rolled-back', 'unknown-type')
      const [failed] = await hapax.failed.list()
      await hapax.failed.retry(failed?.seq ?? '')
      await world.drain(hapax, sms)
      assert.deepEqual(took, [
        ['other', { n: 1 }],
        ['other', { n: 1 }],
      ])
      assertOutcome(await sms.handle(ping('a', { type: 'other' })), 'duplicate')
    },
  },
  {
    name: 'F7: the same id with another payload is a duplicate, or a conflict that is kept once',
    run: async (world) => {
      const hapax = world.hapax()
      const lax = world.sms(() => {}, { hapax })
      const strict = world.sms(() => {}, { hapax, name: 'strict', onMismatch: 'conflict' })
      for (const consumer of [lax, strict]) assertOutcome(await consumer.handle(ping('a')), 'processed')
      assertOutcome(await lax.handle(ping('a', { data: { n: 2 } })), 'duplicate')
      assertOutcome(await strict.handle(ping('a', { data: { n: 2 } })), 'conflict', 'conflict')
      assertOutcome(await strict.handle(ping('a', { data: { n: 2 } })), 'conflict', 'conflict')
      assertOutcome(await strict.handle(ping('a')), 'duplicate')
      const rows = await hapax.failed.list()
      assert.deepEqual(
        rows.map(({ reason, consumer, message }) => [reason, consumer, Buffer.from(message.data).toString()]),
        [['conflict', 'strict', '{"n":2}']],
      )
    },
  },
  {
    name: 'A28: a handler that hands its message to its own consumer is stopped before it deadlocks with itself',
    run: async (world) => {
      const sms = world.sms(() => sms.handle(ping('a')))
      assertOutcome(await sms.handle(ping('a')), 'failed', 'reentrant')
    },
  },
]

const groups: readonly Case[] = [
  {
    name: 'claims what comes together in one call, and settles what ends together in a few',
    run: async (world) => {
      const claimed: number[] = []
      const settled: number[] = []
      const { store } = world
      const counted = altered(store, {
        claims: {
          claim: (consumer, messages, options) => {
            claimed.push(messages.length)
            return store.claims.claim(consumer, messages, options)
          },
          settle: (leases, retentionMs) => {
            settled.push(leases.length)
            return store.claims.settle(leases, retentionMs)
          },
        },
      })
      const sms = world.sms(() => {}, { hapax: world.hapax({ store: counted }), concurrency: 100 })
      const ids = Array.from({ length: 100 }, (_, at) => `m${at}`)
      const outcomes = await sms.handleMany(pings(ids))
      assert.deepEqual(new Set(statuses(outcomes)), new Set(['processed']))
      assert.deepEqual(claimed, [100])
      assert.equal(
        settled.reduce((sum, count) => sum + count),
        100,
      )
      assert.ok(settled.length <= 5, `settled in ${settled.length} calls`)
    },
  },
  {
    name: 'a failing message fails alone, and copies in one call are handled once',
    run: async (world) => {
      const calls: string[] = []
      const sms = world.sms((ctx) => {
        calls.push(ctx.message.id)
        if (ctx.message.id === 'bad') throw new Error('no')
      })
      const outcomes = await sms.handleMany(pings(['a', 'bad', 'a', 'b', 'bad']))
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ['processed', 'rolled-back', 'duplicate', 'processed', 'rolled-back'],
      )
      assert.deepEqual(calls, ['a', 'bad', 'b'])
    },
  },
  {
    name: 'reports each outcome as soon as it is known, while other handlers run',
    run: async (world) => {
      const release = Promise.withResolvers<void>()
      const told: unknown[] = []
      const sms = world.sms((ctx) => (ctx.message.id === 'slow' ? release.promise : undefined))
      const handling = sms.handleMany(pings(['a', 'slow', 'b']), undefined, (index, { status }) =>
        told.push([index, status]),
      )
      await until(async () => told.length === 2)
      release.resolve()
      assert.deepEqual(statuses(await handling), ['processed', 'processed', 'processed'])
      assert.deepEqual(told.toSorted(), [
        [0, 'processed'],
        [1, 'processed'],
        [2, 'processed'],
      ])
    },
  },
  {
    name: 'I9: more messages than may be claimed at once are all handled, by as many handlers as may run',
    run: async (world) => {
      let running = 0
      let most = 0
      const sms = world.sms(
        async () => {
          most = Math.max(most, ++running)
          await new Promise((resolve) => setImmediate(resolve))
          running -= 1
        },
        { concurrency: 7 },
      )
      const outcomes = await sms.handleMany(pings(Array.from({ length: 450 }, (_, at) => `m${at}`)))
      assert.equal(outcomes.filter(({ status }) => status === 'processed').length, 450)
      assert.equal(most, 7)
    },
  },
]

const memories: readonly Case[] = [
  {
    name: 'G1 G2: a receipt is kept for its time, or for ever; what is not finished has no time',
    run: async (world) => {
      const { store } = world
      const [short, long] = [await world.lease('short'), await world.lease('long')]
      await world.lease('open', { leaseMs: 1 })
      await store.claims.settle([short], 50)
      await store.claims.settle([long], 'forever')
      await until(async () => (await world.claim('short')).kind === 'ours')
      assertKind(await world.claim('long'), 'taken')
      const [open] = [await world.lease('open')]
      assert.equal(open?.fence, 2)
    },
  },
  {
    name: 'F9 F11 F12: consumers, sources and ids never run into each other, whatever they are made of',
    run: async (world) => {
      const hapax = world.hapax()
      const texts = [
        'a',
        'a:b',
        'b',
        ':',
        '{}',
        '{a}',
        'a}',
        '\u0000',
        'é',
        'e\u0301',
        'A',
        ' a',
        'x'.repeat(2048),
        '😀',
      ]
      let calls = 0
      for (const name of ['a', 'a:b', '{a}', 'b']) {
        const sms = world.sms(() => calls++, { hapax, name })
        const messages = texts.flatMap((source) => texts.map((id) => ping(id, { source })))
        for (const status of ['processed', 'duplicate']) {
          const outcomes = await sms.handleMany(messages)
          assert.deepEqual(new Set(statuses(outcomes)), new Set([status]))
        }
      }
      assert.equal(calls, 4 * texts.length ** 2)
    },
  },
  {
    name: 'H11: close waits for what is being handled, and refuses what comes afterwards',
    run: async (world) => {
      const hapax = await world.rival()
      const entered = gate()
      const go = gate()
      const sms = world.sms(
        async () => {
          entered.open()
          await go.passed
        },
        { hapax },
      )
      const first = sms.handle(ping('a'))
      await entered.passed
      const closed = hapax.close()
      go.open()
      assertOutcome(await first, 'processed')
      await closed
      await assert.rejects(sms.handle(ping('b')), (error) => isHapaxError(error, 'closed'))
    },
  },
]

export const claiming: readonly Case[] = [...deliveries, ...groups, ...memories]
